#pragma once
// A DataPlane runs the commands of the control code on the floats, and answers. The commands are a small
// vector machine over named buffers ("slots") of the parameter buffer's size, or of a neighbour's model where
// that is of another shape: an exchange method is written in these and never sees a float.
#include <any>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "aligned.h"
#include "archive.h"
#include "gossamer/optim/objective.h"
#include "ids.h"
#include "own.h"

namespace gossamer::node {

using Slot = std::uint32_t;
constexpr Slot kParameters = 0;  ///< x
constexpr Slot kGradient = 1;    ///< g; after Update the step u

namespace op {
/// g ← the optimiser's step u on the range, from g and x.
struct Update {
  Range range;
  Round round;
  double place;           ///< in the rate's schedule, in rounds (optim::learning_rate)
  Slot slot = kGradient;  ///< where g stands; among on_ready of a gradient no other
};
/// x ← x − u: Update, and Combine of x and −u, in one pass. What is in g then is nobody's.
struct Step {
  Update update;
};
/// g ← g·min(1, limit/‖g‖₂) on the range.
struct Clip {
  Range range;
  double limit;
};
/// dst ← keep·dst + Σ factor·slot, terms in order. keep = 0 overwrites.
struct Combine {
  Range range;
  Slot dst;
  float keep;
  std::vector<std::pair<float, Slot>> terms;
};
/// v = src (− minus); payload = codec(v), with error feedback where feedback ≥ 0 (one state per number and
/// range begin); then, where apply_to is set, that slot += decode(payload), and where add_error_to ≥ 0 the
/// feedback state of that number += v − decode(payload): what was not sent now goes out with its next
/// payload. With momentum m > 0 and feedback the state holds a velocity too (momentum correction with factor
/// masking, compress/feedback.h): u ← m·u + v goes out in place of v; under the dense codec nothing is
/// masked. Answered by Encoded with the same tag.
struct Encode {
  Range range;
  Slot src;
  std::optional<Slot> minus;
  std::optional<Slot> apply_to;
  int feedback = -1;
  int add_error_to = -1;
  float momentum = 0;
  bool exact = false;  ///< use the dense codec whatever the job's codec is
  Round round;
  ParcelId parcel;
  std::uint32_t tag = 0;
};
/// Of src by the dense codec.
inline Encode encode_exactly(Range range, Slot src, Round round, ParcelId parcel, std::uint32_t tag = 0) {
  return {.range = range,
          .src = src,
          .minus = {},
          .apply_to = {},
          .exact = true,
          .round = round,
          .parcel = parcel,
          .tag = tag};
}
/// Step, then Encode, of the same range: in one pass where x's difference to what it is applied to is
/// encoded.
struct StepEncode {
  Update update;
  Encode encode;
};
/// x ← x − u of the gradient Σ weight · decode(payload), in order: Combine to 0, DecodeAdds and Step, or in
/// time of what the payloads hold. What is in update's slot then is nobody's.
struct StepBySum {
  Update update;
  std::vector<std::pair<float, Payload>> payloads;
};
/// Dense payloads of ranges that make up a larger one.
using Parts = std::vector<std::pair<Range, Payload>>;
/// x ← x − u of gradients that parts of each update's range tell: Decodes of all of them, and then Steps; in
/// one pass where the optimiser has one. What is in the updates' slots then is nobody's.
struct StepByParts {
  std::vector<std::pair<Update, Parts>> steps;
};
/// dst += weight · decode(payload)
struct DecodeAdd {
  Range range;
  Slot dst;
  float weight;
  Payload payload;
};
/// Where there is one the own step, of a gradient whose on_ready took none; dst += Σ weight ·
/// decode(payload), in order; then what follows, and what is to be encoded, which is answered: Step,
/// DecodeAdds, Combine and Encode of the same range, in one pass.
struct Mix {
  Range range;
  Slot dst;
  std::vector<std::pair<float, Payload>> payloads;
  Combine then;
  std::optional<Update> step{};
  std::optional<Encode> encode{};
};
/// dst ← decode(payload): Combine to 0 and DecodeAdd in one pass.
struct Decode {
  Range range;
  Slot dst;
  Payload payload;
};
/// factor·src + decode(payload), a dense payload or none, is encoded exactly, and answered by Encoded:
/// Combine, DecodeAdd and Encode in one pass. dst may stay as it is.
struct PassOn {
  Range range;
  Slot src;
  float factor;
  Slot dst;
  Payload payload;
  Round round;
  ParcelId parcel;
  std::uint32_t tag;
};
/// The encoding of mine + theirs, two payloads of the parcel's codec, is answered by Encoded, and what it
/// leaves out is added to the error: Combine to 0, two DecodeAdd and Encode. dst may stay as it is.
struct Merge {
  Range range;
  Slot dst;
  Payload mine, theirs;
  int add_error_to;  ///< as of Encode
  Round round;
  ParcelId parcel;

