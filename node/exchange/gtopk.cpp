// Full reduce of the k largest entries of the sum alone: gTop-k (Shi et al. 2019). Payloads stay k entries
// long on their whole way, where gathering everyone's k would make P·k of them.
//
// Up. Each peer weighs its gradient by its share of the samples and selects the k largest entries of gradient
// plus residual; `sum` is that payload. (Where all shares are the same the result is weighed in its place,
// and residuals hold gradients as they are.) In step r = 0 … ⌈log₂P⌉ − 1 peer i, where bit r is the lowest
// that is set in i, sends its sum to `parent` i − 2^r, which adds the two sparse vectors, keeps the k largest
// entries and goes on with them as its sum. `children` are the peers i + 2^r < P below the lowest set bit;
// any P will do. Each peer takes its children in ascending order, so that all runs add in the same order.
//
// Down. Peer 0 ends with the sum's k selected entries; these bytes go back along the same edges as they are,
// and every peer takes them for its gradient: all peers stay identical to the bit.
//
// Both at once. Where P is a power of two, its graph has an edge between all whose numbers differ in one bit,
// and what becomes of two payloads' sum is told by these alone, nobody waits for the way down: in step r peer
// i and i ^ 2^r send each other their sums, and both make of the two what the lower one's part of the tree
// would. After log₂P messages in a row in place of 2·log₂P all hold the tree's result, to the bit; P/2·log₂P
// pairs of messages have been sent in place of P − 1.
//
// Nothing is lost. What a selection leaves out of a partial sum goes into the residual of the peer that left
// it out (add_error_to), of those that make the same sum the lowest, whose next selection sees it again:
// Σ residuals + result = Σ inputs, whatever was dropped where. (In the paper every peer takes back what of
// its own selection the result does not hold; what one branch dropped of an entry that another branch brought
// into the result is lost there.)
//
// Layers that go dense are summed along the same tree and have nothing to leave.
#include <algorithm>
#include <bit>

#include "full_reduce.h"
#include "method.h"
#include "reasons.h"

namespace gossamer::node {
namespace {

class Gtopk final : public FullReduce {
 public:
  explicit Gtopk(ExchangeHost& host)
      : FullReduce(host),
        butterfly_(goes_by_butterfly(host.plan())),
        equal_shares_(
            std::ranges::all_of(host.plan().share, [&](double s) { return s == host.plan().share[0]; })),
        state_(host.plan().parcels.size()) {
    for (PeerId step = 1; !butterfly_ && step < peers_ && (self_ & step) == 0; step *= 2)
      if (self_ + step < peers_) children_.push_back(self_ + step);
  }

  std::vector<Op> on_ready(Round round, ParcelId parcel) override {
    op::Encode first = select(round, parcel);
    first.feedback = kResidual;
    first.momentum = momentum(parcel);
    first.exact = peers_ == 1;
    std::vector<Op> ops = clipped(parcel);
    if (peers_ == 1 && first.momentum == 0) return ops;
    if (!equal_shares_) ops.emplace_back(op::Combine{range(parcel), kGradient, share(self_), {}});
    ops.emplace_back(first);
    return ops;
  }

  void on_encoded(const Encoded& e) override {
    state_[e.parcel].sum = e.payload;
    advance(e.parcel);
  }

 private:
  static constexpr std::uint32_t kUp = 0, kDown = 1;  // tags of a tree; a butterfly's are its steps
  static constexpr int kResidual = 0;
  struct State {
    Payload sum;               ///< of this peer's and of what was merged; null while it is made
    std::uint32_t merged = 0;  ///< sums of children, or steps
    bool sent = false;         ///< to the parent, or to the step's partner
  };

  Range range(ParcelId parcel) const { return host_.plan().parcels[parcel].range; }
  PeerId parent() const { return self_ & (self_ - 1); }
  /// In a step of a butterfly.
  PeerId partner(std::uint32_t step) const { return self_ ^ (PeerId{1} << step); }

  op::Encode select(Round round, ParcelId parcel) const {
    return op::Encode{.range = range(parcel),
                      .src = kGradient,
                      .minus = {},
                      .apply_to = {},
                      .round = round,
                      .parcel = parcel};
  }

  void send(PeerId to, Round round, ParcelId parcel, std::uint32_t tag, const Payload& payload) {
    host_.send(to, {round, parcel, tag, range(parcel).size, payload});
  }

