#pragma once
// Replica owns the floats of one peer: parameters, gradient, optimiser state, residuals, estimates of
// neighbours.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "aligned.h"
#include "attack.h"
#include "data_plane.h"
#include "encoder.h"
#include "extension.h"
#include "gossamer/compress/codec.h"
#include "gossamer/optim/objective.h"
#include "gossamer/optim/optimizer.h"
#include "observer.h"
#include "parcel.h"
#include "planted.h"
#include "row_exchange.h"
#include "rule.h"
#include "shared_list.h"
#include "trace.h"

namespace gossamer::node {

/// What a replica is made of.
struct ReplicaParts {
  std::unique_ptr<optim::Objective> objective;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::shared_ptr<const CodecSchedule> codecs;
  std::string aggregate = "weighted";  ///< of op::Aggregate; canonical
  AttackSpec attack{};
  SharedList<Parcel> parcels;
  std::function<double(Round)> rate;         ///< learning rate over its peak
  std::vector<std::size_t> peer_sizes{};     ///< floats of the slots that hold others' models
  std::optional<compress::RowsSpec> rows{};  ///< of the objective's table are exchanged so
  std::size_t peers = 1;                     ///< in the run
  std::uint64_t seed = 0;
  std::uint32_t peer = 0;
  std::size_t threads =
      1;  ///< that share the encoding and decoding of a large parcel; the bytes are the same
  [[no_unique_address]] Planted planted{};
};

constexpr const char* kParametersArray = "data/slot0";  ///< of what a replica saves, the one that is x
/// x of what a replica had saved.
std::vector<float> parameters_in(const State& state);

/// Executes commands on the calling thread; one thread at a time.
class Replica final : public DataView {
 public:
  using Post = PostEvent;
  /// Starts at the parameters x0 (buffer_size floats), as do slots 2 … 2+slots−1; after them come those of
  /// parts.peer_sizes (one for each of buffers.models), zero at first.
  Replica(ReplicaParts parts, std::span<const float> x0, const Buffers& buffers);

  void run(const Op& op, const Post& post);
  /// between_layers is called after each layer's on_ready ops.
  void run(const Gradient& gradient, const Post& post, const std::function<void()>& between_layers);
  void evaluate(Round round, const Post& post);

  /// All that it keeps between rounds. used: as Archive::saving has it.
  State save(State used = {});
  /// What Kept::learned takes of it, for whoever goes on from it.
  State save_learned();
  /// The same for this peer's next view, with what is its own (own.h); seats: as of Extension::save_own.
  State save_for_next_view(std::span<const Incarnation> seats);
  /// Throws StateError where the state is another job's or peer's.
  void restore(const State& state, Kept kept = Kept::all);

  /// A gradient under way is to end soon, whatever it waits for; from another thread.
  void cancel() { parts_.objective->cancel(); }

  /// Threads that share the encoding and decoding of a large parcel from now on, in place of parts.threads.
  void use_threads(std::size_t threads);
  /// Tells the observer of every gradient, op and encoding from now on; null: nobody.
  void observe(Observer* observer) { observer_ = observer; }
  /// Gradients and ops are told with the time that they take; null: nobody is.
  void trace(std::shared_ptr<Trace> trace) { trace_ = std::move(trace); }

  std::span<const float> parameters() const { return slot(kParameters); }
  std::span<const float> slot(Slot s) const override { return {slots_[s].data(), slots_[s].size()}; }
  const Extension* extension() const override { return extension_.get(); }
  const RowExchange* rows() const override { return rows_.get(); }
  optim::Objective& objective() { return *parts_.objective; }
  /// What was encoded with feedback of this number and has not been sent yet; 0 elsewhere.
  std::vector<float> unsent(int feedback) const;

 private:
  void archive(Archive archive);
  void archive_learned(Archive archive);
  std::span<float> at(Slot s, Range r) { return {slots_[s].data() + r.begin, r.size}; }
  std::vector<optim::Teacher> teachers(const SoftLabels& soft) const;
  void stand_idle(const Gradient& gradient, const Post& post);
  bool drop_not_finite(std::size_t layer);
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

  ReplicaParts parts_;
  std::uint64_t steps_ = 0;    ///< batches taken
  bool skips_update_ = false;  ///< the ops that run belong to a layer whose gradient was not finite
  std::vector<AlignedFloats> slots_;
  std::vector<std::vector<ParcelId>> parcels_of_layer_;
  Encoder encoder_;
  std::unique_ptr<compress::Threads> team_;  ///< null: one thread
  compress::Workspace workspace_;
  Rule rule_;
  Attack attack_;
  AlignedFloats difference_;
  Buffers buffers_;
  std::unique_ptr<Extension> extension_;  ///< null: the method has none
  std::unique_ptr<RowExchange> rows_;     ///< null: none are exchanged
  Observer* observer_ = nullptr;
  std::shared_ptr<Trace> trace_;
  Round traced_round_ = 0;  ///< of the last gradient
};

}  // namespace gossamer::node
