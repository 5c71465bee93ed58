#pragma once
// Models and optimisers on a CUDA device: twins of those in model.h and optimizer.h. A model's layers lie as
// the host's, so that parameters and gradients are the same arrays, elsewhere.
//
// Pointers named _dev are device memory, the caller's, aligned to 64 bytes. Every call but show is
// asynchronous on the stream that the object was made with (a cudaStream_t, 0 = default), and waits for
// nothing; memory is taken where a batch is larger than all before. Reductions run in an order that does not
// depend on the device's scheduling: the same calls give the same bits. In a build without CUDA the make_
// functions throw std::runtime_error saying so.
#include <cstddef>
#include <cstdint>
#include <memory>

#include "gossamer/optim/model.h"
#include "gossamer/optim/objective.h"
#include "gossamer/optim/optimizer.h"

namespace gossamer::optim::cuda {

/// As of Batch.
struct DeviceBatch {
  std::size_t size = 0, features = 0;
  const float* x_dev = nullptr;              ///< [size, features]
  const std::int32_t* labels_dev = nullptr;  ///< [size]
  const float* soft_labels_dev = nullptr;    ///< [size, classes]; null: none
  float soft_weight = 0;
};

/// Over the rows of a batch.
struct DeviceLoss {
  double sum;
  unsigned long long correct;  ///< rows whose class was predicted; of an evaluation alone
};

/// Holds scratch memory only. One thread at a time, and no other work of this object under way on another
/// stream.
class DeviceModel : public Layered {
 public:
  virtual std::size_t classes() const = 0;
  /// g ← the gradient at x of the mean loss over the batch (padding = 0), loss ← Σ of the losses. on_layer as
  /// of Model::gradient, in the stream's order: it is called when what makes the layer's gradient has been
  /// submitted, and what is submitted to the stream from then on sees it and may change the layer's x.
  virtual void gradient(const float* x_dev, const DeviceBatch& batch, float* g_dev, DeviceLoss* loss_dev,
                        const OnLayer& on_layer) = 0;
  virtual void evaluate(const float* x_dev, const DeviceBatch& batch, DeviceLoss* loss_dev) = 0;
  /// probabilities [batch.size, classes()]; labels are not read.
  virtual void predict(const float* x_dev, const DeviceBatch& batch, float* probabilities_dev) = 0;
};

struct DeviceModelSpec {
  ModelSpec model;
  void* stream = nullptr;
  bool tf32 = false;  ///< products of matrices round their factors to 10 bits of mantissa, which is faster
};
/// Throws OptimError for what make_model refuses and for a kind that runs on the host alone, saying so.
std::unique_ptr<DeviceModel> make_device_model(const DeviceModelSpec& spec);

/// As make_row_objective, but x and g are device memory wherever the objective takes them, and labels are the
/// data's alone: what others' models predict is refused with OptimError. parts.model draws the initial
/// parameters, on the host. Gradients are computed on spec's stream, which waits for what had been submitted
/// to the exchange stream before. That one works with x and g meanwhile: it is told to wait for a layer
/// before on_layer is called for it, all layers having been submitted. Where rows are read ahead the next
/// batch is copied meanwhile, from pinned memory. Loss and figures are waited for.
std::unique_ptr<Objective> make_device_row_objective(RowObjectiveParts parts, const DeviceModelSpec& spec,
                                                     void* exchange_stream);

/// Bytes of batches, losses and figures that objectives copied to and from devices since the process began.
std::uint64_t bytes_over_bus();

/// As of Optimizer; ranges of x, g and u are n floats. u_dev may be g_dev.
class DeviceOptimizer {
 public:
  virtual ~DeviceOptimizer() = default;
  virtual void step(double place, std::size_t offset, const float* x_dev, const float* g_dev, float* u_dev,
                    std::size_t n) = 0;
  /// Under the names that the host's twin has, so that either goes on from the other's state. Waits for the
  /// stream.
  virtual void show(StateVisitor& visitor) = 0;
};
/// Throws OptimError for what make_optimizer refuses.
std::unique_ptr<DeviceOptimizer> make_device_optimizer(const OptimizerSpec& spec, std::size_t buffer_size,
                                                       void* stream);

}  // namespace gossamer::optim::cuda
