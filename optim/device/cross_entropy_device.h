#pragma once
// Softmax and cross-entropy over rows of logits in device memory; see models/cross_entropy.h. A warp takes a
// row.
#include "gossamer/optim/device.h"

namespace gossamer::optim::cuda {

struct DeviceLogits {
  float* z_dev;  ///< [rows, classes]
  std::size_t rows, classes;
};

/// Σ over rows of the loss; logits ← the gradient of the mean loss. losses_dev: room for a number per row.
void cross_entropy_gradient(const DeviceLogits& logits, const DeviceBatch& batch, double* losses_dev,
                            DeviceLoss* loss_dev, void* stream);
/// Loss and right predictions; logits are overwritten. losses_dev as above, right_dev likewise.
void cross_entropy_evaluate(const DeviceLogits& logits, const std::int32_t* labels_dev, double* losses_dev,
                            unsigned* right_dev, DeviceLoss* loss_dev, void* stream);
/// probabilities [rows, classes] ← softmax of each row; they may be the logits.
void softmax_rows(const DeviceLogits& logits, float* probabilities_dev, void* stream);

}  // namespace gossamer::optim::cuda
