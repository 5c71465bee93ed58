// The twins of optimizers/: the same operations in the same order for each entry, so that the steps have the
// host's bits (but for 1-bit Adam's least second moment, a sum).
#include <grid.cuh>

#include <array>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "elementary.h"
#include "gossamer/optim/device.h"
#include "memory.h"
#include "quasi_global.h"

namespace gossamer::optim::cuda {
namespace {

using namespace compress::cuda;  // what kernels share

/// f(i) for all i.
template <class F>
__global__ void each_kernel(F f, std::size_t n) {
  for (std::size_t i = thread_of_grid(); i < n; i += threads_in_grid()) f(i);
}

/// Arrays of the parameters' size, and the numbers that an optimiser keeps beside them.
class DeviceState {
 public:
  DeviceState(std::size_t buffer_size, void* stream)
      : size_(buffer_size), stream_(static_cast<cudaStream_t>(stream)) {}

  /// One more array, zeros.
  float* array(const char* name) {
    arrays_.push_back({name, DeviceArray<float>(size_)});
    float* data = arrays_.back().values.data();
    if (size_ > 0)
      require(cudaMemsetAsync(data, 0, size_ * sizeof(float), stream_), "clearing an optimiser's state");
    return data;
  }
  void show(StateVisitor& visitor) {
    std::vector<float> host(size_);
    for (Array& array : arrays_) {
      copy(host.data(), array.values.data(), cudaMemcpyDeviceToHost);
      visitor.floats(array.name, host);
      copy(array.values.data(), host.data(), cudaMemcpyHostToDevice);
    }
  }
  template <class F>
  void each(std::size_t n, const F& f) {
    if (n == 0) return;
    launch(each_kernel<F>, blocks_for(n, kThreads), kThreads, stream_, f, n);
    require_started("an optimiser's step");
  }
  void* stream() const { return stream_; }

 private:
  struct Array {
    const char* name;
    DeviceArray<float> values;
  };
  void copy(void* to, const void* from, cudaMemcpyKind kind) {
    if (size_ == 0) return;
    require(cudaMemcpyAsync(to, from, size_ * sizeof(float), kind, stream_), "copying an optimiser's state");
    require(cudaStreamSynchronize(stream_), "copying an optimiser's state");
  }
  std::size_t size_;
  cudaStream_t stream_;
  std::vector<Array> arrays_;
};

struct SgdStep {
  const float *x, *g;
  float* u;
  float rate, decay;
  __device__ void operator()(std::size_t i) const { u[i] = rate * (g[i] + decay * x[i]); }
};

class Sgd final : public DeviceOptimizer {
 public:
  Sgd(const OptimizerSpec& spec, std::size_t buffer_size, void* stream)
      : spec_(spec), state_(buffer_size, stream) {}
  void step(double place, std::size_t, const float* x_dev, const float* g_dev, float* u_dev,
            std::size_t n) override {
    state_.each(n, SgdStep{x_dev, g_dev, u_dev, static_cast<float>(learning_rate(spec_, place)),
                           static_cast<float>(spec_.weight_decay)});
  }
  void show(StateVisitor&) override {}

 private:
  OptimizerSpec spec_;
  DeviceState state_;
};

template <bool look_ahead>
struct MomentumStep {
  const float *x, *g;
  float *u, *velocity;
  float rate, decay, m;
  __device__ void operator()(std::size_t i) const {
    const float d = g[i] + decay * x[i];
    const float v = m * velocity[i] + d;
    velocity[i] = v;
    u[i] = look_ahead ? rate * d + rate * m * v : rate * v;
  }
};

template <bool look_ahead>
class Momentum final : public DeviceOptimizer {
 public:
  Momentum(const OptimizerSpec& spec, std::size_t buffer_size, void* stream)
      : spec_(spec), state_(buffer_size, stream), velocity_(state_.array("velocity")) {}
  void step(double place, std::size_t offset, const float* x_dev, const float* g_dev, float* u_dev,
            std::size_t n) override {
    state_.each(n, MomentumStep<look_ahead>{x_dev, g_dev, u_dev, velocity_ + offset,
                                            static_cast<float>(learning_rate(spec_, place)),
                                            static_cast<float>(spec_.weight_decay),
                                            static_cast<float>(spec_.momentum)});
  }
  void show(StateVisitor& visitor) override { state_.show(visitor); }

