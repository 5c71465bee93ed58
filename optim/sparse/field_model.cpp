// Field-aware factorisation machine (Juan, Zhuang, Chin, Lin: Field-aware Factorization Machines for CTR
// Prediction, RecSys 2016): z = w₀ + Σ w_i x_i + Σ_{i<j} ⟨v_{i,f_j}, v_{j,f_i}⟩ x_i x_j, where f_i is the
// field of entry i and a key has a vector for each field. Two ways to the same sum:
//   pairs  as written: m(m−1)/2 products of k floats, all of whose loads are whole vectors
//   sums   S[f][g] = Σ_{i of field f} v_{i,g} x_i, so that the pairs' sum is
//          Σ_{f<g} ⟨S[f][g], S[g][f]⟩ + ½ Σ_f [‖S[f][f]‖² − Σ_{i of f} ‖v_{i,f} x_i‖²]
//          and ∂/∂v_{i,g} = x_i (S[g][f_i] − [g = f_i] v_{i,g} x_i): m·q products for q fields present
// A sample takes the way with fewer products.
#include <algorithm>
#include <cassert>
#include <utility>
#include <vector>

#include "gossamer/optim/sparse.h"
#include "prefetch.h"
#include "scratch.h"
#include "sparse_models.h"

namespace gossamer::optim {
namespace {

/// One sample's entries; the vectors of row r and field f stand at r + 1 + f·k.
struct FieldSample {
  const std::uint32_t *index, *fields;
  const float* values;
  std::size_t count, width, k;
  const std::size_t *vectors,
      *of_fields;  ///< where an entry's vectors stand among all rows; its field's in a row
};

/// Sums over the pairs' products stay in a register: V vectors of four factors to k.
template <std::size_t V>
float field_pairs(const FieldSample& in, const float* rows) {
  const std::size_t *const vectors = in.vectors, *const of_fields = in.of_fields, count = in.count;
  const float* const values = in.values;
  Four sum{};
  for (std::size_t i = 0; i + 1 < count; ++i) {
    const float *of_i = rows + vectors[i], *at_field_of_i = rows + of_fields[i];
    const float x = values[i];
    for (std::size_t j = i + 1; j < count; ++j) {
      const float *a = of_i + of_fields[j], *b = at_field_of_i + vectors[j];
      const float scale = x * values[j];
      for (std::size_t f = 0; f < V; ++f) sum += load_four(a + 4 * f) * load_four(b + 4 * f) * scale;
    }
  }
  return sum_of(sum);
}

template <>
float field_pairs<0>(const FieldSample& in, const float* rows) {
  float sum = 0;
  for (std::size_t i = 0; i + 1 < in.count; ++i)
    for (std::size_t j = i + 1; j < in.count; ++j) {
      const float* a = rows + in.index[i] * in.width + 1 + in.fields[j] * in.k;
      const float* b = rows + in.index[j] * in.width + 1 + in.fields[i] * in.k;
      const float scale = in.values[i] * in.values[j];
      for (std::size_t f = 0; f < in.k; ++f) sum += a[f] * b[f] * scale;
    }
  return sum;
}

template <std::size_t V>
void field_pairs_backward(const FieldSample& in, const float* rows, float kappa, float* g) {
  const std::size_t *const vectors = in.vectors, *const of_fields = in.of_fields, count = in.count;
  const float* const values = in.values;
  for (std::size_t i = 0; i + 1 < count; ++i) {
    const std::size_t of_i = vectors[i], field_of_i = of_fields[i];
    const float x = kappa * values[i];
    for (std::size_t j = i + 1; j < count; ++j) {
      const std::size_t a = of_i + of_fields[j], b = field_of_i + vectors[j];
      const float scale = x * values[j];
      for (std::size_t f = 0; f < V; ++f) {
        const Four va = load_four(rows + a + 4 * f), vb = load_four(rows + b + 4 * f);
        // One after the other: a key that is there twice has both sums in the same place.
        store_four(g + a + 4 * f, load_four(g + a + 4 * f) + vb * scale);
        store_four(g + b + 4 * f, load_four(g + b + 4 * f) + va * scale);
      }
    }
  }
}

template <>
void field_pairs_backward<0>(const FieldSample& in, const float* rows, float kappa, float* g) {
  for (std::size_t i = 0; i + 1 < in.count; ++i)
    for (std::size_t j = i + 1; j < in.count; ++j) {
      const std::size_t a = in.index[i] * in.width + 1 + in.fields[j] * in.k,
                        b = in.index[j] * in.width + 1 + in.fields[i] * in.k;
      const float scale = kappa * in.values[i] * in.values[j];
      for (std::size_t f = 0; f < in.k; ++f) {
        g[a + f] += rows[b + f] * scale;
        g[b + f] += rows[a + f] * scale;
      }
    }
}

struct FieldKernels {
  decltype(&field_pairs<0>) forward;
  decltype(&field_pairs_backward<0>) backward;
};
FieldKernels field_kernels(std::size_t k) {
  switch (k) {
    case 4:
      return {field_pairs<1>, field_pairs_backward<1>};
    case 8:
      return {field_pairs<2>, field_pairs_backward<2>};
    case 16:
      return {field_pairs<4>, field_pairs_backward<4>};
    default:
      return {field_pairs<0>, field_pairs_backward<0>};
  }
}

void add_scaled(float* __restrict to, const float* __restrict from, float scale, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) to[i] += from[i] * scale;
}

/// The sums S of one sample. `present` lists its fields; S[f][g] stands at (place of f)·q·k + (place of g)·k.
class FieldSums {
 public:
  explicit FieldSums(std::size_t fields) : place_(fields, kAbsent) {}

