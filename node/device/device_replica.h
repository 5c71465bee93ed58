#pragma once
// DeviceReplica is a Replica whose floats stay in a CUDA device's memory: gradients, steps, mixing and coding
// run there, and payloads' bytes and batches are all that comes and goes. Gradients have a stream of their
// own beside the one of all else, and events between (optim/device.h). What knows host memory alone (rules
// over whole models, extensions) is handed a copy, and that is counted.
#include <memory>
#include <utility>
#include <vector>

#include "device_encoder.h"
#include "device_memory.h"
#include "gossamer/optim/device.h"
#include "replica_base.h"
#include "rule.h"

namespace gossamer::node {

/// What it is made of: an objective (make_device_row_objective) of these streams, and an optimiser of the
/// exchange's; on that device.
struct DeviceReplicaParts : ReplicaBaseParts {
  DeviceReplicaParts(ReplicaBaseParts base, std::shared_ptr<const DeviceStreams> streams)
      : ReplicaBaseParts(std::move(base)), stream(streams->exchange) {
    outlives_objective = std::move(streams);
  }
  const compress::cuda::Stream& stream;
  int device = 0;
  std::unique_ptr<optim::cuda::DeviceOptimizer> optimizer{};
};

/// Rows of a table, attacks and labels by others' models stay with host peers.
class DeviceReplica final : public ReplicaBase {
 public:
  /// As Replica; the device is in use.
  DeviceReplica(DeviceReplicaParts parts, std::span<const float> x0, const Buffers& buffers);
  ~DeviceReplica() override;

  void enter_thread() const override { compress::cuda::use_device(device_); }
  void evaluate(Round round, const Post& post) override;
  std::span<const float> parameters() const override;
  std::vector<float> slot(Slot s) const;  ///< a copy, on the host
  /// Bytes of floats that went to the host and back for what runs there.
  std::uint64_t copied() const { return copied_; }
  std::uint64_t decoded_on_host() const { return encoder_.decoded_on_host(); }

 private:
  class HostCopies;
  float* at(Slot s, Range r) const { return slots_[s].data() + r.begin; }
  void upload(Slot s, std::span<const float> from);
  void clear(Slot s, Range r);
  std::size_t layer_of(Range r) const;
  double norm(const float* x_dev, std::size_t n);
  void execute(const Op& op, const Post& post) override;
  std::span<float> whole(Slot s) override {
    parameters_here_.clear();
    return {slots_[s].data(), slots_[s].size()};
  }
  std::vector<optim::Teacher> teachers(const SoftLabels& soft) const override;
  bool all_finite(Range gradient) override;
  void clear_gradient(Range range) override { clear(kGradient, range); }
  void spread_parameters() override;
  std::size_t slots() const override { return slots_.size(); }
  void archive_slot(Archive archive, const std::string& name, Slot s) override;
  void show_optimizer(optim::StateVisitor& visitor) override { optimizer_->show(visitor); }
  void archive_unsent(Archive archive) override { encoder_.archive(archive.part("encoder")); }
  void run_one(const op::Update& o, const Post&);
  void run_one(const op::Clip& o, const Post&);
  void run_one(const op::Combine& o, const Post&);
  void run_one(const op::Encode& o, const Post&);
  void run_one(const op::DecodeAdd& o, const Post&);
  void run_one(const op::Step&, const Post&) {}  // in_simple_ones
  void run_one(const op::StepEncode&, const Post&) {}
  void run_one(const op::StepBySum&, const Post&) {}
  void run_one(const op::StepByParts&, const Post&) {}
  void run_one(const op::Mix&, const Post&) {}
  void run_one(const op::Decode&, const Post&) {}
  void run_one(const op::PassOn&, const Post&) {}
  void run_one(const op::Merge&, const Post&) {}
  void run_one(const op::Aggregate& o, const Post&);
  void run_one(const op::Extended& o, const Post&);
  void run_one(const op::EncodeRows& o, const Post&);
  void run_one(const op::PushRows& o, const Post&);
  void run_one(const op::Measure& o, const Post&);
  void* stream() const { return stream_.get(); }

  int device_;
  const compress::cuda::Stream& stream_;
  std::unique_ptr<optim::cuda::DeviceOptimizer> optimizer_;
  std::vector<DeviceFloats> slots_;
  DeviceEncoder encoder_;
  Rule rule_;
  DeviceScratch difference_, partials_;
  compress::cuda::Buffer number_{sizeof(double)}, flag_{sizeof(std::uint32_t)};
  mutable std::vector<float> parameters_here_;  ///< a copy, where nothing has run since
  std::uint64_t copied_ = 0;
};

}  // namespace gossamer::node
