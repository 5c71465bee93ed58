// A model on a device with the rows of a peer, which lie on the host.
#include <utility>

#include "dataset.h"
#include "gossamer/optim/device.h"
#include "memory.h"
#include "row_batches.h"

namespace gossamer::optim::cuda {
namespace {

class DeviceRowObjective final : public Objective {
 public:
  DeviceRowObjective(RowObjectiveParts parts, const DeviceModelSpec& spec)
      : parts_(std::move(parts)),
        batches_(parts_),
        model_(make_device_model(spec)),
        stream_(static_cast<cudaStream_t>(spec.stream)),
        loss_(1) {
    adopt_layers(*model_);
    if (parts_.model->buffer_size() != buffer_size() || parts_.train->features() != spec.model.features)
      throw OptimError("the model on the device is not that of the host, or not of these data");
  }

  void initialise(std::uint64_t seed, std::span<float> x) const override {
    parts_.model->initialise(seed, x);
  }

  StepResult gradient(std::span<float> x, const BatchKey& key, std::span<float> g,
                      const OnLayer& on_layer) override {
    if (!key.teachers.empty())
      throw OptimError("learning from what other models predict runs on the host only");
    const Batch batch = batches_.take(key.step, key.flip_labels);
    model_->gradient(x.data(), uploaded(batch), g.data(), loss_.data(), on_layer);
    return {loss().sum / static_cast<double>(batch.size), batch.size};
  }

  Figures evaluate(std::span<const float> x) override {
    Evaluation total;
    for_each_block(*parts_.test, [&](const Batch& batch) {
      model_->evaluate(x.data(), uploaded(batch), loss_.data());
      const DeviceLoss found = loss();
      total.loss_sum += found.sum;
      total.correct += found.correct;
      total.rows += batch.size;
    });
    return figures_of(total);
  }
  std::size_t classes() const override { return batches_.classes(); }
  std::uint64_t steps_per_epoch() const override { return batches_.steps_per_epoch(); }
  std::span<const std::uint32_t> batch_rows() const override { return batches_.rows(); }
  std::uint64_t data_hash() const override { return hash_of_rows(parts_); }

 private:
  DeviceBatch uploaded(const Batch& batch) {
    float* x = x_.need(batch.x.size());
    std::int32_t* labels = labels_.need(batch.labels.size());
    require(cudaMemcpyAsync(x, batch.x.data(), batch.x.size_bytes(), cudaMemcpyHostToDevice, stream_),
            "copying a batch");
    require(cudaMemcpyAsync(labels, batch.labels.data(), batch.labels.size_bytes(), cudaMemcpyHostToDevice,
                            stream_),
            "copying a batch");
    return {batch.size, batch.features, x, labels};
  }
  DeviceLoss loss() {
    DeviceLoss found{};
    require(cudaMemcpyAsync(&found, loss_.data(), sizeof found, cudaMemcpyDeviceToHost, stream_),
            "reading a loss");
    require(cudaStreamSynchronize(stream_), "a gradient on the device");
    return found;
  }

  RowObjectiveParts parts_;
  RowBatches batches_;
  std::unique_ptr<DeviceModel> model_;
  cudaStream_t stream_;
  DeviceArray<float> x_;
  DeviceArray<std::int32_t> labels_;
  DeviceArray<DeviceLoss> loss_;
};

}  // namespace

std::unique_ptr<Objective> make_device_row_objective(RowObjectiveParts parts, const DeviceModelSpec& spec) {
  return std::make_unique<DeviceRowObjective>(std::move(parts), spec);
}

}  // namespace gossamer::optim::cuda
