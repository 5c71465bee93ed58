#pragma once
// DeviceReplica is a Replica whose floats stay in a CUDA device's memory: gradients, steps, mixing and coding
// run there, on one stream, and payloads' bytes are all that comes and goes. What knows host memory alone
// (rules over whole models, extensions) is handed a copy, and that is counted.
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "aligned.h"
#include "attack.h"
#include "data_plane.h"
#include "device_encoder.h"
#include "device_memory.h"
#include "extension.h"
#include "gossamer/optim/device.h"
#include "parcel.h"
#include "rule.h"
#include "shared_list.h"

namespace gossamer::node {

/// What it is made of; objective and optimiser work on the device in use, on that stream.
struct DeviceReplicaParts {
  std::shared_ptr<compress::cuda::Stream> stream;
  std::unique_ptr<optim::Objective> objective;  ///< that takes x and g there (make_device_row_objective)
  std::unique_ptr<optim::cuda::DeviceOptimizer> optimizer;
  std::shared_ptr<const CodecSchedule> codecs;
  std::string aggregate = "weighted";  ///< of op::Aggregate; canonical
  SharedList<Parcel> parcels;
  std::function<double(Round)> rate;      ///< learning rate over its peak
  std::vector<std::size_t> peer_sizes{};  ///< floats of the slots that hold others' models
  std::uint64_t seed = 0;
  std::uint32_t peer = 0;
};

/// As Replica: executes commands on the calling thread; one thread at a time, for which the device is in use.
/// Rows of a table and labels by others' models stay with host peers.
class DeviceReplica {
 public:
  using Post = PostEvent;
  DeviceReplica(DeviceReplicaParts parts, std::span<const float> x0, const Buffers& buffers);

  void run(const Op& op, const Post& post);
  void run(const Gradient& gradient, const Post& post, const std::function<void()>& between_layers);
  void evaluate(Round round, const Post& post);

  /// To the arrays that Replica makes and takes, so that either goes on from the other.
  State save(State used = {});
  State save_learned();
  State save_for_next_view(std::span<const Incarnation> seats);
  void restore(const State& state, Kept kept = Kept::all);

  void cancel() { parts_.objective->cancel(); }
  /// Copies, on the host.
  std::vector<float> parameters() const { return slot(kParameters); }
  std::vector<float> slot(Slot s) const;
  optim::Objective& objective() { return *parts_.objective; }
  /// Bytes of floats that went to the host and back for what runs there.
  std::uint64_t copied() const { return copied_; }
  std::uint64_t decoded_on_host() const { return encoder_.decoded_on_host(); }

 private:
  class HostCopies;
  void archive(Archive archive);
  void archive_learned(Archive archive);
  float* at(Slot s, Range r) const { return slots_[s].data() + r.begin; }
  std::span<float> whole(Slot s) const { return {slots_[s].data(), slots_[s].size()}; }
  void upload(Slot s, std::span<const float> from);
  void clear(Slot s, Range r);
  std::size_t layer_of(Range r) const;
  bool drop_not_finite(std::size_t layer);
  double norm(const float* x_dev, std::size_t n);
  void stand_idle(const Gradient& gradient, const Post& post);
  void run_one(const op::Update& o, const Post&);
  void run_one(const op::Clip& o, const Post&);
  void run_one(const op::Combine& o, const Post&);
  void run_one(const op::Encode& o, const Post&);
  void run_one(const op::DecodeAdd& o, const Post&);
  void run_one(const op::Aggregate& o, const Post&);
  void run_one(const op::Extended& o, const Post&);
  void run_one(const op::EncodeRows& o, const Post&);
  void run_one(const op::PushRows& o, const Post&);
  void run_one(const op::Measure& o, const Post&);
  void* stream() const { return parts_.stream->get(); }

  DeviceReplicaParts parts_;
  std::uint64_t steps_ = 0;    ///< batches taken
  bool skips_update_ = false;  ///< the ops that run belong to a layer whose gradient was not finite
  Round round_ = 0;            ///< of the last gradient
  std::vector<DeviceFloats> slots_;
  std::vector<std::vector<ParcelId>> parcels_of_layer_;
  DeviceEncoder encoder_;
  Attack attack_{AttackSpec{}, 0, 0};  ///< none; states hold one
  Rule rule_;
  Buffers buffers_;
  std::unique_ptr<Extension> extension_;  ///< null: the method has none
  DeviceScratch difference_, partials_;
  compress::cuda::Buffer number_{sizeof(double)}, flag_{sizeof(std::uint32_t)};
  std::uint64_t copied_ = 0;
};

}  // namespace gossamer::node