  /// Finds the fields that are present; how many.
  std::size_t find(const FieldSample& in) {
    for (const std::uint32_t field : present_) place_[field] = kAbsent;
    present_.clear();
    for (std::size_t e = 0; e < in.count; ++e) {
      if (place_[in.fields[e]] != kAbsent) continue;
      place_[in.fields[e]] = static_cast<std::uint32_t>(present_.size());
      present_.push_back(in.fields[e]);
    }
    return present_.size();
  }

  /// S of the fields found; the sum over pairs.
  float forward(const FieldSample& in, const float* rows) {
    const std::size_t q = present_.size(), k = in.k;
    float *s = sums_.need(q * q * k).data(), own = 0, total = 0;
    std::fill(s, s + q * q * k, 0.0f);
    for (std::size_t e = 0; e < in.count; ++e) {
      const float *row = rows + in.index[e] * in.width + 1, x = in.values[e];
      float* to = s + place_[in.fields[e]] * q * k;
      for (std::size_t p = 0; p < q; ++p) add_scaled(to + p * k, row + present_[p] * k, x, k);
      const float* v = row + in.fields[e] * k;
      for (std::size_t f = 0; f < k; ++f) own += v[f] * x * (v[f] * x);
    }
    for (std::size_t a = 0; a < q; ++a) {
      const float* same = s + (a * q + a) * k;
      for (std::size_t f = 0; f < k; ++f) total += 0.5f * same[f] * same[f];
      for (std::size_t b = a + 1; b < q; ++b) {
        const float *ab = s + (a * q + b) * k, *ba = s + (b * q + a) * k;
        for (std::size_t f = 0; f < k; ++f) total += ab[f] * ba[f];
      }
    }
    return total - 0.5f * own;
  }

  /// After forward with the same sample.
  void backward(const FieldSample& in, const float* rows, float kappa, float* g) {
    const std::size_t q = present_.size(), k = in.k;
    const float* s = sums_.data();
    for (std::size_t e = 0; e < in.count; ++e) {
      const float x = in.values[e], scale = kappa * x;
      const std::size_t at = in.index[e] * in.width + 1, own = place_[in.fields[e]];
      for (std::size_t p = 0; p < q; ++p)
        add_scaled(g + at + present_[p] * k, s + (p * q + own) * k, scale, k);
      add_scaled(g + at + in.fields[e] * k, rows + at + in.fields[e] * k, -scale * x, k);
    }
  }

 private:
  static constexpr std::uint32_t kAbsent = UINT32_MAX;
  std::vector<std::uint32_t> place_, present_;
  Scratch<float> sums_;
};

class FieldModel final : public SparseModel {
 public:
  explicit FieldModel(SparseModelSpec spec)
      : spec_(std::move(spec)), kernels_(field_kernels(spec_.factors)), sums_(spec_.fields) {
    row_width_ = 1 + spec_.fields * spec_.factors;
  }

  void initialise(std::uint64_t, std::span<float>) const override {}

  void initialise_row(std::uint64_t seed, std::uint64_t key, std::span<float> row) const override {
    assert(row.size() == row_width());
    fill_row(seed, key, key == kBiasKey ? row.size() : 1, spec_.deviation, row);
  }

