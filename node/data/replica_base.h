#pragma once
// ReplicaBase is what replicas have in common wherever their floats are: what happens in a round in which
// order, and under which names it stands in a State.
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "attack.h"
#include "codec_schedule.h"
#include "data_plane.h"
#include "extension.h"
#include "gossamer/optim/objective.h"
#include "gossamer/optim/optimizer.h"
#include "observer.h"
#include "parcel.h"
#include "shared_list.h"
#include "trace.h"

namespace gossamer::node {

/// What every replica is made of.
struct ReplicaBaseParts {
  std::shared_ptr<const void> outlives_objective{};  ///< what that needs as long as it is there
  std::unique_ptr<optim::Objective> objective;       ///< takes x and g where the replica has them
  std::shared_ptr<const CodecSchedule> codecs;
  std::string aggregate = "weighted";  ///< of op::Aggregate; canonical
  AttackSpec attack{};
  SharedList<Parcel> parcels;
  std::function<double(Round)> rate;      ///< learning rate over its peak
  std::vector<std::size_t> peer_sizes{};  ///< floats of the slots that hold others' models
  std::uint64_t seed = 0;
  std::uint32_t peer = 0;
};

/// Executes commands on the calling thread; one thread at a time.
class ReplicaBase {
 public:
  using Post = PostEvent;
  virtual ~ReplicaBase() = default;

  /// Before anything else on a thread.
  virtual void enter_thread() const {}

  void run(const Op& op, const Post& post);
  /// between_layers is called after each layer's on_ready ops.
  void run(const Gradient& gradient, const Post& post, const std::function<void()>& between_layers);
  /// The parcel whose gradient is under way (Gradient::steps_in_mix) and gives the op its step: it runs when
  /// that stands.
  std::optional<ParcelId> waits_for(const Op& op) const;
  virtual void evaluate(Round round, const Post& post) = 0;

  /// All that it keeps between rounds. used: as Archive::saving has it.
  State save(State used = {});
  /// What Kept::learned takes of it, for whoever goes on from it.
  State save_learned();
  /// The same for this peer's next view, with what is its own (own.h); seats: as of Extension::save_own.
  /// with_gradient: where the last one stands, and no step was taken by it, that too.
  State save_for_next_view(std::span<const Incarnation> seats, bool with_gradient = true);
  /// A gradient that stands as its view ends is of use in the next one.
  bool hands_on_gradients() const;
  /// The next gradient is one that was handed on, and computes nothing.
  bool has_gradient() const { return handed_on_; }
  /// Throws StateError where the state is another job's or peer's. Replicas of any kind go on from each
  /// other's.
  void restore(const State& state, Kept kept = Kept::all);

  /// A gradient under way is to end soon, whatever it waits for; from another thread.
  void cancel() { base_.objective->cancel(); }
  /// The same, of gradients that wait for data: they are left out from now on.
  void hurry() { base_.objective->hurry(); }

  /// The memory of what it holds on the host; nothing runs after it.
  virtual SpareFloats hand_on() { return {}; }
  /// Threads that share the encoding and decoding of a large parcel from now on.
  virtual void use_threads(std::size_t /*threads*/) {}
  /// Gradients and ops are told with the time that they take; null: nobody is.
  void trace(std::shared_ptr<Trace> trace) { trace_ = std::move(trace); }

  /// x, on the host; until something runs or this is called again.
  virtual std::span<const float> parameters() const = 0;
  /// Null: none are exchanged.
  virtual const RowExchange* rows() const { return nullptr; }
  optim::Objective& objective() { return *base_.objective; }

 protected:
  ReplicaBase(ReplicaBaseParts parts, std::span<const float> x0, const Buffers& buffers);
  ReplicaBase(ReplicaBase&&) = default;

  // What one command does.
  virtual void execute(const Op& op, const Post& post) = 0;
  /// Where the objective takes it.
  virtual std::span<float> whole(Slot s) = 0;
  virtual std::vector<optim::Teacher> teachers(const SoftLabels& soft) const = 0;
  virtual bool all_finite(Range gradient) = 0;
  virtual void clear_gradient(Range range) = 0;
  /// The slots that a method keeps ← x.
  virtual void spread_parameters() = 0;

  // What it keeps: slots and the optimiser's state, and what is unsent of the parcels and of rows.
  virtual std::size_t slots() const = 0;
  virtual void archive_slot(Archive archive, const std::string& name, Slot s) = 0;
  virtual void show_optimizer(optim::StateVisitor& visitor) = 0;
  virtual void archive_unsent(Archive archive) = 0;
  /// As rows().
  virtual RowExchange* row_exchange() { return nullptr; }

  ReplicaBaseParts base_;
  Buffers buffers_;
  Attack attack_;
  std::unique_ptr<Extension> extension_;  ///< null: the method has none
  bool skips_update_ = false;  ///< the ops that run belong to a parcel whose gradient was not finite
  Round round_ = 0;            ///< of the last gradient
  Observer* observer_ = nullptr;

 private:
  void archive(Archive archive);
  void archive_learned(Archive archive);
  void stand_idle(const Gradient& gradient, const Post& post);
  void take_up(const Gradient& gradient, const Post& post, const std::function<void()>& between_layers);
  Range gradient_read(const std::vector<Op>& on_ready, ParcelId parcel) const;
  bool make_ready(const Gradient& gradient, std::size_t layer, const Post& post);

  std::set<std::size_t> left_out_;  ///< where parcels begin whose last gradient was none, or not finite
  std::map<std::size_t, ParcelId> under_way_;  ///< by where they begin: whose gradient is, for Mix to step by
  std::uint64_t steps_ = 0;                    ///< batches taken
  std::optional<double> loss_of_g_;            ///< of the gradient that stands, and no step was taken by
  bool stepped_ = false;                       ///< a step was taken since the last gradient began
  bool handed_on_ = false;                     ///< it is of the view before
  std::uint64_t taken_up_ = 0;                 ///< such gradients
  std::vector<std::vector<ParcelId>> parcels_of_layer_;
  std::shared_ptr<Trace> trace_;
};

constexpr const char* kParametersArray = "data/slot0";  ///< of what a replica saves, the one that is x
/// x of what a replica had saved.
std::vector<float> parameters_in(const State& state);

}  // namespace gossamer::node