  void start(Round, ParcelId) override {}
  std::optional<std::size_t> entries_of(PeerId from, ParcelId parcel, std::uint32_t tag) const override {
    if (butterfly_)
      return tag < steps_ && from == partner(tag) ? std::optional(range(parcel).size) : std::nullopt;
    const bool child = std::find(children_.begin(), children_.end(), from) != children_.end();
    const bool sends = tag == kUp ? child : tag == kDown && self_ != 0 && from == parent();
    return sends ? std::optional(range(parcel).size) : std::nullopt;
  }

  void progress(Round round, ParcelId parcel) override {
    State& s = state_[parcel];
    if (butterfly_) {
      step(round, parcel);
    } else if (s.sent) {
      if (auto message = take(round, parcel, kDown, parent())) accept(round, parcel, message->payload);
    } else if (s.sum && s.merged < children_.size()) {
      if (auto message = take(round, parcel, kUp, children_[s.merged]))
        merge(round, parcel, std::exchange(s.sum, nullptr), message->payload, true);
    } else if (s.sum && self_ == 0) {
      accept(round, parcel, s.sum);
    } else if (s.sum) {
      s.sent = true;
      send(parent(), round, parcel, kUp, s.sum);
    }
  }

  void step(Round round, ParcelId parcel) {
    State& s = state_[parcel];
    if (!s.sum) return;
    if (s.merged == steps_) return accept(round, parcel, s.sum);
    const PeerId other = partner(s.merged);
    if (!std::exchange(s.sent, true)) send(other, round, parcel, s.merged, s.sum);
    auto message = take(round, parcel, s.merged, other);
    if (!message) return;
    s.sent = false;
    Payload lower = std::exchange(s.sum, nullptr), upper = std::move(message->payload);
    if (other < self_) std::swap(lower, upper);
    const bool lowest = self_ % (PeerId{2} << s.merged) == 0;
    merge(round, parcel, std::move(lower), std::move(upper), lowest);
  }

  void merge(Round round, ParcelId parcel, Payload lower, Payload upper, bool keeps_rest) {
    host_.submit(op::Merge{.range = range(parcel),
                           .dst = kGradient,
                           .mine = std::move(lower),
                           .theirs = std::move(upper),
                           .add_error_to = keeps_rest ? kResidual : -1,
                           .round = round,
                           .parcel = parcel});
    ++state_[parcel].merged;
  }

  /// Farthest child first: it has the most to pass on.
  void accept(Round round, ParcelId parcel, Payload result) {
    for (auto child = children_.rbegin(); child != children_.rend(); ++child)
      send(*child, round, parcel, kDown, result);
    state_[parcel] = {};
    const float weight = equal_shares_ ? share(self_) : 1;
    finish_with(round, parcel, {{weight, std::move(result)}});
  }

  const bool butterfly_;
  const bool equal_shares_;
  const std::uint32_t steps_ = static_cast<std::uint32_t>(std::countr_zero(peers_));  ///< of a butterfly
  std::vector<PeerId> children_;  ///< in a tree, ascending
  std::vector<State> state_;      ///< per parcel
};

std::unique_ptr<Exchange> make_gtopk(ExchangeHost& host) { return std::make_unique<Gtopk>(host); }

}  // namespace

bool goes_by_butterfly(const Plan& plan) {
  const topology::Schedule& schedule = plan.schedule;
  const auto peers = static_cast<PeerId>(schedule.peers());
  if (!std::has_single_bit(peers) || schedule.time_varying() || !plan.codec.merges) return false;
  for (PeerId i = 0; i < peers; ++i)
    for (PeerId step = 1; step < peers; step *= 2)
      if (!std::ranges::binary_search(schedule.at(0).out(i), i ^ step)) return false;
  return true;
}

constinit const Method kGtopkMethod{
    .row = {"gtopk", "the k largest entries of the sum of all, selected along a tree of pairs (gTop-k)"},
    .needs = {.graph = Needs::Graph::halving,
              .code = Needs::Code::topk,
              .may_vary = false,
              .may_be_stale = false,
              .sparse_feedback = true,
              .reads = "aggregate dense_below",
              .why_graph =
                  "every peer i > 0 sends to i without its lowest set bit (1 to 0, 6 to 4); use graph.kind "
                  "'full', or 'hypercube' for a power of two of peers",
              .why_code = "every merge keeps a fixed number of the largest entries; use 'topk', or method "
                          "'allreduce' for other codecs",
              .why_synchronous = kOneSum},
    .make = make_gtopk,
    .buffers = [](const Plan& plan) { return FullReduce::buffers(plan, 0); },
    .own_steps = OwnSteps::mean,
    .pattern = Pattern{.messages = Pattern::Messages::tree, .mixing = Pattern::Mixing::full},
    .invariants = {.all_alike = true}};

}  // namespace gossamer::node
