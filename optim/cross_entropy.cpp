#include "cross_entropy.h"

#include <cassert>

#include "elementary.h"

namespace gossamer::optim {
namespace {

struct RowLoss {
  double loss, sum;  ///< sum = Σ e^(z_j − max)
};

std::size_t checked_label(const Logits& logits, std::span<const std::int32_t> labels, std::size_t row) {
  const std::int32_t label = labels[row];
  assert(label >= 0 && static_cast<std::size_t>(label) < logits.classes);
  return static_cast<std::size_t>(label);
}

/// z ← e^(z − max); the largest logit is taken off first so that nothing overflows.
RowLoss exponentials(float* z, std::size_t classes, std::size_t label) {
  float largest = z[0];
  for (std::size_t j = 1; j < classes; ++j) largest = z[j] > largest ? z[j] : largest;
  const double right = static_cast<double>(z[label]) - static_cast<double>(largest);
  for (std::size_t j = 0; j < classes; ++j) z[j] = portable_exp(z[j] - largest);
  double sum = 0;
  for (std::size_t j = 0; j < classes; ++j) sum += static_cast<double>(z[j]);
  return {portable_log(sum) - right, sum};
}

}  // namespace

double cross_entropy_gradient(const Logits& logits, std::span<const std::int32_t> labels) {
  assert(labels.size() == logits.rows);
  double loss = 0;
  const float share = 1.0f / static_cast<float>(logits.rows);
  for (std::size_t r = 0; r < logits.rows; ++r) {
    float* z = logits.data + r * logits.stride;
    const std::size_t label = checked_label(logits, labels, r);
    const RowLoss row = exponentials(z, logits.classes, label);
    loss += row.loss;
    const auto factor = static_cast<float>(static_cast<double>(share) / row.sum);
    for (std::size_t j = 0; j < logits.classes; ++j) z[j] *= factor;
    z[label] -= share;
  }
  return loss;
}

Evaluation cross_entropy_evaluate(const Logits& logits, std::span<const std::int32_t> labels) {
  assert(labels.size() == logits.rows);
  Evaluation result;
  result.rows = logits.rows;
  for (std::size_t r = 0; r < logits.rows; ++r) {
    float* z = logits.data + r * logits.stride;
    const std::size_t label = checked_label(logits, labels, r);
    std::size_t best = 0;
    for (std::size_t j = 1; j < logits.classes; ++j)
      if (z[j] > z[best]) best = j;
    result.correct += best == label;
    result.loss_sum += exponentials(z, logits.classes, label).loss;
  }
  return result;
}

}  // namespace gossamer::optim
