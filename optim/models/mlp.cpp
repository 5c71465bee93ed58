// Multilayer perceptron. Layer l has the weight W_l [in,out] and the bias b_l: z = a_l·W_l + b_l, with a_0
// the batch and a_(l+1) = max(z, 0); the last z are the logits of a softmax with cross-entropy. Back
// propagation (Rumelhart, Hinton, Williams: Learning representations by back-propagating errors, Nature 1986)
// runs from the last layer to the first. With delta = ∂loss/∂z of layer l over the batch:
//     ∂loss/∂W_l = a_lᵀ·delta      ∂loss/∂b_l = column sums of delta      delta of layer l−1 = (delta·W_lᵀ)
//     where a_l > 0
// W_l is read last by the third product, so layer l is reported after it. Initial weights are He-normal for
// hidden layers (He et al.: Delving Deep into Rectifiers, ICCV 2015, eq. 10) and Glorot-normal for the last
// (Glorot, Bengio: Understanding the difficulty of training deep feedforward neural networks, AISTATS 2010,
// eq. 12); biases are 0.
#include <cblas.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <string>
#include <utility>

#include "cross_entropy.h"
#include "models.h"
#include "scratch.h"

namespace gossamer::optim {
namespace {

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

class Mlp final : public Model {
 public:
  explicit Mlp(std::vector<std::size_t> widths) : widths_(std::move(widths)), activations_(widths_.size()) {
    for (std::size_t l = 0; l + 1 < widths_.size(); ++l) {
      const std::string name = "fc" + std::to_string(l + 1);
      add_layer(name,
                {{name + ".weight", {widths_[l], widths_[l + 1]}, 0}, {name + ".bias", {widths_[l + 1]}, 0}});
    }
  }

  void initialise(std::uint64_t seed, std::span<float> x) const override {
    assert(x.size() == buffer_size());
    std::fill(x.begin(), x.end(), 0.0f);
    for (std::size_t l = 0; l < layers().size(); ++l) {
      const auto in = static_cast<double>(widths_[l]), out = static_cast<double>(widths_[l + 1]);
      const bool last = l + 1 == layers().size();
      fill_normal(seed, l, std::sqrt(2 / (last ? in + out : in)),
                  x.subspan(layers()[l].offset, weight_size(l)));
    }
  }

  double gradient(std::span<float> x, const Batch& batch, std::span<float> g,
                  const OnLayer& on_layer) override {
    assert(x.size() == buffer_size() && g.size() == buffer_size());
    const Logits logits = forward(x, batch);
    const double loss = cross_entropy_gradient(logits, batch) / static_cast<double>(batch.size);
    float* delta = logits.data;
    for (std::size_t l = layers().size(); l-- > 0;) {
      layer_gradient(l, batch, delta, g);
      if (l > 0) delta = previous_delta(l, batch.size, delta, x);
      if (on_layer) on_layer(l);
    }
    return loss;
  }

  Evaluation evaluate(std::span<const float> x, const Batch& batch) override {
    assert(x.size() == buffer_size());
    return cross_entropy_evaluate(forward(x, batch), batch.labels);
  }

  std::size_t classes() const override { return widths_.back(); }

  void predict(std::span<const float> x, const Batch& batch, std::span<float> probabilities) override {
    softmax_rows(forward(x, batch), probabilities);
  }

 private:
  std::size_t weight_size(std::size_t l) const { return widths_[l] * widths_[l + 1]; }

  /// activations_[l] ← a_l for l ≥ 1 (a_0 is the batch itself); returns the logits.
  Logits forward(std::span<const float> x, const Batch& batch) {
    assert(batch.size >= 1 && batch.features == widths_.front() &&
           batch.x.size() >= batch.size * batch.features);
    const float* input = batch.x.data();
    for (std::size_t l = 0; l < layers().size(); ++l) {
      const std::size_t in = widths_[l], out = widths_[l + 1];
      const float* weight = x.data() + layers()[l].offset;
      float* z = activations_[l + 1].need(batch.size * out).data();
      multiply(CblasNoTrans, CblasNoTrans, batch.size, out, in, input, weight, z);
      const bool last = l + 1 == layers().size();
      (last ? add_bias : add_bias_relu)(z, weight + weight_size(l), batch.size, out);
      input = z;
    }
    return {activations_.back().data(), batch.size, widths_.back(), widths_.back()};
  }

  /// g of layer l, padding included, from delta of layer l.
  void layer_gradient(std::size_t l, const Batch& batch, const float* delta, std::span<float> g) {
    const std::size_t in = widths_[l], out = widths_[l + 1];
    const Layer& layer = layers()[l];
    const float* input = l == 0 ? batch.x.data() : activations_[l].data();
    float* weight = g.data() + layer.offset;
    multiply(CblasTrans, CblasNoTrans, in, out, batch.size, input, delta, weight);
    column_sums(delta, batch.size, out, weight + weight_size(l));
    const std::size_t end = l + 1 < layers().size() ? layers()[l + 1].offset : buffer_size();
    std::fill(weight + layer.size, g.data() + end, 0.0f);
  }

  /// delta of layer l−1 from delta of layer l.
  float* previous_delta(std::size_t l, std::size_t rows, const float* delta, std::span<const float> x) {
    const std::size_t in = widths_[l], out = widths_[l + 1];
    float* previous =
        deltas_[l % 2].need(rows * in).data();  // two buffers in turn: delta is read, previous written
    multiply(CblasNoTrans, CblasTrans, rows, in, out, delta, x.data() + layers()[l].offset, previous);
    relu_backward(previous, activations_[l].data(), rows * in);
    return previous;
  }

  std::vector<std::size_t> widths_;  ///< features, hidden …, classes
  std::vector<Scratch<float>> activations_;
  Scratch<float> deltas_[2];
};

std::unique_ptr<Model> make_mlp(const ModelSpec& spec) {
  require_classes(spec);
  std::vector<std::size_t> widths{spec.features};
  widths.insert(widths.end(), spec.hidden.begin(), spec.hidden.end());
  widths.push_back(spec.classes);
  for (std::size_t width : widths)
    if (width == 0 || width > kMostUnits)
      throw OptimError("model mlp: found a layer of " + std::to_string(width) + " units, expected 1 to " +
                       std::to_string(kMostUnits));
  return std::make_unique<Mlp>(std::move(widths));
}

}  // namespace

constinit const ModelKind kMlp{
    .row = {"mlp", "dense layers with ReLU and cross-entropy (hidden = sizes of the hidden layers)",
            "hidden"},
    .make = make_mlp,
    .traits = {.hidden = true}};

}  // namespace gossamer::optim
