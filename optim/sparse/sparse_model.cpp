#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "gossamer/optim/sparse.h"
#include "names.h"
#include "random.h"
#include "sparse_models.h"

namespace gossamer::optim {
namespace {

bool concatenates(const SparseModelSpec& spec) { return spec.pooling == "concat"; }
bool always(const SparseModelSpec&) { return true; }
bool never(const SparseModelSpec&) { return false; }
std::size_t one(const SparseModelSpec&) { return 1; }
std::size_t vector_alone(const SparseModelSpec& spec) { return spec.factors; }
std::size_t weight_and_vector(const SparseModelSpec& spec) { return 1 + spec.factors; }
std::size_t weight_and_vectors(const SparseModelSpec& spec) { return 1 + spec.fields * spec.factors; }

using SparseFactory = std::unique_ptr<SparseModel> (*)(const SparseModelSpec&);
struct SparsePart {
  SparseModelRow shown;
  SparseFactory make;
};
/// A new model is one factory and one row here.
constexpr std::array kSparseModels = {
    SparsePart{{"lr", "logistic regression: w0 + sum of w x", "w", true, false, false, never, one},
               [](const SparseModelSpec& s) {
                 return make_factor_model(s, {.linear = true, .pairs = false, .deep = false});
               }},
    SparsePart{{"fm", "factorisation machine: lr + sum of <v_i, v_j> x_i x_j over pairs (Rendle 2010)",
                "w, v[factors]", true, true, false, never, weight_and_vector},
               [](const SparseModelSpec& s) {
                 return make_factor_model(s, {.linear = true, .pairs = true, .deep = false});
               }},
    SparsePart{
        {"ffm", "field-aware fm: each key has a vector for each field that it meets (Juan et al. 2016)",
         "w, v[fields][factors]", true, true, false, always, weight_and_vectors},
        [](const SparseModelSpec& s) { return make_field_model(s); }},
    SparsePart{{"dnn", "embeddings, summed or concatenated by field, under a multilayer perceptron",
                "v[factors]", false, true, true, concatenates, vector_alone},
               [](const SparseModelSpec& s) {
                 return make_factor_model(s, {.linear = false, .pairs = false, .deep = true});
               }},
    SparsePart{{"wide_deep", "lr + dnn (Cheng et al. 2016)", "w, v[factors]", true, true, true, concatenates,
                weight_and_vector},
               [](const SparseModelSpec& s) {
                 return make_factor_model(s, {.linear = true, .pairs = false, .deep = true});
               }},
    SparsePart{{"deepfm", "fm + dnn on the same vectors (Guo et al. 2017)", "w, v[factors]", true, true, true,
                concatenates, weight_and_vector},
               [](const SparseModelSpec& s) {
                 return make_factor_model(s, {.linear = true, .pairs = true, .deep = true});
               }},
};
constexpr auto kShown = [] {
  std::array<SparseModelRow, kSparseModels.size()> rows{};
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = kSparseModels[i].shown;
  return rows;
}();
constexpr auto kSparseHelp = [] {
  std::array<NamedHelp, kSparseModels.size()> rows{};
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = {kShown[i].name, kShown[i].help};
  return rows;
}();
constexpr std::array<NamedHelp, 2> kPoolings{{
    {"sum", "of all the sample's embeddings, each times its value"},
    {"concat", "one place for each field, which holds the sum of its embeddings"},
}};

constexpr std::size_t kMostFactors = 1024, kMostFields = 1U << 16, kMostWidth = 1U << 22;

void require_range(const char* what, std::size_t found, std::size_t most) {
  if (found < 1 || found > most)
    throw OptimError("sparse model " + std::string(what) + ": found " + std::to_string(found) +
                     ", expected 1 to " + std::to_string(most));
}

void check_sparse(const SparseModelSpec& spec, const SparseModelRow& row) {
  if (row.has_factors) require_range("factors", spec.factors, kMostFactors);
  if (row.has_dense && std::none_of(kPoolings.begin(), kPoolings.end(),
                                    [&](const NamedHelp& p) { return spec.pooling == p.name; }))
    throw_unknown("sparse model pooling", spec.pooling, kPoolings);
  if (row.reads_fields(spec)) {
    require_range("fields", spec.fields, kMostFields);
    require_range("fields times factors", spec.fields * spec.factors, kMostWidth);
  }
  if (!std::isfinite(spec.deviation) || spec.deviation < 0)
    throw OptimError("sparse model deviation: found " + std::to_string(spec.deviation) +
                     ", expected at least 0");
}

}  // namespace

std::span<const SparseModelRow> sparse_model_table() { return kShown; }

std::unique_ptr<SparseModel> make_sparse_model(const SparseModelSpec& spec) {
  const auto part = std::find_if(kSparseModels.begin(), kSparseModels.end(),
                                 [&](const SparsePart& p) { return spec.kind == p.shown.name; });
  if (part == kSparseModels.end()) throw_unknown("sparse model kind", spec.kind, kSparseHelp);
  check_sparse(spec, part->shown);
  return part->make(spec);
}

namespace {

constexpr std::size_t kProduct = 512;

/// With e = e^−|z| ≤ 1: σ(z) = 1/(1 + e), or e/(1 + e) where z < 0.
void magnitudes(const float* z, std::size_t n, float* e) {
  for (std::size_t b = 0; b < n; ++b) e[b] = portable_exp(z[b] < 0.0f ? z[b] : -z[b]);
}
void sigmoids(const float* z, const float* e, std::size_t n, float* p) {
  for (std::size_t b = 0; b < n; ++b) p[b] = (z[b] < 0.0f ? e[b] : 1.0f) / (1.0f + e[b]);
}

}  // namespace

void sigmoid(const float* z, std::size_t n, float* p) {
  std::array<float, kProduct> e;
  for (std::size_t first = 0; first < n; first += kProduct) {
    const std::size_t count = std::min(kProduct, n - first);
    magnitudes(z + first, count, e.data());
    sigmoids(z + first, e.data(), count, p + first);
  }
}

// ln(1 + e^z) − y z = max(z, 0) + ln(1 + e^−|z|) − y z, where the logarithms' arguments lie in (1, 2]: a
// product of many still fits a double, so that one logarithm does for all of them.
double log_loss(const float* z, const float* labels, std::size_t n, float* kappa, float* probabilities) {
  std::array<float, kProduct> e, p;
  double sum = 0;
  for (std::size_t first = 0; first < n; first += kProduct) {
    const std::size_t count = std::min(kProduct, n - first);
    magnitudes(z + first, count, e.data());
    sigmoids(z + first, e.data(), count, p.data());
    double product = 1;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t b = first + i;
      product *= 1.0 + static_cast<double>(e[i]);
      sum += static_cast<double>((z[b] < 0.0f ? 0.0f : z[b]) - labels[b] * z[b]);
    }
    sum += portable_log(product);
    if (probabilities) std::copy_n(p.data(), count, probabilities + first);
    for (std::size_t i = 0; i < count; ++i) kappa[first + i] = p[i] - labels[first + i];
  }
  return sum;
}

void fill_row(std::uint64_t seed, std::uint64_t key, std::size_t weights, double deviation,
              std::span<float> row) {
  std::fill_n(row.begin(), weights, 0.0f);
  const std::uint64_t of_row = make_key(seed, Use::embeddings, key);
  const double half_width = deviation * std::sqrt(3.0);
  for (std::size_t i = weights; i < row.size(); ++i)
    row[i] = static_cast<float>((2 * uniform(of_row, i) - 1) * half_width);
}

void require_fields(const SparseModelSpec& spec, const SparseBatch& batch) {
  if (batch.field_count() > spec.fields)
    throw OptimError("sparse model " + spec.kind + ": found field " +
                     std::to_string(batch.field_count() - 1) + " in the data, expected at most " +
                     std::to_string(spec.fields - 1) + "; set fields to at least " +
                     std::to_string(batch.field_count()));
}

}  // namespace gossamer::optim
