#pragma once
// Factories of the sparse models, and the loss that they share.
#include <cstddef>
#include <memory>
#include <span>

#include "gossamer/optim/sparse.h"

namespace gossamer::optim {

/// Which terms z has beside w₀.
struct Terms {
  bool linear, pairs, deep;
};
std::unique_ptr<SparseModel> make_factor_model(const SparseModelSpec& spec, Terms terms);
std::unique_ptr<SparseModel> make_field_model(const SparseModelSpec& spec);

/// Σ of the log loss over n samples; kappa[b] ← p − y, the derivative by z; probabilities[b] ← p unless null.
double log_loss(const float* z, const float* labels, std::size_t n, float* kappa, float* probabilities);
/// p[b] ← σ(z[b])
void sigmoid(const float* z, std::size_t n, float* p);

/// row ← `weights` zeros, then uniform numbers of the given standard deviation.
void fill_row(std::uint64_t seed, std::uint64_t key, std::size_t weights, double deviation,
              std::span<float> row);

/// Throws OptimError where the batch has fields that the model has no vectors for.
void require_fields(const SparseModelSpec& spec, const SparseBatch& batch);

/// Four factors of the compilers' own vector extension: plain arrays of accumulators end up in memory.
using Four = float __attribute__((vector_size(16)));
inline Four load_four(const float* from) {
  Four v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}
inline void store_four(float* to, Four v) { __builtin_memcpy(to, &v, sizeof v); }
inline float sum_of(Four v) { return (v[0] + v[2]) + (v[1] + v[3]); }

/// Samples whose z, loss and gradient are done in one go: their rows are still in the nearest caches.
inline constexpr std::size_t kSampleBlock = 128;

}  // namespace gossamer::optim
