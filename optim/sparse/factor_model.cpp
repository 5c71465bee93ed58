// Models of at most one weight w_i and one vector v_i for each key i, over the entries x_i of a sample:
//   linear  w₀ + Σ w_i x_i
//   pairs   Σ_{i<j} ⟨v_i, v_j⟩ x_i x_j = ½ Σ_f [s_f² − Σ_i (v_if x_i)²] with s = Σ_i v_i x_i, so that a
//   sample
//           costs its entries times k (Rendle: Factorization Machines, ICDM 2010, lemma 3.1);
//           ∂/∂v_if = x_i (s_f − v_if x_i)
//   deep    a multilayer perceptron over the vectors: their sum s, or one such sum for each field side by
//   side
// lr is linear; fm linear + pairs; dnn deep; wide_deep linear + deep (Cheng et al.: Wide & Deep Learning for
// Recommender Systems, DLRS 2016); deepfm all three (Guo et al.: DeepFM, IJCAI 2017).
#include <algorithm>
#include <cassert>
#include <optional>
#include <utility>

#include "dense_layers.h"
#include "gossamer/optim/sparse.h"
#include "scratch.h"
#include "sparse_models.h"

namespace gossamer::optim {
namespace {

/// What the loops over the entries of some samples of a batch read.
struct Entries {
  Entries(const SparseBatch& batch, std::size_t row_width, std::size_t weights)
      : begins(batch.begins().data()),
        index(batch.index().data()),
        fields(batch.fields().data()),
        values(batch.values().data()),
        width(row_width),
        vectors(weights) {}
  const std::uint32_t *begins, *index, *fields;
  const float* values;
  std::size_t width, vectors;  ///< floats of a row; before its vector
};

/// z[b] += Σ w_i x_i for samples first ≤ b < end. Two sums in turn: an addition waits for the one before it.
template <bool alone>  // whether a row is its weight
void add_linear(const Entries& in, const float* rows, std::size_t first, std::size_t end, float* z) {
  const std::size_t width = alone ? 1 : in.width;
  const std::uint32_t *const begins = in.begins, *const index = in.index;
  const float* const values = in.values;
  for (std::size_t b = first; b < end; ++b) {
    float even = 0, odd = 0;
    std::size_t e = begins[b];
    const std::size_t last = begins[b + 1];
    for (; e + 2 <= last; e += 2) {
      even += rows[index[e] * width] * values[e];
      odd += rows[index[e + 1] * width] * values[e + 1];
    }
    if (e < last) even += rows[index[e] * width] * values[e];
    z[b] += even + odd;
  }
}

template <bool alone>
void linear_backward(const Entries& in, const float* kappa, std::size_t first, std::size_t end, float* g) {
  const std::size_t width = alone ? 1 : in.width;
  const std::uint32_t *const begins = in.begins, *const index = in.index;
  const float* const values = in.values;
  for (std::size_t b = first; b < end; ++b) {
    const float of_sample = kappa[b];
    const std::size_t last = begins[b + 1];
    for (std::size_t e = begins[b]; e < last; ++e) g[index[e] * width] += of_sample * values[e];
  }
}

/// For k = 4·V: sums[b] ← s, z[b] += linear + pairs. Sums over a sample's entries stay in registers.
template <std::size_t V>
void pairs_forward(const Entries& in, const float* rows, std::size_t, std::size_t first, std::size_t end,
                   float* sums, float* z) {
  for (std::size_t b = first; b < end; ++b) {
    Four s[V] = {}, squares[V] = {};
    float linear = 0;
    for (std::size_t e = in.begins[b]; e < in.begins[b + 1]; ++e) {
      const float* row = rows + in.index[e] * in.width;
      const float x = in.values[e];
      linear += row[0] * x;
      for (std::size_t f = 0; f < V; ++f) {
        const Four t = load_four(row + 1 + 4 * f) * x;
        s[f] += t;
        squares[f] += t * t;
      }
    }
    Four twice{};
    for (std::size_t f = 0; f < V; ++f) {
      store_four(sums + b * 4 * V + 4 * f, s[f]);
      twice += s[f] * s[f] - squares[f];
    }
    z[b] += linear + 0.5f * sum_of(twice);
  }
}

/// For any k.
template <>
void pairs_forward<0>(const Entries& in, const float* rows, std::size_t k, std::size_t first, std::size_t end,
                      float* sums, float* z) {
  for (std::size_t b = first; b < end; ++b) {
    float* s = sums + b * k;
    std::fill(s, s + k, 0.0f);
    float linear = 0, squares = 0, twice = 0;
    for (std::size_t e = in.begins[b]; e < in.begins[b + 1]; ++e) {
      const float* row = rows + in.index[e] * in.width;
      const float x = in.values[e];
      linear += row[0] * x;
      for (std::size_t f = 0; f < k; ++f) s[f] += row[1 + f] * x;
      for (std::size_t f = 0; f < k; ++f) squares += row[1 + f] * x * (row[1 + f] * x);
    }
    for (std::size_t f = 0; f < k; ++f) twice += s[f] * s[f];
    z[b] += linear + 0.5f * (twice - squares);
  }
}

/// g of each entry's row += κ·(x, x·(s − v x)); for k = 4·V.
template <std::size_t V>
void pairs_backward(const Entries& in, const float* rows, std::size_t, std::size_t first, std::size_t end,
                    const float* sums, const float* kappa, float* g) {
  for (std::size_t b = first; b < end; ++b) {
    Four s[V];
    for (std::size_t f = 0; f < V; ++f) s[f] = load_four(sums + b * 4 * V + 4 * f);
    for (std::size_t e = in.begins[b]; e < in.begins[b + 1]; ++e) {
      const float x = in.values[e], scale = kappa[b] * x;
      const float* row = rows + in.index[e] * in.width;
      float* to = g + in.index[e] * in.width;
      to[0] += scale;
      for (std::size_t f = 0; f < V; ++f) {
        const Four step = (s[f] - load_four(row + 1 + 4 * f) * x) * scale;
        store_four(to + 1 + 4 * f, load_four(to + 1 + 4 * f) + step);
      }
    }
  }
}

template <>
void pairs_backward<0>(const Entries& in, const float* rows, std::size_t k, std::size_t first,
                       std::size_t end, const float* sums, const float* kappa, float* g) {
  for (std::size_t b = first; b < end; ++b) {
    const float* s = sums + b * k;
    for (std::size_t e = in.begins[b]; e < in.begins[b + 1]; ++e) {
      const float x = in.values[e], scale = kappa[b] * x;
      const float* row = rows + in.index[e] * in.width;
      float* to = g + in.index[e] * in.width;
      to[0] += scale;
      for (std::size_t f = 0; f < k; ++f) to[1 + f] += scale * (s[f] - row[1 + f] * x);
    }
  }
}

/// The perceptron's input: pooled[b][place of the entry's field] += v x.
void pool(const Entries& in, const float* rows, std::size_t k, bool by_field, std::size_t samples,
          std::size_t inputs, float* pooled) {
  std::fill(pooled, pooled + samples * inputs, 0.0f);
  for (std::size_t b = 0; b < samples; ++b)
    for (std::size_t e = in.begins[b]; e < in.begins[b + 1]; ++e) {
      const float* v = rows + in.index[e] * in.width + in.vectors;
      float* to = pooled + b * inputs + (by_field ? in.fields[e] * k : 0);
      for (std::size_t f = 0; f < k; ++f) to[f] += v[f] * in.values[e];
    }
}

void pool_backward(const Entries& in, const float* delta, std::size_t k, bool by_field, std::size_t samples,
                   std::size_t inputs, float* g) {
  for (std::size_t b = 0; b < samples; ++b)
    for (std::size_t e = in.begins[b]; e < in.begins[b + 1]; ++e) {
      const float* from = delta + b * inputs + (by_field ? in.fields[e] * k : 0);
      // The dense part took the mean over the samples, rows take the sum.
      const float scale = in.values[e] * static_cast<float>(samples);
      float* to = g + in.index[e] * in.width + in.vectors;
      for (std::size_t f = 0; f < k; ++f) to[f] += from[f] * scale;
    }
}

using PairsForward = decltype(&pairs_forward<0>);
using PairsBackward = decltype(&pairs_backward<0>);
struct PairKernels {
  PairsForward forward;
  PairsBackward backward;
};
PairKernels pair_kernels(std::size_t k) {
  switch (k) {
    case 4:
      return {pairs_forward<1>, pairs_backward<1>};
    case 8:
      return {pairs_forward<2>, pairs_backward<2>};
    case 12:
      return {pairs_forward<3>, pairs_backward<3>};
    case 16:
      return {pairs_forward<4>, pairs_backward<4>};
    default:
      return {pairs_forward<0>, pairs_backward<0>};
  }
}

std::vector<std::size_t> perceptron_widths(std::size_t inputs, std::vector<std::size_t> hidden) {
  hidden.insert(hidden.begin(), inputs);
  hidden.push_back(1);
  return hidden;
}

class FactorModel final : public SparseModel {
 public:
  FactorModel(SparseModelSpec spec, Terms terms)
      : spec_(std::move(spec)),
        terms_(terms),
        k_(terms.pairs || terms.deep ? spec_.factors : 0),
        by_field_(terms.deep && spec_.pooling == "concat"),
        kernels_(pair_kernels(k_)) {
    row_width_ = (terms.linear ? 1 : 0) + k_;
    reads_bias_ = terms.linear;
    if (!terms.deep) return;
    dense_.emplace(perceptron_widths(by_field_ ? spec_.fields * k_ : k_, spec_.hidden), spec_.kind);
    layers_ = dense_->layers();
    buffer_size_ = dense_->buffer_size();
  }

