// Models and optimisers on a device against the host's. Runs on a device, and on the emulated one.
#include <cuda_runtime.h>

#include <cmath>
#include <map>

#include "device_order.h"
#include "gossamer/optim/device.h"
#include "models.h"
#include "support.h"

namespace gossamer::optim::test {
namespace {

using compress::test::order_device;

bool has_device() {
  int devices = 0;
  return cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
}

/// Device memory, of so many values.
template <class T>
class OnDevice {
 public:
  explicit OnDevice(std::size_t count) : count_(count) {
    void* memory = nullptr;
    REQUIRE(cudaMalloc(&memory, count * sizeof(T)) == cudaSuccess);
    data_ = static_cast<T*>(memory);
  }
  explicit OnDevice(std::span<const T> from) : OnDevice(from.size()) { set(from); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() { cudaFree(data_); }
  T* data() const { return data_; }
  void set(std::span<const T> from) {
    REQUIRE(cudaMemcpy(data_, from.data(), from.size_bytes(), cudaMemcpyHostToDevice) == cudaSuccess);
  }
  std::vector<T> get() const {
    std::vector<T> to(count_);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    REQUIRE(cudaMemcpy(to.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost) == cudaSuccess);
    return to;
  }

 private:
  std::size_t count_;
  T* data_;
};

/// A batch and its copy in device memory.
struct Both {
  Both(const Dataset& data, std::size_t size, float soft_weight)
      : host(data, size),
        x(std::span<const float>(host.x)),
        labels(std::span<const std::int32_t>(host.labels)),
        soft_host(size * data.classes()),
        soft(soft_host.size()) {
    for (std::size_t i = 0; i < soft_host.size(); ++i)
      soft_host[i] = static_cast<float>(i % data.classes() == i / data.classes() % data.classes()
                                            ? 0.5
                                            : 0.5 / static_cast<double>(data.classes() - 1));
    soft.set(soft_host);
    device = {size, data.features(), x.data(), labels.data()};
    if (soft_weight == 0) return;
    host.batch.soft_labels = soft_host, host.batch.soft_weight = soft_weight;
    device.soft_labels_dev = soft.data(), device.soft_weight = soft_weight;
  }
  OwnedBatch host;
  OnDevice<float> x;
  OnDevice<std::int32_t> labels;
  std::vector<float> soft_host;
  OnDevice<float> soft;
  cuda::DeviceBatch device;
};

double largest(std::span<const float> values) {
  double most = 0;
  for (const float v : values) most = std::max(most, static_cast<double>(std::abs(v)));
  return most;
}

/// Within a share of the largest of those expected.
void require_near(std::span<const float> found, std::span<const float> expected, double share) {
  REQUIRE(found.size() == expected.size());
  const double bound = share * std::max(largest(expected), 1e-30);
  for (std::size_t i = 0; i < found.size(); ++i) {
    INFO("entry " << i);
    if (!(std::abs(static_cast<double>(found[i]) - static_cast<double>(expected[i])) <= bound))
      FAIL("found " << found[i] << ", expected " << expected[i]);
  }
}

struct Shape {
  std::string kind;
  std::vector<std::size_t> hidden;
  std::size_t features, classes;
};
const std::vector<Shape> kShapes{{"softmax", {}, 5, 3},
                                 {"softmax", {}, 33, 70},
                                 {"mlp", {7}, 6, 2},
                                 {"mlp", {17, 9}, 20, 10},
                                 {"mlp", {40, 33, 8}, 12, 37}};

ModelSpec spec_of(const Shape& shape) { return {shape.kind, shape.hidden, shape.features, shape.classes}; }

}  // namespace

TEST_CASE("a model on a device has the host's gradients, losses and predictions") {
  if (!has_device()) GOSSAMER_SKIP("models on a device: no CUDA device here");
  for (const Shape& shape : kShapes) {
    const Data data = blobs(200, shape.features, shape.classes);
    const auto host = make_model(spec_of(shape));
    const auto device = cuda::make_device_model({spec_of(shape)});
    REQUIRE(device->buffer_size() == host->buffer_size());
    CHECK(device->classes() == shape.classes);
    Buffer x(*host), g(*host);
    host->initialise(3, x.span());
    const OnDevice<float> x_dev(std::span<const float>(x.span()));
    const OnDevice<float> g_dev(host->buffer_size());
    const OnDevice<cuda::DeviceLoss> loss_dev(1);
    for (const auto& [size, soft] :
         std::vector<std::pair<std::size_t, float>>{{1, 0}, {7, 0.3f}, {64, 0}, {65, 1}}) {
      INFO(shape.kind << " of " << shape.features << " features, " << shape.classes << " classes, " << size
                      << " rows, soft weight " << soft);
      order_device(size);
      const Both both(*data.train, size, soft);
      const double loss = host->gradient(x.span(), both.host.batch, g.span(), {});
      std::vector<std::size_t> order;
      device->gradient(x_dev.data(), both.device, g_dev.data(), loss_dev.data(),
                       [&](std::size_t l) { order.push_back(l); });
      require_near(g_dev.get(), g.span(), 1e-5);
      CHECK(loss_dev.get()[0].sum / static_cast<double>(size) == Approx(loss).epsilon(1e-6));
      REQUIRE(order.size() == host->layers().size());
      for (std::size_t i = 0; i < order.size(); ++i) CHECK(order[i] == order.size() - 1 - i);

      const std::vector<float> once = g_dev.get();
      order_device(size + 100);
      device->gradient(x_dev.data(), both.device, g_dev.data(), loss_dev.data(), {});
      CHECK(bit_hash(g_dev.get()) == bit_hash(once));

      const Evaluation expected = host->evaluate(x.span(), both.host.batch);
      device->evaluate(x_dev.data(), both.device, loss_dev.data());
      CHECK(loss_dev.get()[0].sum == Approx(expected.loss_sum).epsilon(1e-6));
      CHECK(loss_dev.get()[0].correct == expected.correct);

      std::vector<float> p(size * shape.classes);
      host->predict(x.span(), both.host.batch, p);
      const OnDevice<float> p_dev(p.size());
      device->predict(x_dev.data(), both.device, p_dev.data());
      require_near(p_dev.get(), p, 1e-5);
    }
  }
}

TEST_CASE("padding of a gradient on a device is zero, and a NaN shows in its loss") {
  if (!has_device()) GOSSAMER_SKIP("models on a device: no CUDA device here");
  const Shape shape{"mlp", {7, 3}, 6, 5};
  const Data data = blobs(50, shape.features, shape.classes);
  const auto device = cuda::make_device_model({spec_of(shape)});
  Buffer x(device->buffer_size());
  make_model(spec_of(shape))->initialise(1, x.span());
  std::vector<float> garbage(device->buffer_size(), 3.0f);
  const OnDevice<float> g_dev{std::span<const float>(garbage)};
  OnDevice<float> x_dev{std::span<const float>(x.span())};
  const OnDevice<cuda::DeviceLoss> loss_dev(1);
  const Both both(*data.train, 16, 0);
  device->gradient(x_dev.data(), both.device, g_dev.data(), loss_dev.data(), {});
  std::vector<float> left = g_dev.get();
  for (const Layer& layer : device->layers())
    std::fill_n(left.begin() + static_cast<std::ptrdiff_t>(layer.offset), layer.size, 0.0f);
  CHECK(largest(left) == 0);

  x[0] = std::nanf("");
  x_dev.set(x.span());
  device->gradient(x_dev.data(), both.device, g_dev.data(), loss_dev.data(), {});
  CHECK(std::isnan(loss_dev.get()[0].sum));
}

namespace {

/// Names and bits of all that an optimiser keeps.
class Kept final : public StateVisitor {
 public:
  void floats(const char* name, std::span<float> values) override {
    arrays[name] = {values.begin(), values.end()};
  }
  void by_offset(const char* name, std::map<std::size_t, std::uint64_t>& values) override {
    counts[name] = values;
  }
  void by_offset(const char* name, std::map<std::size_t, double>& values) override { rates[name] = values; }
  std::map<std::string, std::vector<float>> arrays;
  std::map<std::string, std::map<std::size_t, std::uint64_t>> counts;
  std::map<std::string, std::map<std::size_t, double>> rates;
};

/// Puts what another kept in its place.
class Given final : public StateVisitor {
 public:
  explicit Given(Kept kept) : kept_(std::move(kept)) {}
  void floats(const char* name, std::span<float> values) override {
    std::ranges::copy(kept_.arrays.at(name), values.begin());
  }
  void by_offset(const char* name, std::map<std::size_t, std::uint64_t>& values) override {
    values = kept_.counts.at(name);
  }
  void by_offset(const char* name, std::map<std::size_t, double>& values) override {
    values = kept_.rates.at(name);
  }