 private:
  OptimizerSpec spec_;
  DeviceState state_;
  float* velocity_;
};

struct AdamStep {
  const float *x, *g;
  float *u, *mean, *square;
  float mean_rate, square_scale, keep1, add1, keep2, add2, epsilon, decay;
  __device__ void operator()(std::size_t i) const {
    const float m = mean[i] = keep1 * mean[i] + add1 * g[i];
    const float v = square[i] = keep2 * square[i] + add2 * g[i] * g[i];
    u[i] = mean_rate * m / (std::sqrt(v * square_scale) + epsilon) + decay * x[i];
  }
};

struct BlockSum {
  double values[kThreads];
};

/// One block: values ← at least factor · their mean.
__global__ void raise_kernel(float* values, std::size_t n, double factor) {
  BlockSum& sums = shared<BlockSum>();
  double sum = 0;
  for (std::size_t i = threadIdx.x; i < n; i += kThreads) sum += static_cast<double>(values[i]);
  sums.values[threadIdx.x] = sum;
  __syncthreads();
  for (unsigned width = kThreads / 2; width > 0; width /= 2) {
    if (threadIdx.x < width) sums.values[threadIdx.x] += sums.values[threadIdx.x + width];
    __syncthreads();
  }
  const auto least = static_cast<float>(factor * sums.values[0] / static_cast<double>(n));
  for (std::size_t i = threadIdx.x; i < n; i += kThreads) values[i] = values[i] < least ? least : values[i];
}

class Adam final : public DeviceOptimizer {
 public:
  Adam(const OptimizerSpec& spec, std::size_t buffer_size, void* stream)
      : spec_(spec),
        state_(buffer_size, stream),
        mean_(state_.array("mean")),
        square_(state_.array("square")) {}

  void step(double place, std::size_t offset, const float* x_dev, const float* g_dev, float* u_dev,
            std::size_t n) override {
    constexpr double kLeastSquare = 0.1;  // as the host's
    const double rate = learning_rate(spec_, place);
    const std::uint64_t taken = ++steps_[offset], last = spec_.second_moment_steps;
    const bool learns = last == 0 || taken <= last;
    if (last != 0 && taken == last + 1 && n > 0)
      launch(raise_kernel, 1, kThreads, state_.stream(), square_ + offset, n, kLeastSquare);
    state_.each(n,
                AdamStep{x_dev, g_dev, u_dev, mean_ + offset, square_ + offset,
                         static_cast<float>(rate / (1 - power(spec_.beta1, taken))),
                         static_cast<float>(1 / (1 - power(spec_.beta2, learns ? taken : last))),
                         static_cast<float>(spec_.beta1), static_cast<float>(1 - spec_.beta1),
                         static_cast<float>(learns ? spec_.beta2 : 1),
                         static_cast<float>(learns ? 1 - spec_.beta2 : 0), static_cast<float>(spec_.epsilon),
                         static_cast<float>(rate * spec_.weight_decay)});
  }
  void show(StateVisitor& visitor) override {
    state_.show(visitor);
    visitor.by_offset("steps", steps_);
  }

 private:
  OptimizerSpec spec_;
  DeviceState state_;
  float *mean_, *square_;
  std::map<std::size_t, std::uint64_t> steps_;
};

struct QuasiGlobalStep {
  const float *x, *g;
  float *u, *direction, *before;
  float rate, decay, m, share;  ///< share 0: the direction stands
  bool begins;                  ///< x is that before the steps up to the next mixing
  __device__ void operator()(std::size_t i) const {
    if (share > 0) direction[i] = m * direction[i] + share * (before[i] - x[i]);
    if (begins) before[i] = x[i];
    u[i] = rate * (m * direction[i] + (g[i] + decay * x[i]));
  }
};

class QuasiGlobal final : public DeviceOptimizer {
 public:
  QuasiGlobal(const OptimizerSpec& spec, std::size_t buffer_size, void* stream)
      : spec_(spec),
        state_(buffer_size, stream),
        direction_(state_.array("direction")),
        before_(state_.array("before")) {}
  void step(double place, std::size_t offset, const float* x_dev, const float* g_dev, float* u_dev,
            std::size_t n) override {
    const double eta = learning_rate(spec_, place);
    const QuasiGlobalPeriod::Due due = period_.step(offset, eta);
    state_.each(
        n, QuasiGlobalStep{x_dev, g_dev, u_dev, direction_ + offset, before_ + offset,
                           static_cast<float>(eta), static_cast<float>(spec_.weight_decay),
                           static_cast<float>(spec_.momentum), static_cast<float>(due.share), due.begins});
  }
  void show(StateVisitor& visitor) override {
    state_.show(visitor);
    period_.show(visitor);
  }

 private:
  OptimizerSpec spec_;
  DeviceState state_;
  float *direction_, *before_;
  QuasiGlobalPeriod period_{spec_};
};

template <class Kind>
std::unique_ptr<DeviceOptimizer> make(const OptimizerSpec& spec, std::size_t buffer_size, void* stream) {
  return std::make_unique<Kind>(spec, buffer_size, stream);
}

struct Row {
  std::string_view kind;
  std::unique_ptr<DeviceOptimizer> (*make)(const OptimizerSpec& spec, std::size_t buffer_size, void* stream);
};
constexpr std::array kRows{Row{"sgd", make<Sgd>}, Row{"momentum", make<Momentum<false>>},
                           Row{"nesterov", make<Momentum<true>>}, Row{"adam", make<Adam>},
                           Row{"quasi_global", make<QuasiGlobal>}};

}  // namespace

std::unique_ptr<DeviceOptimizer> make_device_optimizer(const OptimizerSpec& spec, std::size_t buffer_size,
                                                       void* stream) {
  (void)make_optimizer(spec, 0);  // refuses what the host refuses
  for (const Row& row : kRows)
    if (row.kind == spec.kind) return row.make(spec, buffer_size, stream);
  throw OptimError("optimizer kind " + spec.kind + " runs on the host only");
}

}  // namespace gossamer::optim::cuda