  void initialise(std::uint64_t seed, std::span<float> x) const override {
    if (dense_) dense_->initialise(seed, x);
  }

  void initialise_row(std::uint64_t seed, std::uint64_t key, std::span<float> row) const override {
    assert(row.size() == row_width());
    fill_row(seed, key, key == kBiasKey ? row.size() : row_width_ - k_, spec_.deviation, row);
  }

  double gradient(const SparseBatch& batch, std::span<const float> rows, std::span<const float> x,
                  const SparseGradient& out, const OnLayer& on_layer) override {
    const Entries in = entries(batch, rows);
    assert(out.rows.size() == rows.size() && out.dense.size() == buffer_size());
    assert(out.probabilities.empty() || out.probabilities.size() == batch.size());
    std::fill(out.rows.begin(), out.rows.end(), 0.0f);
    const std::size_t n = batch.size(), block = terms_.deep ? n : kSampleBlock;
    float *z = z_.need(n).data(), *kappa = kappa_.need(n).data();
    start(batch, rows, z);
    double loss = 0, of_bias = 0;
    for (std::size_t first = 0; first < n; first += block) {
      const std::size_t end = std::min(n, first + block);
      forward(in, rows, x, first, end, z);
      loss += log_loss(z + first, batch.labels().data() + first, end - first, kappa + first,
                       out.probabilities.empty() ? nullptr : out.probabilities.data() + first);
      backward(in, rows, first, end, kappa, out.rows.data());
      for (std::size_t b = first; b < end; ++b) of_bias += static_cast<double>(kappa[b]);
    }
    if (terms_.linear) out.rows[0] = static_cast<float>(of_bias);
    if (terms_.deep) deep_backward(in, n, x, out, on_layer);
    return loss / static_cast<double>(n);
  }