 private:
  Kept kept_;
};

std::vector<float> drawn(std::size_t n, std::uint64_t seed) {
  std::vector<float> values(n);
  fill_normal(seed, 0, 1, values);
  return values;
}

}  // namespace

TEST_CASE("optimisers on a device take the host's steps to the bit, and go on from its state") {
  if (!has_device()) GOSSAMER_SKIP("optimisers on a device: no CUDA device here");
  constexpr std::size_t kSize = 1040, kOffset = 16, kFloats = 1001;
  for (const NamedHelp& row : optimizer_table()) {
    INFO(row.name);
    OptimizerSpec spec{.kind = row.name, .learning_rate = 0.07, .weight_decay = 0.01, .schedule = "cosine"};
    spec.total_steps = 9;
    const auto host = make_optimizer(spec, kSize);
    const auto device = cuda::make_device_optimizer(spec, kSize, nullptr);
    const auto resumed = cuda::make_device_optimizer(spec, kSize, nullptr);
    std::vector<float> x = drawn(kFloats, 1), u(kFloats);
    OnDevice<float> x_dev{std::span<const float>(x)};
    for (std::uint64_t t = 0; t < 6; ++t) {
      const std::vector<float> g = drawn(kFloats, 10 + t);
      if (t == 3) {
        Kept kept;
        host->show(kept);
        Given given(kept);
        resumed->show(given);
      }
      host->step(static_cast<double>(t), kOffset, x, g, u);
      for (cuda::DeviceOptimizer* one : {device.get(), t < 3 ? nullptr : resumed.get()}) {
        if (one == nullptr) continue;
        const OnDevice<float> g_dev{std::span<const float>(g)};  // which becomes the step
        one->step(static_cast<double>(t), kOffset, x_dev.data(), g_dev.data(), g_dev.data(), kFloats);
        CHECK(bit_hash(g_dev.get()) == bit_hash(u));
      }
      for (std::size_t i = 0; i < kFloats; ++i) x[i] -= u[i];
      x_dev.set(x);
    }
    Kept of_host, of_device;
    host->show(of_host), device->show(of_device);
    CHECK(of_host.counts == of_device.counts);
    CHECK(of_host.rates == of_device.rates);
    REQUIRE(of_host.arrays.size() == of_device.arrays.size());
    for (const auto& [name, values] : of_host.arrays)
      CHECK(bit_hash(of_device.arrays.at(name)) == bit_hash(values));
  }
}

TEST_CASE("a second moment that stands is raised to a tenth of its mean on a device, too") {
  if (!has_device()) GOSSAMER_SKIP("optimisers on a device: no CUDA device here");
  constexpr std::size_t kFloats = 1000;
  OptimizerSpec spec{.kind = "adam", .learning_rate = 0.01};
  spec.second_moment_steps = 2, spec.total_steps = 10;
  const auto host = make_optimizer(spec, kFloats);
  const auto device = cuda::make_device_optimizer(spec, kFloats, nullptr);
  const std::vector<float> x(kFloats, 0.0f);
  const OnDevice<float> x_dev{std::span<const float>(x)};
  for (std::uint64_t t = 0; t < 5; ++t) {
    std::vector<float> g = drawn(kFloats, t), u(kFloats);
    if (t < 2) std::fill_n(g.begin(), 100, 0.0f);
    const OnDevice<float> g_dev{std::span<const float>(g)};
    host->step(static_cast<double>(t), 0, x, g, u);
    device->step(static_cast<double>(t), 0, x_dev.data(), g_dev.data(), g_dev.data(), kFloats);
    require_near(g_dev.get(), u, 1e-6);
  }
}

TEST_CASE("what runs on the host only, or is none at all, is refused on a device") {
  if (!has_device()) GOSSAMER_SKIP("models on a device: no CUDA device here");
  CHECK_THROWS_WITH(cuda::make_device_model({ModelSpec{"quadratic", {}, 4, 0}}),
                    ContainsSubstring("runs on the host only"));
  CHECK_THROWS_AS(cuda::make_device_model({ModelSpec{"mpl", {}, 4, 2}}), OptimError);
  CHECK_THROWS_AS(cuda::make_device_optimizer({.kind = "adamm"}, 16, nullptr), OptimError);
  CHECK_THROWS_AS(cuda::make_device_optimizer({.kind = "momentum", .momentum = 2}, 16, nullptr), OptimError);
}

}  // namespace gossamer::optim::test
