// Dense layers with ReLU between them under a softmax with cross-entropy: the twin of models/dense_layers.h.
// All arrays are row-major, and cuBLAS's column-major: a row-major product C = A·B is Cᵀ = Bᵀ·Aᵀ there.
#include <grid.cuh>

#include <array>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "cross_entropy_device.h"
#include "memory.h"

namespace gossamer::optim::cuda {
namespace {

using namespace compress::cuda;  // what kernels share

__global__ void add_bias_kernel(float* z, const float* bias, std::size_t rows, std::size_t n, bool relu) {
  for (std::size_t i = thread_of_grid(); i < rows * n; i += threads_in_grid()) {
    const float v = z[i] + bias[i % n];
    z[i] = relu && v < 0.0f ? 0.0f : v;  // a NaN stays one, so that a diverging run is seen
  }
}

__global__ void relu_backward_kernel(float* delta, const float* activation, std::size_t n) {
  for (std::size_t i = thread_of_grid(); i < n; i += threads_in_grid())
    if (activation[i] <= 0.0f) delta[i] = 0.0f;
}

/// Rows in order, as on the host.
__global__ void column_sums_kernel(const float* delta, std::size_t rows, std::size_t n, float* sums) {
  for (std::size_t j = thread_of_grid(); j < n; j += threads_in_grid()) {
    float sum = 0;
    for (std::size_t r = 0; r < rows; ++r) sum += delta[r * n + j];
    sums[j] = sum;
  }
}

/// A handle of its own, with the memory that it works in: products of the same sizes give the same bits.
class Blas {
 public:
  Blas(void* stream, bool tf32) : memory_(kWorkspace) {
    cublasHandle_t handle = nullptr;
    require(cublas().create(&handle), "starting cuBLAS");
    handle_.reset(handle);
    require(cublas().set_stream(handle, static_cast<cudaStream_t>(stream)), "starting cuBLAS");
    require(cublas().set_workspace(handle, memory_.data(), kWorkspace), "starting cuBLAS");
    require(cublas().set_math_mode(handle, tf32 ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH),
            "starting cuBLAS");
  }

  /// c [m,n] ← op(a)·op(b) with inner size k, all row-major and dense.
  void multiply(cublasOperation_t ta, cublasOperation_t tb, std::size_t m, std::size_t n, std::size_t k,
                const float* a, const float* b, float* c) {
    const auto mi = static_cast<int>(m), ni = static_cast<int>(n), ki = static_cast<int>(k);
    const int lda = ta == CUBLAS_OP_N ? ki : mi, ldb = tb == CUBLAS_OP_N ? ni : ki;
    const float one = 1, zero = 0;
    require(cublas().sgemm(handle_.get(), tb, ta, ni, mi, ki, &one, b, ldb, a, lda, &zero, c, ni),
            "a product of matrices");
  }

 private:
  static constexpr std::size_t kWorkspace = std::size_t{32} << 20;  ///< what cuBLAS asks for on sm_90
  struct Destroy {
    void operator()(cublasHandle_t handle) const { cublas().destroy(handle); }
  };
  DeviceArray<std::byte> memory_;
  std::unique_ptr<std::remove_pointer_t<cublasHandle_t>, Destroy> handle_;
};

class DenseModel final : public DeviceModel {
 public:
  DenseModel(const Model& host, std::vector<std::size_t> widths, const DeviceModelSpec& spec)
      : widths_(std::move(widths)),
        stream_(spec.stream),
        blas_(spec.stream, spec.tf32),
        activations_(widths_.size()) {
    adopt_layers(host);
  }

  std::size_t classes() const override { return widths_.back(); }

  void gradient(const float* x_dev, const DeviceBatch& batch, float* g_dev, DeviceLoss* loss_dev,
                const OnLayer& on_layer) override {
    const DeviceLogits logits = forward(x_dev, batch);
    cross_entropy_gradient(logits, batch, losses_.need(batch.size), loss_dev, stream_);
    const float* delta = logits.z_dev;
    for (std::size_t l = layers().size(); l-- > 0;) {
      layer_gradient(l, l == 0 ? batch.x_dev : activations_[l].data(), batch.size, delta, g_dev);
      if (l > 0) delta = delta_before(l, batch.size, delta, x_dev);
      require_started("a gradient");
      if (on_layer) on_layer(l);
    }
  }