  void predict(const SparseBatch& batch, std::span<const float> rows, std::span<const float> x,
               std::span<float> probabilities) override {
    const Entries in = entries(batch, rows);
    assert(probabilities.size() == batch.size());
    float* z = z_.need(batch.size()).data();
    start(batch, rows, z);
    forward(in, rows, x, 0, batch.size(), z);
    sigmoid(z, batch.size(), probabilities.data());
  }

 private:
  Entries entries(const SparseBatch& batch, std::span<const float> rows) {
    assert(batch.size() >= 1 && batch.has_bias() == reads_bias_);
    assert(rows.size() == batch.keys().size() * row_width());
    if (by_field_) require_fields(spec_, batch);
    sums_.need(batch.size() * k_);
    return {batch, row_width_, row_width_ - k_};
  }

  /// z ← w₀
  void start(const SparseBatch& batch, std::span<const float> rows, float* z) const {
    std::fill_n(z, batch.size(), terms_.linear ? rows[0] : 0.0f);
  }

  /// The samples' part of sums_, pooled_, z; with a deep part they are all the samples.
  void forward(const Entries& in, std::span<const float> rows, std::span<const float> x, std::size_t first,
               std::size_t end, float* z) {
    if (terms_.pairs)
      kernels_.forward(in, rows.data(), k_, first, end, sums_.data(), z);
    else if (terms_.linear)
      (k_ == 0 ? add_linear<true> : add_linear<false>)(in, rows.data(), first, end, z);
    if (!terms_.deep) return;
    float* pooled = pooled_.need(end * dense_->inputs()).data();
    pool(in, rows.data(), k_, by_field_, end, dense_->inputs(), pooled);
    const float* top = dense_->forward(x, pooled, end);
    for (std::size_t b = 0; b < end; ++b) z[b] += top[b];
  }

  void backward(const Entries& in, std::span<const float> rows, std::size_t first, std::size_t end,
                const float* kappa, float* g) {
    if (terms_.pairs)
      kernels_.backward(in, rows.data(), k_, first, end, sums_.data(), kappa, g);
    else if (terms_.linear)
      (k_ == 0 ? linear_backward<true> : linear_backward<false>)(in, kappa, first, end, g);
  }

  void deep_backward(const Entries& in, std::size_t n, std::span<const float> x, const SparseGradient& out,
                     const OnLayer& on_layer) {
    float* kappa = kappa_.data();
    for (std::size_t b = 0; b < n; ++b) kappa[b] /= static_cast<float>(n);
    float* delta = delta_.need(n * dense_->inputs()).data();
    dense_->backward(x, pooled_.data(), n, kappa, out.dense, delta, on_layer);
    pool_backward(in, delta, k_, by_field_, n, dense_->inputs(), out.rows.data());
  }

  SparseModelSpec spec_;
  Terms terms_;
  std::size_t k_;
  bool by_field_;
  PairKernels kernels_;
  std::optional<DenseLayers> dense_;
  Scratch<float> z_, kappa_, sums_, pooled_, delta_;
};

}  // namespace

std::unique_ptr<SparseModel> make_factor_model(const SparseModelSpec& spec, Terms terms) {
  return std::make_unique<FactorModel>(spec, terms);
}

}  // namespace gossamer::optim
