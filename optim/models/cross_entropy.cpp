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

float largest_of(const float* z, std::size_t classes) {
  float largest = z[0];
  for (std::size_t j = 1; j < classes; ++j) largest = z[j] > largest ? z[j] : largest;
  return largest;
}

/// z ← e^(z − largest); returns their sum. The largest logit is taken off so that nothing overflows.
double exponentials(float* z, std::size_t classes, float largest) {
  for (std::size_t j = 0; j < classes; ++j) z[j] = portable_exp(z[j] - largest);
  double sum = 0;
  for (std::size_t j = 0; j < classes; ++j) sum += static_cast<double>(z[j]);
  return sum;
}

/// z ← e^(z − max)
RowLoss exponentials_and_loss(float* z, std::size_t classes, std::size_t label) {
  const float largest = largest_of(z, classes);
  const double right = static_cast<double>(z[label]) - static_cast<double>(largest);
  const double sum = exponentials(z, classes, largest);
  return {portable_log(sum) - right, sum};
}

/// The loss of a row with the soft label q at weight s; z ← e^(z − max).
RowLoss exponentials_and_soft_loss(float* z, std::size_t classes, std::size_t label, const float* q,
                                   double s) {
  const float largest = largest_of(z, classes);
  double right = (1 - s) * (static_cast<double>(z[label]) - static_cast<double>(largest)), mass = 1 - s;
  for (std::size_t j = 0; j < classes; ++j) {
    const double target = s * static_cast<double>(q[j]);
    right += target * (static_cast<double>(z[j]) - static_cast<double>(largest));
    mass += target;  // 1 but for the rounding of q
  }
  const double sum = exponentials(z, classes, largest);
  return {mass * portable_log(sum) - right, sum};
}

double soft_gradient(const Logits& logits, const Batch& batch) {
  assert(batch.soft_labels.size() == logits.rows * logits.classes);
  double loss = 0;
  const float share = 1.0f / static_cast<float>(logits.rows), soft = batch.soft_weight * share;
  for (std::size_t r = 0; r < logits.rows; ++r) {
    float* z = logits.data + r * logits.stride;
    const float* q = batch.soft_labels.data() + r * logits.classes;
    const std::size_t label = checked_label(logits, batch.labels, r);
    const RowLoss row = exponentials_and_soft_loss(z, logits.classes, label, q, batch.soft_weight);
    loss += row.loss;
    const auto factor = static_cast<float>(static_cast<double>(share) / row.sum);
    for (std::size_t j = 0; j < logits.classes; ++j) z[j] = factor * z[j] - soft * q[j];
    z[label] -= share - soft;
  }
  return loss;
}

}  // namespace

double cross_entropy_gradient(const Logits& logits, const Batch& batch) {
  const std::span<const std::int32_t> labels = batch.labels;
  assert(labels.size() == logits.rows);
  if (!batch.soft_labels.empty()) return soft_gradient(logits, batch);
  double loss = 0;
  const float share = 1.0f / static_cast<float>(logits.rows);
  for (std::size_t r = 0; r < logits.rows; ++r) {
    float* z = logits.data + r * logits.stride;
    const std::size_t label = checked_label(logits, labels, r);
    const RowLoss row = exponentials_and_loss(z, logits.classes, label);
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
    result.loss_sum += exponentials_and_loss(z, logits.classes, label).loss;
  }
  return result;
}

void softmax_rows(const Logits& logits, std::span<float> probabilities) {
  assert(probabilities.size() == logits.rows * logits.classes);
  for (std::size_t r = 0; r < logits.rows; ++r) {
    float* z = logits.data + r * logits.stride;
    const double sum = exponentials(z, logits.classes, largest_of(z, logits.classes));
    float* p = probabilities.data() + r * logits.classes;
    for (std::size_t j = 0; j < logits.classes; ++j)
      p[j] = static_cast<float>(static_cast<double>(z[j]) / sum);
  }
}

}  // namespace gossamer::optim
