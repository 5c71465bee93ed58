#include "dense_layers.h"

#include <cblas.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>
#include <utility>

#include "models.h"

namespace gossamer::optim {
namespace {

constexpr std::size_t kAlignFloats = 16;                  // 64 bytes
constexpr std::size_t kMostUnits = std::size_t{1} << 24;  // BLAS sizes and their sums stay within int

/// c [m,n] ← op(a)·op(b) with inner size k, all row-major and dense.
void multiply(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, std::size_t m, std::size_t n, std::size_t k,
              const float* a, const float* b, float* c) {
  const auto mi = static_cast<int>(m), ni = static_cast<int>(n), ki = static_cast<int>(k);
  const int lda = ta == CblasNoTrans ? ki : mi, ldb = tb == CblasNoTrans ? ni : ki;
  cblas_sgemm(CblasRowMajor, ta, tb, mi, ni, ki, 1.0f, a, lda, b, ldb, 0.0f, c, ni);
}

void add_bias(float* z, const float* bias, std::size_t rows, std::size_t n) {
  for (std::size_t r = 0; r < rows; ++r, z += n)
    for (std::size_t j = 0; j < n; ++j) z[j] += bias[j];
}

/// z ← max(z + bias, 0); a NaN stays one, so that a diverging run is seen.
void add_bias_relu(float* z, const float* bias, std::size_t rows, std::size_t n) {
  for (std::size_t r = 0; r < rows; ++r, z += n)
    for (std::size_t j = 0; j < n; ++j) {
      const float v = z[j] + bias[j];
      z[j] = v < 0.0f ? 0.0f : v;
    }
}

/// delta ← delta where the activation is positive, else 0.
void relu_backward(float* delta, const float* activation, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const float d = delta[i];  // read always: only then compilers make a vector loop of it
    delta[i] = activation[i] <= 0.0f ? 0.0f : d;
  }
}

void column_sums(const float* delta, std::size_t rows, std::size_t n, float* sums) {
  std::fill(sums, sums + n, 0.0f);
  for (std::size_t r = 0; r < rows; ++r, delta += n)
    for (std::size_t j = 0; j < n; ++j) sums[j] += delta[j];
}

}  // namespace

void append_layer(std::vector<Layer>& layers, std::size_t& buffer_size, std::string name,
                  std::vector<Tensor> tensors) {
  Layer layer{std::move(name), buffer_size, 0, std::move(tensors)};
  for (Tensor& tensor : layer.tensors) {
    tensor.offset = layer.offset + layer.size;
    layer.size +=
        std::accumulate(tensor.shape.begin(), tensor.shape.end(), std::size_t{1}, std::multiplies<>());
  }
  const std::size_t end = layer.offset + layer.size;
  buffer_size = (end + kAlignFloats - 1) / kAlignFloats * kAlignFloats;
  layers.push_back(std::move(layer));
}

DenseLayers::DenseLayers(std::vector<std::size_t> widths, const std::string& model)
    : widths_(std::move(widths)), activations_(widths_.size()) {
  for (const std::size_t width : widths_)
    if (width == 0 || width > kMostUnits)
      throw OptimError("model " + model + ": found a layer of " + std::to_string(width) +
                       " units, expected 1 to " + std::to_string(kMostUnits));
  for (std::size_t l = 0; l + 1 < widths_.size(); ++l) {
    const std::string name = "fc" + std::to_string(l + 1);
    append_layer(
        layers_, buffer_size_, name,
        {{name + ".weight", {widths_[l], widths_[l + 1]}, 0}, {name + ".bias", {widths_[l + 1]}, 0}});
  }
}

void DenseLayers::initialise(std::uint64_t seed, std::span<float> x) const {
  assert(x.size() == buffer_size());
  std::fill(x.begin(), x.end(), 0.0f);
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    const auto in = static_cast<double>(widths_[l]), out = static_cast<double>(widths_[l + 1]);
    const bool last = l + 1 == layers_.size();
    fill_normal(seed, l, std::sqrt(2 / (last ? in + out : in)), x.subspan(layers_[l].offset, weight_size(l)));
  }
}

/// activations_[l] ← a_l for l ≥ 1; a_0 is the input itself.
float* DenseLayers::forward(std::span<const float> x, const float* input, std::size_t rows) {
  assert(x.size() == buffer_size() && rows >= 1);
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    const std::size_t in = widths_[l], out = widths_[l + 1];
    const float* weight = x.data() + layers_[l].offset;
    float* z = activations_[l + 1].need(rows * out).data();
    multiply(CblasNoTrans, CblasNoTrans, rows, out, in, input, weight, z);
    const bool last = l + 1 == layers_.size();
    (last ? add_bias : add_bias_relu)(z, weight + weight_size(l), rows, out);
    input = z;
  }
  return activations_.back().data();
}

void DenseLayers::backward(std::span<const float> x, const float* input, std::size_t rows, const float* delta,
                           std::span<float> g, float* input_delta, const OnLayer& on_layer) {
  assert(x.size() == buffer_size() && g.size() == buffer_size());
  for (std::size_t l = layers_.size(); l-- > 0;) {
    layer_gradient(l, l == 0 ? input : activations_[l].data(), rows, delta, g);
    // two buffers in turn: delta is read, the one before it written
    float* before = l == 0 ? input_delta : deltas_[l % 2].need(rows * widths_[l]).data();
    if (before) delta_before(l, rows, delta, x, before);
    delta = before;
    if (on_layer) on_layer(l);
  }
}

/// g of layer l, padding included, from delta of layer l.
void DenseLayers::layer_gradient(std::size_t l, const float* input, std::size_t rows, const float* delta,
                                 std::span<float> g) {
  const std::size_t in = widths_[l], out = widths_[l + 1];
  const Layer& layer = layers_[l];
  float* weight = g.data() + layer.offset;
  multiply(CblasTrans, CblasNoTrans, in, out, rows, input, delta, weight);
  column_sums(delta, rows, out, weight + weight_size(l));
  const std::size_t end = l + 1 < layers_.size() ? layers_[l + 1].offset : buffer_size();
  std::fill(weight + layer.size, g.data() + end, 0.0f);
}

/// delta of layer l−1, or of the input for l = 0, from delta of layer l.
void DenseLayers::delta_before(std::size_t l, std::size_t rows, const float* delta, std::span<const float> x,
                               float* before) {
  const std::size_t in = widths_[l], out = widths_[l + 1];
  multiply(CblasNoTrans, CblasTrans, rows, in, out, delta, x.data() + layers_[l].offset, before);
  if (l > 0) relu_backward(before, activations_[l].data(), rows * in);
}

}  // namespace gossamer::optim
