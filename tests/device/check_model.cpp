// A device's gradients beside the products of matrices that they are made of, by bare cuBLAS; needs what
// check_device needs, and cuBLAS.
//   check_model [batch [runs]]
// Prints a line for each model: milliseconds of a gradient, of its products alone, and the share that these
// are. Ends with 0, or with 2 where there is no device.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "cublas.h"
#include "device_memory.h"
#include "gossamer/compress/device_vectors.h"
#include "gossamer/compress/kernels.h"
#include "gossamer/optim/device.h"
#include "memory.h"

using namespace gossamer;
using compress::test::OnDevice;
using optim::cuda::require;

namespace {

/// Median milliseconds of what submit puts on the stream.
template <class Submit>
double milliseconds(cudaStream_t stream, int runs, const Submit& submit) {
  cudaEvent_t before, after;
  require(cudaEventCreate(&before), "making an event");
  require(cudaEventCreate(&after), "making an event");
  std::vector<float> taken;
  for (int run = 0; run < runs + 2; ++run) {
    require(cudaEventRecord(before, stream), "recording an event");
    submit();
    require(cudaEventRecord(after, stream), "recording an event");
    require(cudaEventSynchronize(after), "work on the device");
    float ms = 0;
    require(cudaEventElapsedTime(&ms, before, after), "reading a time");
    if (run >= 2) taken.push_back(ms);  // the first ones warm up
  }
  require(cudaEventDestroy(before), "ending an event");
  require(cudaEventDestroy(after), "ending an event");
  std::nth_element(taken.begin(), taken.begin() + runs / 2, taken.end());
  return static_cast<double>(taken[static_cast<std::size_t>(runs / 2)]);
}

/// The products of one gradient, over memory of their own.
class Products {
 public:
  Products(std::vector<std::size_t> widths, std::size_t batch, cudaStream_t stream)
      : widths_(std::move(widths)), batch_(batch), a_(numbers()), b_(numbers()), c_(numbers()) {
    require(optim::cuda::cublas().create(&handle_), "starting cuBLAS");
    require(optim::cuda::cublas().set_stream(handle_, stream), "starting cuBLAS");
  }
  ~Products() { optim::cuda::cublas().destroy(handle_); }
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  void submit() const {
    for (std::size_t l = 0; l + 1 < widths_.size(); ++l) {
      multiply(widths_[l + 1], batch_, widths_[l]);             // forward
      multiply(widths_[l + 1], widths_[l], batch_);             // of the weights
      if (l > 0) multiply(widths_[l], batch_, widths_[l + 1]);  // of what goes into the layer
    }
  }

 private:
  /// Of the largest matrix.
  std::vector<float> numbers() const {
    const std::size_t widest = *std::max_element(widths_.begin(), widths_.end());
    return std::vector<float>(widest * std::max(widest, batch_), 0.01f);
  }
  /// [m,n] ← [m,k]·[k,n], column-major.
  void multiply(std::size_t m, std::size_t n, std::size_t k) const {
    const auto mi = static_cast<int>(m), ni = static_cast<int>(n), ki = static_cast<int>(k);
    const float one = 1, zero = 0;
    require(optim::cuda::cublas().sgemm(handle_, CUBLAS_OP_N, CUBLAS_OP_N, mi, ni, ki, &one, a_.data(), mi,
                                        b_.data(), ki, &zero, c_.data(), mi),
            "a product of matrices");
  }
  std::vector<std::size_t> widths_;
  std::size_t batch_;
  OnDevice<float> a_, b_, c_;
  cublasHandle_t handle_ = nullptr;
};

void check(const std::vector<std::size_t>& hidden, std::size_t batch, int runs) {
  const compress::cuda::Stream stream;
  auto* const raw = static_cast<cudaStream_t>(stream.get());
  const optim::ModelSpec spec{.kind = "mlp", .hidden = hidden, .features = 784, .classes = 10};
  const auto host = optim::make_model(spec);
  std::vector<float> x(host->buffer_size());
  host->initialise(1, x);
  const auto model = optim::cuda::make_device_model({.model = spec, .stream = stream.get()});
  const OnDevice<float> x_dev(x), g_dev(x.size()), rows(std::vector<float>(batch * spec.features, 0.3f));
  const OnDevice<std::int32_t> labels(std::vector<std::int32_t>(batch, 1));
  const OnDevice<optim::cuda::DeviceLoss> loss(1);
  const optim::cuda::DeviceBatch there{batch, spec.features, rows.data(), labels.data()};
  const double gradient = milliseconds(
      raw, runs, [&] { model->gradient(x_dev.data(), there, g_dev.data(), loss.data(), nullptr); });
  std::vector<std::size_t> widths{spec.features};
  widths.insert(widths.end(), hidden.begin(), hidden.end());
  widths.push_back(spec.classes);
  const Products products(widths, batch, raw);
  const double bare = milliseconds(raw, runs, [&] { products.submit(); });
  std::printf("784");
  for (const std::size_t width : hidden) std::printf("-%zu", width);
  std::printf("-10 batch %zu: gradient %.3f ms, its products alone %.3f ms, %.0f %%\n", batch, gradient, bare,
              100 * bare / gradient);
}

int run(std::size_t batch, int runs) {
  std::string why;
  if (!compress::cuda::available(why)) {
    std::fprintf(stderr, "check_model: %s\n", why.c_str());
    return 2;
  }
  const bool small = batch < 32;  // an emulated device
  for (const std::size_t width : {1024, 4096}) check({small ? 32 : width, small ? 32 : width}, batch, runs);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 256,
               argc > 2 ? std::max(1, std::atoi(argv[2])) : 21);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "check_model: %s\n", error.what());
    return 1;
  }
}