  Encode encode() const {
    return {.range = range,
            .src = dst,
            .minus = {},
            .apply_to = {},
            .add_error_to = add_error_to,
            .round = round,
            .parcel = parcel};
  }
};
/// dst ← the job's aggregation rule over the vectors of a neighbourhood, each of which is what stands in the
/// ranges one after another. A vector that does not decode, or holds a NaN or Inf, counts as zero: one wrong
/// vector more for the rule to bear.
struct Aggregate {
  std::vector<Range> ranges;
  Slot dst;
  std::vector<std::vector<Payload>> vectors;  ///< in peer order, a payload per range; none: what dst holds
  std::vector<float> weights;                 ///< of the vectors
  std::size_t self;                           ///< the own one among them
};
/// A command of the method's own, which only its extension knows (extension.h).
struct Extended {
  std::any command;
};
/// What the last gradient changed of the table's rows goes to what is unsent; with `send` that is answered by
/// Encoded, of what is to be told now.
struct EncodeRows {
  Round round;
  ParcelId parcel;
  bool send;
  bool together;  ///< who is told applies it when all have been told of the round, and this peer has
};
/// A step of the table's optimiser with the sum of what the own last gradient changed (where `own`) and of
/// what others told, in the order of the peers.
struct PushRows {
  Round round;
  bool own;
  std::vector<std::pair<PeerId, Payload>> received;  ///< peers ascend; of each, in order
};
/// Answered by Measured: ‖x‖₂ as it stands.
struct Measure {
  Round round;
};
}  // namespace op
using Op = std::variant<op::Update, op::Step, op::Clip, op::Combine, op::Encode, op::StepEncode,
                        op::StepBySum, op::StepByParts, op::DecodeAdd, op::Mix, op::Decode, op::PassOn,
                        op::Merge, op::Aggregate, op::Extended, op::EncodeRows, op::PushRows, op::Measure>;

namespace op {
/// Commands that do the same as one that does several things at once; none: it does not.
std::vector<Op> in_simple_ones(const Op& op);
/// Whether something may be posted while it runs.
bool may_answer(const Op& op);
}  // namespace op

class Extension;
class RowExchange;
struct ExtensionInputs;
/// Of any contents.
using SpareFloats = std::vector<AlignedFloats>;

/// What an exchange method keeps beside x and g.
struct Buffers {
  std::size_t slots = 0;  ///< of floats, numbered from 2; they start as copies of x
  /// Peers whose models are kept: slots after those, zero at first and each of its peer's shape.
  std::vector<PeerId> models{};
  /// Makes what the method keeps that is no floats; empty: nothing.
  std::function<std::unique_ptr<Extension>(const ExtensionInputs&)> extension{};
  /// The slots start at the x⁰ that all peers have, also where this one's parameters are elsewhere by then:
  /// what two peers know of each other must be the same at both.
  bool anchored = false;
  /// g stays as it was computed until a step is taken. Where none is, as the view ends, it can be handed on
  /// to the next one.
  bool keeps_gradient = false;
  /// Slots after the first ones, of which nothing is read that was not written in the same round: zero at
  /// first, saved in no state, and no memory before they are used.
  std::size_t scratch = 0;
};

/// A batch's labels by several models beside the data's own: the weighted mean of the class probabilities
/// that the models in these slots give, terms in order. No models: the data's labels alone.
struct SoftLabels {
  float weight = 0;  ///< of the loss against them, in [0, 1]; 1 − weight is the data's
  std::vector<std::pair<float, Slot>> models{};
};

/// Loss and gradient at x of the next batch, last layer first. As soon as parcel p's gradient stands and its
/// parameters are not read any more, on_ready[p] runs and ParcelReady{p} is posted; then, where there is one
/// more, the same of the rows; then GradientDone. The models of soft are read before the first of these.
/// A parcel's gradient that is not finite counts as zero (where its layer is clipped, the layer's), and an
/// Update among its on_ready, or of a Mix, gives the step 0 and leaves the optimiser as it is. (An Update
/// after a sum over peers is no part of on_ready: there all peers step alike, and this one has added
/// nothing.) One that the view before has handed on is not computed again; its rows were counted there.
struct Gradient {
  Round round;
  std::vector<std::vector<Op>> on_ready;
  SoftLabels soft{};
  bool idle = false;  ///< none is computed: it counts as zero, without a batch, as if it were not finite
  /// Of a parcel without on_ready nothing comes but an op::Mix that takes the own step, which may wait for
  /// the gradient: a data plane may post its ParcelReady as soon as it begins.
  bool steps_in_mix = false;
};

struct ParcelReady {
  Round round;
  ParcelId parcel;
};
struct Encoded {
  Round round;
  ParcelId parcel;
  std::uint32_t tag;
  std::uint64_t entries;
  Payload payload;
};
struct GradientDone {
  Round round;
  double loss;  ///< mean over the batch
  std::size_t rows;
  bool skipped = false;  ///< the loss, or something of the gradient, was not finite and was left out
  bool idle = false;     ///< as it was asked for, or without data: DataPlane::hurry
};
struct Evaluated {
  Round round;
  optim::Figures test;
};
struct Measured {
  Round round;
  double norm;
};
/// What the data plane keeps between rounds; names begin with "data/".
struct Saved {
  Round round;
  SharedState state;  ///< the receiver's
};
/// What Kept::learned takes, as to_bytes has it.
struct Learned {
  std::shared_ptr<const std::vector<std::byte>> bytes;
  std::uint64_t hash;  ///< XXH3
};
/// The data plane cannot go on (a value that is not finite, a payload that does not decode).
struct Failed {
  std::string what;
  bool diverged = false;  ///< a Diverged was thrown
};
/// Its bytes and their hash.
Learned learned_bytes(const State& state);
using DataEvent =
    std::variant<ParcelReady, Encoded, GradientDone, Evaluated, Measured, Saved, Learned, Failed>;
/// What of a saved state is taken over.
enum class Kept {
  all,      ///< it goes on as if it had never stopped
  learned,  ///< parameters, the optimiser's state, the position in the data, a table's rows; what the method
            ///< keeps starts anew from there (Buffers::anchored: from x⁰), but for its own (own.h)
};
using PostEvent = std::function<void(DataEvent)>;

/// Training ran away: a value is not finite, or beyond what can be coded. Says what and where; the control
/// code adds what to do.
class Diverged final : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
/// The answer to a command that threw.
inline Failed failure(const std::exception& e) {
  return {e.what(), dynamic_cast<const Diverged*>(&e) != nullptr};
}

/// A FIFO of commands. Ops overtake a gradient that is under way, between two of its layers: safe because an
/// op on a parcel is only submitted after that parcel's ParcelReady (or before the gradient; or may wait for
/// it: Gradient::steps_in_mix).
class DataPlane {
 public:
  virtual ~DataPlane() = default;
  virtual void submit(Op op) = 0;
  virtual void submit(Gradient gradient) = 0;
  virtual void submit_evaluation(Round round) = 0;  ///< of x on the test set, answered by Evaluated
  /// Answered by Saved; while nothing else is under way.
  virtual void submit_snapshot(Round round) = 0;
  /// Answered by Learned, as it stands between two gradients.
  virtual void submit_learned() = 0;
  /// Before anything is submitted: what a data plane of the same job and peer had saved. Throws StateError.
  virtual void restore(const State& state, Kept kept) = 0;
  /// The run is to end soon: gradients wait for no data from now on.
  virtual void hurry() {}
};

/// A DataPlane of a real process: its answers wait to be fetched.
class LiveDataPlane : public DataPlane {
 public:
  /// Threads that share the coding of a large parcel; before anything is submitted.
  virtual void use_threads(std::size_t threads) = 0;
  /// Readable while events wait.
  virtual int event_fd() const = 0;
  /// Moves the waiting events out.
  virtual std::vector<DataEvent> take_events() = 0;
  /// All ops are still run; gradients and evaluations that have not begun are not, and a gradient under way
  /// is given up between two layers, with the steps that waited for it.
  virtual void finish() = 0;
  /// Finishes, and lets go of all floats; what is asked for after it is nothing. The memory of the host's is
  /// handed on, for whoever needs as much: new pages cost more than what is written there.
  virtual SpareFloats release() = 0;
  virtual bool released() const = 0;
  /// x; after finish.
  virtual std::span<const float> parameters() const = 0;
  /// As Replica::save_for_next_view; after finish.
  virtual State for_next_view(std::span<const Incarnation> seats) = 0;
  /// What was learned, and how its rows were exchanged (null: they were not); after finish.
  virtual optim::Objective& objective() = 0;
  virtual const RowExchange* rows() const = 0;
};
using DataPlaneFactory = std::function<std::unique_ptr<LiveDataPlane>()>;

/// What observers see of a data plane.
class DataView {
 public:
  virtual ~DataView() = default;
  virtual std::span<const float> slot(Slot s) const = 0;
  virtual const Extension* extension() const = 0;  ///< null: the method has none
  virtual const RowExchange* rows() const = 0;     ///< null: no rows are exchanged
};

}  // namespace gossamer::node
