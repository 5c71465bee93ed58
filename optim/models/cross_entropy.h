#pragma once
// Softmax and cross-entropy over rows of logits: loss(z, y) = ln Σ_j e^(z_j) − z_y (Bishop: Pattern
// Recognition and Machine Learning, section 4.3.4). Own loops and own exp and ln: equal bits from every
// compiler.
#include <cstddef>
#include <cstdint>
#include <span>

#include "gossamer/optim/model.h"

namespace gossamer::optim {

/// rows × classes logits, row r at data + r·stride.
struct Logits {
  float* data;
  std::size_t rows, classes, stride;
};

/// Σ over rows of the loss; logits ← (softmax − target)/rows, the gradient of the mean loss. The target is
/// one-hot(label), or where the batch has soft labels q and their weight s, (1 − s)·one-hot(label) + s·q with
/// the loss that Batch states.
double cross_entropy_gradient(const Logits& logits, const Batch& batch);

/// probabilities [rows, classes] ← softmax of each row; logits are overwritten.
void softmax_rows(const Logits& logits, std::span<float> probabilities);

/// Loss and right predictions (the largest logit, the first of equal ones); logits are overwritten.
Evaluation cross_entropy_evaluate(const Logits& logits, std::span<const std::int32_t> labels);

}  // namespace gossamer::optim