  void evaluate(const float* x_dev, const DeviceBatch& batch, DeviceLoss* loss_dev) override {
    cross_entropy_evaluate(forward(x_dev, batch), batch.labels_dev, losses_.need(batch.size),
                           right_.need(batch.size), loss_dev, stream_);
    require_started("an evaluation");
  }

  void predict(const float* x_dev, const DeviceBatch& batch, float* probabilities_dev) override {
    softmax_rows(forward(x_dev, batch), probabilities_dev, stream_);
    require_started("a prediction");
  }

 private:
  std::size_t weight_size(std::size_t l) const { return widths_[l] * widths_[l + 1]; }

  DeviceLogits forward(const float* x_dev, const DeviceBatch& batch) {
    const std::size_t rows = batch.size;
    const float* input = batch.x_dev;
    for (std::size_t l = 0; l < layers().size(); ++l) {
      const std::size_t in = widths_[l], out = widths_[l + 1];
      const float* weight = x_dev + layers()[l].offset;
      float* z = activations_[l + 1].need(rows * out);
      blas_.multiply(CUBLAS_OP_N, CUBLAS_OP_N, rows, out, in, input, weight, z);
      launch(add_bias_kernel, blocks_for(rows * out, kThreads), kThreads, stream_, z, weight + weight_size(l),
             rows, out, l + 1 < layers().size());
      input = z;
    }
    return {activations_.back().data(), rows, classes()};
  }

  /// g of layer l, padding included, from delta of layer l.
  void layer_gradient(std::size_t l, const float* input, std::size_t rows, const float* delta, float* g_dev) {
    const std::size_t in = widths_[l], out = widths_[l + 1];
    const Layer& layer = layers()[l];
    float* weight = g_dev + layer.offset;
    blas_.multiply(CUBLAS_OP_T, CUBLAS_OP_N, in, out, rows, input, delta, weight);
    launch(column_sums_kernel, blocks_for(out, kThreads), kThreads, stream_, delta, rows, out,
           weight + weight_size(l));
    const std::size_t end = l + 1 < layers().size() ? layers()[l + 1].offset : buffer_size();
    const std::size_t padding = end - layer.offset - layer.size;
    if (padding == 0) return;
    require(
        cudaMemsetAsync(weight + layer.size, 0, padding * sizeof(float), static_cast<cudaStream_t>(stream_)),
        "clearing padding");
  }

  /// delta of layer l − 1 from that of layer l, in two buffers in turn: one is read, the other written.
  const float* delta_before(std::size_t l, std::size_t rows, const float* delta, const float* x_dev) {
    const std::size_t in = widths_[l], out = widths_[l + 1];
    float* before = deltas_[l % 2].need(rows * in);
    blas_.multiply(CUBLAS_OP_N, CUBLAS_OP_T, rows, in, out, delta, x_dev + layers()[l].offset, before);
    launch(relu_backward_kernel, blocks_for(rows * in, kThreads), kThreads, stream_, before,
           activations_[l].data(), rows * in);
    return before;
  }

  std::vector<std::size_t> widths_;
  void* stream_;
  Blas blas_;
  std::vector<DeviceArray<float>> activations_;  ///< of layer l's input; the first is the batch itself
  std::array<DeviceArray<float>, 2> deltas_;
  DeviceArray<double> losses_;
  DeviceArray<unsigned> right_;
};

using Widths = std::vector<std::size_t> (*)(const ModelSpec& spec);

std::vector<std::size_t> mlp_widths(const ModelSpec& spec) {
  std::vector<std::size_t> widths{spec.features};
  widths.insert(widths.end(), spec.hidden.begin(), spec.hidden.end());
  widths.push_back(spec.classes);
  return widths;
}
std::vector<std::size_t> softmax_widths(const ModelSpec& spec) { return {spec.features, spec.classes}; }

struct Row {
  std::string_view kind;
  Widths widths;
};
constexpr std::array kRows{Row{"mlp", mlp_widths}, Row{"softmax", softmax_widths}};

}  // namespace

std::unique_ptr<DeviceModel> make_device_model(const DeviceModelSpec& spec) {
  const std::unique_ptr<Model> host = make_model(spec.model);
  for (const Row& row : kRows)
    if (row.kind == spec.model.kind) return std::make_unique<DenseModel>(*host, row.widths(spec.model), spec);
  throw OptimError("model " + spec.model.kind + " runs on the host only; on a device: mlp, softmax");
}

}  // namespace gossamer::optim::cuda
