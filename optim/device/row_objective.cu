// A model on a device with the rows of a peer, which lie on the host.
#include <array>
#include <cstring>
#include <utility>

#include "cancelled.h"
#include "dataset.h"
#include "gossamer/optim/device.h"
#include "memory.h"
#include "row_batches.h"
#include "streams.h"

namespace gossamer::optim::cuda {
namespace {

/// Batches go to the device by two places in turn, so that one is copied while the other is used. Whoever
/// uploads has waited for what used the last but one.
class Uploads {
 public:
  Uploads(std::size_t rows, std::size_t features)
      : places_{Place(rows * features, rows), Place(rows * features, rows)} {}

  /// Copies it to the place of the next batch, over one there that was not used.
  void upload(const Batch& batch) {
    Place& place = places_[turn_];
    const std::size_t x_bytes = batch.x.size_bytes(), label_bytes = batch.labels.size_bytes();
    std::memcpy(place.here.data(), batch.x.data(), x_bytes);
    std::memcpy(place.here.data() + x_bytes, batch.labels.data(), label_bytes);
    copy_to_device(place.x.data(), place.here.data(), x_bytes, stream_.get());
    copy_to_device(place.labels.data(), place.here.data() + x_bytes, label_bytes, stream_.get());
    place.uploaded.record(stream_.get());
  }
  /// What was uploaded last, for that stream.
  DeviceBatch use(const Batch& batch, cudaStream_t stream) {
    const Place& place = places_[std::exchange(turn_, 1 - turn_)];
    place.uploaded.hold_back(stream);
    return {batch.size, batch.features, place.x.data(), place.labels.data()};
  }

 private:
  struct Place {
    Place(std::size_t values, std::size_t rows)
        : here(values * sizeof(float) + rows * sizeof(std::int32_t)), x(values), labels(rows) {}
    PinnedMemory here;
    DeviceArray<float> x;
    DeviceArray<std::int32_t> labels;
    Event uploaded;
  };
  Stream stream_;
  std::array<Place, 2> places_;
  std::size_t turn_ = 0;
};

class DeviceRowObjective final : public Objective {
 public:
  DeviceRowObjective(RowObjectiveParts parts, const DeviceModelSpec& spec, void* exchange_stream)
      : parts_(std::move(parts)),
        batches_(parts_),
        model_(make_device_model(spec)),
        stream_(static_cast<cudaStream_t>(spec.stream)),
        exchange_(static_cast<cudaStream_t>(exchange_stream)),
        uploads_(parts_.batch, parts_.train->features()),
        stands_(model_->layers().size()) {
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
    if (!batches_.was_ahead()) uploads_.upload(batch);
    wait_for_exchange();
    model_->gradient(x.data(), uploads_.use(batch, stream_), g.data(), loss_.data(),
                     [this](std::size_t layer) { stands_[layer].record(stream_); });
    read_loss();
    if (const Batch* next = batches_.ahead()) uploads_.upload(*next);
    try {
      for (std::size_t layer = layers().size(); layer-- > 0;) {
        stands_[layer].hold_back(exchange_);
        if (on_layer) on_layer(layer);
      }
    } catch (...) {  // nothing of it is under way any more when the caller goes on
      loss_read_.wait();
      throw;
    }
    return {loss().sum / static_cast<double>(batch.size), batch.size};
  }

  void cancel() override { cancelled_.set(); }
  Figures evaluate(std::span<const float> x) override {
    Evaluation total;
    wait_for_exchange();
    const auto go_on = cancelled_.while_running();
    for_each_block(*parts_.test, [&](const Batch& batch) {
      go_on();
      model_->evaluate(x.data(), copied(batch), loss_.data());
      read_loss();
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
  /// For all that was submitted there, which may change x, or still read g.
  void wait_for_exchange() {
    exchanged_.record(exchange_);
    exchanged_.hold_back(stream_);
  }
  DeviceBatch copied(const Batch& batch) {
    float* x = x_.need(batch.x.size());
    std::int32_t* labels = labels_.need(batch.labels.size());
    copy_to_device(x, batch.x.data(), batch.x.size_bytes(), stream_);
    copy_to_device(labels, batch.labels.data(), batch.labels.size_bytes(), stream_);
    return {batch.size, batch.features, x, labels};
  }
  void read_loss() {
    copy_to_host(loss_here_.data(), loss_.data(), sizeof(DeviceLoss), stream_);
    loss_read_.record(stream_);
  }
  /// What read_loss was called for.
  DeviceLoss loss() const {
    loss_read_.wait();
    DeviceLoss found;
    std::memcpy(&found, loss_here_.data(), sizeof found);
    return found;
  }

  RowObjectiveParts parts_;
  RowBatches batches_;
  std::unique_ptr<DeviceModel> model_;
  cudaStream_t stream_, exchange_;
  Uploads uploads_;
  std::vector<Event> stands_;  ///< per layer: its gradient does, and its parameters are not read any more
  Event exchanged_, loss_read_;
  DeviceArray<float> x_;  ///< of the rows that are evaluated
  Cancelled cancelled_;
  DeviceArray<std::int32_t> labels_;
  DeviceArray<DeviceLoss> loss_{1};
  PinnedMemory loss_here_{sizeof(DeviceLoss)};
};

}  // namespace

std::unique_ptr<Objective> make_device_row_objective(RowObjectiveParts parts, const DeviceModelSpec& spec,
                                                     void* exchange_stream) {
  return std::make_unique<DeviceRowObjective>(std::move(parts), spec, exchange_stream);
}

}  // namespace gossamer::optim::cuda