  double gradient(const SparseBatch& batch, std::span<const float> rows, std::span<const float>,
                  const SparseGradient& out, const OnLayer&) override {
    check(batch, rows);
    assert(out.rows.size() == rows.size());
    assert(out.probabilities.empty() || out.probabilities.size() == batch.size());
    std::fill(out.rows.begin(), out.rows.end(), 0.0f);
    double loss = 0, of_bias = 0;
    const bool far = rows.size_bytes() > kNear;
    for (std::size_t b = 0; b < batch.size(); ++b) {
      if (far && b + 1 < batch.size()) fetch(batch, b + 1, rows.data(), out.rows.data());
      const FieldSample in = sample(batch, b);
      const bool by_sums = choose(in);
      const float z = score(in, rows.data(), by_sums);
      float kappa = 0;
      loss += log_loss(&z, batch.labels().data() + b, 1, &kappa,
                       out.probabilities.empty() ? nullptr : out.probabilities.data() + b);
      of_bias += static_cast<double>(kappa);
      for (std::size_t e = 0; e < in.count; ++e) out.rows[in.index[e] * row_width_] += kappa * in.values[e];
      if (by_sums)
        sums_.backward(in, rows.data(), kappa, out.rows.data());
      else
        kernels_.backward(in, rows.data(), kappa, out.rows.data());
    }
    out.rows[0] = static_cast<float>(of_bias);
    return loss / static_cast<double>(batch.size());
  }

  void predict(const SparseBatch& batch, std::span<const float> rows, std::span<const float>,
               std::span<float> probabilities) override {
    check(batch, rows);
    assert(probabilities.size() == batch.size());
    float* z = z_.need(batch.size()).data();
    for (std::size_t b = 0; b < batch.size(); ++b) {
      const FieldSample in = sample(batch, b);
      z[b] = score(in, rows.data(), choose(in));
    }
    sigmoid(z, batch.size(), probabilities.data());
  }

 private:
  void check(const SparseBatch& batch, std::span<const float> rows) const {
    assert(batch.size() >= 1 && batch.has_bias());
    assert(rows.size() == batch.keys().size() * row_width());
    require_fields(spec_, batch);
  }

  /// Brings near what a sample reads and writes.
  void fetch(const SparseBatch& batch, std::size_t b, const float* rows, const float* g) const {
    const std::size_t bytes = std::min(row_width_ * sizeof(float), kMostFetched);
    for (std::size_t e = batch.begins()[b]; e < batch.begins()[b + 1]; ++e) {
      const std::size_t row = batch.index()[e] * row_width_;
      prefetch_bytes(rows + row, bytes);
      prefetch_bytes(g + row, bytes);
    }
  }

  FieldSample sample(const SparseBatch& batch, std::size_t b) {
    const std::uint32_t first = batch.begins()[b];
    const std::size_t count = batch.begins()[b + 1] - first;
    const std::uint32_t *index = batch.index().data() + first, *fields = batch.fields().data() + first;
    std::size_t *vectors = places_.need(2 * count).data(), *of_fields = vectors + count;
    for (std::size_t e = 0; e < count; ++e) {
      vectors[e] = index[e] * row_width_ + 1;
      of_fields[e] = fields[e] * spec_.factors;
    }
    return {index,   fields,   batch.values().data() + first, count, row_width_, spec_.factors,
            vectors, of_fields};
  }

  /// Whether the sums cost less; then the sample's fields are found.
  bool choose(const FieldSample& in) {
    if (in.count <= 2 * kSumCost) return false;
    const std::size_t q = sums_.find(in);
    return in.count * (in.count - 1) / 2 > kSumCost * (in.count + q) * q;
  }

  float score(const FieldSample& in, const float* rows, bool by_sums) {
    float z = rows[0];
    for (std::size_t e = 0; e < in.count; ++e) z += rows[in.index[e] * row_width_] * in.values[e];
    return z + (by_sums ? sums_.forward(in, rows) : kernels_.forward(in, rows));
  }

  /// Of an entry and a field in the sums, which are written too, in pairs.
  static constexpr std::size_t kSumCost = 2;
  /// Rows of a batch that stay in the nearer caches; of a row what is worth to be fetched ahead.
  static constexpr std::size_t kNear = std::size_t{1} << 21, kMostFetched = 1024;
  SparseModelSpec spec_;
  FieldKernels kernels_;
  FieldSums sums_;
  Scratch<float> z_;
  Scratch<std::size_t> places_;
};

}  // namespace

std::unique_ptr<SparseModel> make_field_model(const SparseModelSpec& spec) {
  return std::make_unique<FieldModel>(spec);
}

}  // namespace gossamer::optim
