#include <grid.cuh>

#include <limits>

#include "cross_entropy_device.h"
#include "elementary.h"
#include "memory.h"

namespace gossamer::optim::cuda {
namespace {

using namespace compress::cuda;  // what kernels share

/// The same in all lanes: pairs are added, then pairs of these, in an order that is always the same.
__device__ double sum_of_warp(double value) {
  for (int other = kWarp / 2; other > 0; other /= 2) value += __shfl_xor_sync(kAllLanes, value, other);
  return value;
}

__device__ float largest_of_row(const float* row, std::size_t classes) {
  float largest = row[0];
  for (std::size_t j = lane_of_warp(); j < classes; j += kWarp) largest = row[j] > largest ? row[j] : largest;
  for (int other = kWarp / 2; other > 0; other /= 2) {
    const float theirs = __shfl_xor_sync(kAllLanes, largest, other);
    largest = theirs > largest ? theirs : largest;
  }
  return largest;
}

/// row ← e^(row − largest); returns their sum.
__device__ double exponentials(float* row, std::size_t classes, float largest) {
  __syncwarp();  // all have read what is written over
  double sum = 0;
  for (std::size_t j = lane_of_warp(); j < classes; j += kWarp) {
    row[j] = portable_exp(row[j] - largest);
    sum += static_cast<double>(row[j]);
  }
  return sum_of_warp(sum);
}

struct Targets {
  const std::int32_t* labels;
  const float* soft;  ///< null: none
  float soft_weight;
};

__global__ void gradient_kernel(float* z, Targets targets, std::size_t rows, std::size_t classes,
                                double* losses) {
  const unsigned lane = lane_of_warp();
  const float share = 1.0f / static_cast<float>(rows);
  for (std::size_t r = warp_of_grid(); r < rows; r += warps_in_grid()) {
    float* row = z + r * classes;
    const auto label = static_cast<std::size_t>(targets.labels[r]);
    const float* q = targets.soft != nullptr ? targets.soft + r * classes : nullptr;
    const double s = q != nullptr ? static_cast<double>(targets.soft_weight) : 0;
    const float largest = largest_of_row(row, classes);
    double right = 0, mass = 0;
    for (std::size_t j = lane; j < classes; j += kWarp) {
      const double above = static_cast<double>(row[j]) - static_cast<double>(largest);
      const double target = (j == label ? 1 - s : 0) + (q != nullptr ? s * static_cast<double>(q[j]) : 0);
      if (target != 0) right += target * above;
      mass += target;  // 1 in the end but for the rounding of q
    }
    right = sum_of_warp(right), mass = sum_of_warp(mass);
    const double sum = exponentials(row, classes, largest);
    const auto factor = static_cast<float>(static_cast<double>(share) / sum);
    const float soft = q != nullptr ? targets.soft_weight * share : 0.0f;
    for (std::size_t j = lane; j < classes; j += kWarp) {
      float d = factor * row[j];
      if (q != nullptr) d -= soft * q[j];
      row[j] = j == label ? d - (share - soft) : d;
    }
    if (lane == 0) losses[r] = mass * portable_log(sum) - right;
  }
}

__global__ void evaluate_kernel(float* z, const std::int32_t* labels, std::size_t rows, std::size_t classes,
                                double* losses, unsigned* right) {
  for (std::size_t r = warp_of_grid(); r < rows; r += warps_in_grid()) {
    float* row = z + r * classes;
    const auto label = static_cast<unsigned long long>(labels[r]);
    float best = -std::numeric_limits<float>::infinity();
    unsigned long long at = ~0ull;
    for (std::size_t j = lane_of_warp(); j < classes; j += kWarp)
      if (j == 0 || row[j] > best)
        best = row[j], at = j;  // a NaN is none but in the first place, as on the host
    for (int other = kWarp / 2; other > 0; other /= 2) {  // of equal ones the first
      const float theirs = __shfl_xor_sync(kAllLanes, best, other);
      const unsigned long long there = __shfl_xor_sync(kAllLanes, at, other);
      if (theirs > best || (theirs == best && there < at)) best = theirs, at = there;
    }
    const float largest = largest_of_row(row, classes), logit = row[label];
    const double sum = exponentials(row, classes, largest);
    if (lane_of_warp() != 0) continue;
    losses[r] = portable_log(sum) - (static_cast<double>(logit) - static_cast<double>(largest));
    right[r] = at == label ? 1 : 0;
  }
}

__global__ void softmax_kernel(float* z, std::size_t rows, std::size_t classes, float* probabilities) {
  for (std::size_t r = warp_of_grid(); r < rows; r += warps_in_grid()) {
    float* row = z + r * classes;
    const double sum = exponentials(row, classes, largest_of_row(row, classes));
    for (std::size_t j = lane_of_warp(); j < classes; j += kWarp)
      probabilities[r * classes + j] = static_cast<float>(static_cast<double>(row[j]) / sum);
  }
}

struct BlockSums {
  double loss[kThreads];
  unsigned long long right[kThreads];
};

/// One block. right may be null.
__global__ void sum_kernel(const double* losses, const unsigned* right, std::size_t rows, DeviceLoss* loss) {
  BlockSums& sums = shared<BlockSums>();
  double sum = 0;
  unsigned long long count = 0;
  for (std::size_t r = threadIdx.x; r < rows; r += kThreads) {
    sum += losses[r];
    if (right != nullptr) count += right[r];
  }
  sums.loss[threadIdx.x] = sum, sums.right[threadIdx.x] = count;
  __syncthreads();
  for (unsigned width = kThreads / 2; width > 0; width /= 2) {
    if (threadIdx.x < width) {
      sums.loss[threadIdx.x] += sums.loss[threadIdx.x + width];
      sums.right[threadIdx.x] += sums.right[threadIdx.x + width];
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) *loss = {sums.loss[0], sums.right[0]};
}

std::size_t blocks_of_rows(std::size_t rows) { return blocks_for(rows, kThreads / kWarp); }

}  // namespace

void cross_entropy_gradient(const DeviceLogits& logits, const DeviceBatch& batch, double* losses_dev,
                            DeviceLoss* loss_dev, void* stream) {
  const Targets targets{batch.labels_dev, batch.soft_labels_dev, batch.soft_weight};
  launch(gradient_kernel, blocks_of_rows(logits.rows), kThreads, stream, logits.z_dev, targets, logits.rows,
         logits.classes, losses_dev);
  launch(sum_kernel, 1, kThreads, stream, losses_dev, static_cast<const unsigned*>(nullptr), logits.rows,
         loss_dev);
}

void cross_entropy_evaluate(const DeviceLogits& logits, const std::int32_t* labels_dev, double* losses_dev,
                            unsigned* right_dev, DeviceLoss* loss_dev, void* stream) {
  launch(evaluate_kernel, blocks_of_rows(logits.rows), kThreads, stream, logits.z_dev, labels_dev,
         logits.rows, logits.classes, losses_dev, right_dev);
  launch(sum_kernel, 1, kThreads, stream, losses_dev, right_dev, logits.rows, loss_dev);
}

void softmax_rows(const DeviceLogits& logits, float* probabilities_dev, void* stream) {
  launch(softmax_kernel, blocks_of_rows(logits.rows), kThreads, stream, logits.z_dev, logits.rows,
         logits.classes, probabilities_dev);
}

}  // namespace gossamer::optim::cuda
