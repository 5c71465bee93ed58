// What is done to floats, followed in sums of coefficients instead of vectors.
//
// Every slot of every peer carries, per block of 16 floats, how much of a model and how much of a fresh
// gradient it holds: the sum of the coefficients with which models (gradients) of whichever peer entered it.
// Ops act on these sums as on floats, codecs leave them as they are, residuals hold none. So x = Σ W_ij x_j
// holds exactly one model where the weights sum to 1, a difference x − x̂ none, RelaySum's sums as many as
// they count.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "checkers.h"
#include "data_plane.h"
#include "frame.h"
#include "hash.h"
#include "link.h"
#include "mass.h"
#include "modulo.h"
#include "parcel.h"

namespace gossamer::node {
namespace {

constexpr std::size_t kBlock = 16;   ///< ranges start at its multiples
constexpr double kTolerance = 1e-3;  ///< fp32 weights, over some hundred rounds
constexpr double kSumTolerance = 1e-4;

struct Holding {
  double model = 0, fresh = 0;
};
using Holdings = std::vector<Holding>;  ///< by block

class Floats final : public Checker {
 public:
  Floats(const Invariants& invariants, const Prepared& prepared, Findings& findings)
      : invariants_(invariants),
        findings_(findings),
        peers_(invariants.peers),
        adds_what_came_(invariants.adds_what_came),
        send_momentum_(kSendMomentum.of(prepared.job.exchange)),
        sent_(peers_ * peers_),
        came_(peers_) {
    for (PeerId p = 0; p < peers_; ++p) {
      size_ = std::max(size_, prepared.initial_of(p).size());
      parcels_.push_back(prepared.plan->parcels_of(p));
      shares_.push_back(prepared.plan->share[p]);
      came_[p].assign(parcels_[p].size(), shares_[p]);
    }
  }

  void on_gradient(PeerId peer, const Gradient& gradient) override {
    check_applied(peer);
    check_teachers(peer, gradient);
    for (Holding& h : slot(peer, kGradient)) h = {0, 1};
  }

  void on_op(PeerId peer, const Op& op, const DataView& after) override {
    std::visit([&](const auto& o) { run(peer, o, after); }, op);
  }

  void on_mixed(PeerId peer, Round round, ParcelId parcel) override {
    const Range r = parcels_[peer][parcel].range;
    for (std::size_t b = first(r); b < last(r); ++b) {
      const Holding& h = slot(peer, kParameters)[b];
      if (std::abs(h.model - 1) > kTolerance || std::abs(h.fresh) > kTolerance)
        return findings_.report(
            "weights",
            fmt::format("peer {} ends round {} of parcel {} with {} times a model and {} times a gradient "
                        "in x; expected 1 and 0",
                        peer, round, parcel, h.model, h.fresh));
    }
  }

  // --- payloads on their way

  void on_send(PeerId peer, PeerId to, const Message& m) override {
    sent_[peer * peers_ + to][{m.round, m.parcel, m.tag}] = m.payload;
  }
  void on_message(PeerId peer, PeerId from, const Message& m) override {
    const auto& line = sent_[from * peers_ + peer];
    const auto origin = line.find({m.round, m.parcel, m.tag});
    if (origin == line.end()) return;
    const auto at = payloads_.find(origin->second.get());
    if (at == payloads_.end()) return;
    Known& copy = payloads_[m.payload.get()];
    copy = at->second;
    copy.alive = m.payload;
    copy.applied = 0;
    copy.came_from = from;
  }
  void on_used(PeerId peer, PeerId from, const Message& m) override {
    if (adds_what_came_) came_[peer].at(m.parcel) += shares_[from];
    if (invariants_.drops_messages || invariants_.never_applied(m.round) || ended_.contains(peer)) return;
    const auto at = payloads_.find(m.payload.get());
    if (at == payloads_.end() || at->second.applied == 0)
      unapplied_[peer].emplace(m.payload.get(), Use{from, m.round, m.parcel});
  }
  void on_end(PeerId peer, const std::string&) override { ended_.insert(peer); }

  // --- error feedback

  void before_encode(PeerId, const op::Encode& o, std::span<const float> v,
                     const compress::FeedbackState* state) override {
    before_.assign(v.begin(), v.end());
    residual_.assign(v.size(), 0.0f);
    has_feedback_ = o.feedback >= 0 && o.add_error_to != o.feedback;
    if (state && has_feedback_) residual_ = whole(*state, v.size());
  }

  void after_encode(PeerId peer, const op::Encode& o, const compress::FeedbackState* state,
                    const Payload& payload) override {
    encoded_ = payload;
    if (!has_feedback_ || !state) return;
    std::vector<float> decoded(before_.size(), 0.0f);
    compress::decode_add(*payload, 1.0f, decoded);
    const std::vector<float> left = whole(*state, before_.size());
    for (std::size_t i = 0; i < decoded.size(); ++i) {
      const float v = before_[i] + residual_[i];
      const double found = static_cast<double>(decoded[i]) + static_cast<double>(left[i]);
      const double expected = static_cast<double>(before_[i]) + static_cast<double>(residual_[i]);
      const float most = std::max(std::abs(v), std::abs(decoded[i]));
      const double ulp = static_cast<double>(std::nextafter(most, INFINITY)) - static_cast<double>(most);
      if (!(std::abs(found - expected) <= 2 * ulp))
        return findings_.report(
            "residual",
            fmt::format("peer {} round {} parcel {} entry {}: decode(m) + e = {}, g + e before = {}", peer,
                        o.round, o.parcel, i, found, expected));
    }
  }

  void at_end(const SimResult& result) override {
    if (!invariants_.synchronous()) return;  // otherwise a peer that serves the others drops what comes
    for (PeerId p = 0; p < peers_; ++p)
      if (result.peers[p].outcome == Outcome::finished) check_applied(p);
  }

 private:
  struct Known {
    Payload alive;  ///< so that the address stays its own
    Holdings holdings;
    std::shared_ptr<const std::vector<float>> leaves{};  ///< what the sender holds of itself then
    std::size_t applied = 0;
    std::optional<PeerId> came_from;
  };
  struct Use {
    PeerId from;
    Round round;
    ParcelId parcel;
  };

  static std::size_t first(Range r) { return r.begin / kBlock; }
  /// Empty ranges begin anywhere, and hold no block.
  static std::size_t last(Range r) {
    return r.size == 0 ? first(r) : (r.begin + r.size + kBlock - 1) / kBlock;
  }
  static std::vector<float> whole(const compress::FeedbackState& state, std::size_t n) {
    compress::FeedbackState copy = state;
    copy.materialise();
    std::vector<float> e(copy.residual.begin(), copy.residual.end());
    e.resize(n, 0.0f);
    return e;
  }
  static bool same_bits(const std::vector<float>& a, std::span<const float> b, std::size_t begin) {
    return std::memcmp(a.data(), b.data() + begin, a.size() * sizeof(float)) == 0;
  }

  /// Made when first asked for: slots start as copies of x⁰, the gradient empty.
  Holdings& slot(PeerId peer, Slot s) {
    auto& h = slots_[{peer, s}];
    if (h.empty()) h.assign((size_ + kBlock - 1) / kBlock, Holding{s == kGradient ? 0.0 : 1.0, 0});
    return h;
  }

  void run(PeerId, const op::EncodeRows&, const DataView&) {}
  void run(PeerId, const op::PushRows&, const DataView&) {}
  void run(PeerId peer, const op::Update& o, const DataView&) {
    Holdings& g = slot(peer, o.slot);
    const double expected = gradients_of(peer, o);
    for (std::size_t b = first(o.range); b < last(o.range); ++b) {
      if (std::abs(g[b].fresh - expected) > kTolerance || std::abs(g[b].model) > kTolerance)
        findings_.report(
            "weights", fmt::format("peer {} steps in round {} with {} times a gradient and {} times a model; "
                                   "expected {} and 0",
                                   peer, o.round, g[b].fresh, g[b].model, expected));
      g[b] = {};
    }
  }

  /// How many gradients a step is to take in: one; of an average of those sent, what it holds of them by
  /// then (who is alone sends none); in rounds that close early, the shares of all that came since the
  /// parcel's last step.
  double gradients_of(PeerId peer, const op::Update& o) {
    if (send_momentum_ > 0 && peers_ > 1)
      return 1 - std::pow(send_momentum_, static_cast<double>(o.round + 1));
    if (!adds_what_came_) return 1;
    double all = 1;
    for (ParcelId p = 0; p < parcels_[peer].size(); ++p)
      if (const Range r = parcels_[peer][p].range; r.begin == o.range.begin && r.size == o.range.size)
        all = std::exchange(came_[peer][p], shares_[peer]);
    return all;
  }

  void run(PeerId peer, const op::Combine& o, const DataView& after) {
    if (o.keep == 0 && o.terms.empty()) sums_[{peer, o.dst, o.range.begin}].clear();
    for (const auto& term : o.terms) check_sum(peer, term.second, o.range, after);
    Holdings& dst = slot(peer, o.dst);
    for (std::size_t b = first(o.range); b < last(o.range); ++b) {
      Holding sum = o.keep == 0 ? Holding{} : Holding{dst[b].model * o.keep, dst[b].fresh * o.keep};
      for (const auto& [factor, src] : o.terms) {
        const Holding& h = slot(peer, src)[b];
        sum.model += static_cast<double>(factor) * h.model;
        sum.fresh += static_cast<double>(factor) * h.fresh;
      }
      dst[b] = sum;
    }
  }

  void run(PeerId peer, const op::Encode& o, const DataView& after) {
    Known& known = payloads_[encoded_.get()];
    known = {.alive = encoded_, .holdings = {}, .came_from = {}};
    for (std::size_t b = first(o.range); b < last(o.range); ++b) {
      Holding h = slot(peer, o.src)[b];
      if (o.minus) h.model -= slot(peer, *o.minus)[b].model, h.fresh -= slot(peer, *o.minus)[b].fresh;
      known.holdings.push_back(h);
    }
    if (!o.apply_to) return;
    add(peer, *o.apply_to, o.range, 1, known.holdings);
    if (o.minus != o.apply_to) return;
    const auto estimate = after.slot(*o.apply_to).subspan(o.range.begin, o.range.size);
    known.leaves = std::make_shared<const std::vector<float>>(estimate.begin(), estimate.end());
  }

  void run(PeerId peer, const op::DecodeAdd& o, const DataView& after) {
    const auto at = payloads_.find(o.payload.get());
    if (at == payloads_.end()) {  // a payload that no op made: nothing is known of it
      for (std::size_t b = first(o.range); b < last(o.range); ++b) slot(peer, o.dst)[b] = {NAN, NAN};
      return;
    }
    Known& known = at->second;
    add(peer, o.dst, o.range, o.weight, known.holdings);
    const auto sum = sums_.find({peer, o.dst, o.range.begin});
    if (sum != sums_.end() && known.leaves)
      sum->second[known.came_from.value_or(peer)] = {o.weight, known.leaves};
    if (!known.came_from) return;
    apply(peer, o.range, known, o.payload);
    const bool alone = !invariants_.synchronous();  // else in a sum
    if (alone && known.leaves && !same_bits(*known.leaves, after.slot(o.dst), o.range.begin))
      findings_.report("lockstep",
                       fmt::format("peer {}'s estimate of peer {}, {} entries from {} on, differs from what "
                                   "that one holds of itself",
                                   peer, *known.came_from, o.range.size, o.range.begin));
  }

  /// A slot that began at 0 and took in what peers told of themselves holds the weighted sum of all that they
  /// have told.
  void check_sum(PeerId peer, Slot s, Range r, const DataView& view) {
    const auto at = sums_.find({peer, s, r.begin});
    if (at == sums_.end() || at->second.empty()) return;
    for (std::size_t i = 0; i < r.size; ++i) {
      double sum = 0, most = 1;
      for (const auto& [from, told] : at->second) {
        const auto estimate = static_cast<double>((*told.second)[i]);
        sum += static_cast<double>(told.first) * estimate;
        most = std::max(most, std::abs(estimate));
      }
      const auto found = static_cast<double>(view.slot(s)[r.begin + i]);
      if (std::abs(found - sum) > kSumTolerance * most)
        return findings_.report(
            "sum", fmt::format("peer {}: entry {} of the sum of estimates is {}; expected {}", peer,
                               r.begin + i, found, sum));
    }
  }

  // Observers see the simple ones that they consist of.
  void run(PeerId, const op::Step&, const DataView&) {}
  void run(PeerId, const op::StepEncode&, const DataView&) {}
  void run(PeerId, const op::StepBySum&, const DataView&) {}
  void run(PeerId, const op::StepByParts&, const DataView&) {}
  void run(PeerId, const op::Mix&, const DataView&) {}
  void run(PeerId, const op::Decode&, const DataView&) {}
  void run(PeerId, const op::PassOn&, const DataView&) {}
  void run(PeerId, const op::Merge&, const DataView&) {}

  /// A rule gives a vector of the kind that it is given: dst holds what each of them held.
  void run(PeerId peer, const op::Aggregate& o, const DataView&) {
    double sum = 0;
    for (const float w : o.weights) sum += static_cast<double>(w);
    if (o.weights.size() != o.vectors.size() || std::abs(sum - 1) > kTolerance)
      findings_.report("weights", fmt::format("peer {} gives a rule {} vectors that weigh {} together", peer,
                                              o.vectors.size(), sum));
    for (const auto& vector : o.vectors)
      for (std::size_t k = 0; k < vector.size(); ++k) {
        const auto at = payloads_.find(vector[k].get());
        if (at == payloads_.end()) continue;
        apply(peer, o.ranges[k], at->second, vector[k]);
        set(peer, o.dst, o.ranges[k], {});
        add(peer, o.dst, o.ranges[k], 1, at->second.holdings);
      }
  }

  /// Still a share of one gradient.
  void run(PeerId, const op::Clip&, const DataView&) {}
  void run(PeerId, const op::Measure&, const DataView&) {}

  void run(PeerId peer, const op::Extended& extended, const DataView&) {
    visit_command<op::Push, op::Absorb, op::Ratio, op::ModuloEncode, op::ModuloDecodeAdd>(
        extended.command, [&](const auto& o) { run(peer, o); });
  }

  // Push-sum keeps its mass beside the slots: x is made anew from it.
  void run(PeerId peer, const op::Push& o) { set(peer, kGradient, o.range, {}); }
  void run(PeerId peer, const op::Absorb& o) { unapplied_[peer].erase(o.payload.get()); }
  void run(PeerId peer, const op::Ratio& o) { set(peer, kParameters, o.range, {1, 0}); }

  // What a residue stands for is a model, and so is the rounded one that it is compared with: their
  // difference holds none.
  void run(PeerId peer, const op::ModuloEncode& o) { set(peer, o.rounded, o.range, {1, 0}); }
  void run(PeerId peer, const op::ModuloDecodeAdd& o) { unapplied_[peer].erase(o.payload.get()); }

  void set(PeerId peer, Slot dst, Range r, Holding holding) {
    for (std::size_t b = first(r); b < last(r); ++b) slot(peer, dst)[b] = holding;
  }

  void add(PeerId peer, Slot dst, Range r, double weight, const Holdings& holdings) {
    for (std::size_t b = first(r), k = 0; b < last(r) && k < holdings.size(); ++b, ++k) {
      slot(peer, dst)[b].model += weight * holdings[k].model;
      slot(peer, dst)[b].fresh += weight * holdings[k].fresh;
    }
  }

  /// Of what came from another peer: once.
  void apply(PeerId peer, Range r, Known& known, const Payload& payload) {
    unapplied_[peer].erase(payload.get());
    if (known.came_from && known.applied++ > 0 && !invariants_.reuses_messages)
      findings_.report("applied",
                       fmt::format("peer {} adds a payload of peer {} of {} entries from {} on a second time",
                                   peer, *known.came_from, r.size, r.begin));
  }

  void check_teachers(PeerId peer, const Gradient& gradient) {
    double sum = 0;
    for (const auto& [weight, s] : gradient.soft.models) {
      sum += static_cast<double>(weight);
      for (const Holding& h : slot(peer, s))
        if (std::abs(h.model - 1) > kTolerance || std::abs(h.fresh) > kTolerance)
          return findings_.report("weights", fmt::format("in round {} peer {} learns from slot {}, which "
                                                         "holds {} times a model; expected 1",
                                                         gradient.round, peer, s, h.model));
    }
    if (!gradient.soft.models.empty() && std::abs(sum - 1) > kTolerance)
      findings_.report("weights",
                       fmt::format("in round {} peer {} learns from models that weigh {} together; "
                                   "expected 1",
                                   gradient.round, peer, sum));
  }

  void check_applied(PeerId peer) {
    if (unapplied_[peer].empty()) return;
    const Use& use = unapplied_[peer].begin()->second;
    findings_.report(
        "applied", fmt::format("peer {} used the message of peer {} of round {}, parcel {}, and added it to "
                               "nothing",
                               peer, use.from, use.round, use.parcel));
  }

  Invariants invariants_;
  Findings& findings_;
  std::size_t size_ = 0;  ///< of the largest model
  std::size_t peers_;
  bool adds_what_came_;  ///< a step takes in every gradient that came, weighed by its sender's share
  double send_momentum_;
  std::vector<SharedList<Parcel>> parcels_;  ///< by peer
  std::vector<double> shares_;
  std::map<std::pair<PeerId, Slot>, Holdings> slots_;
  /// By peer, slot and where a range begins: of each peer, the weight of what it tells of itself, and that.
  std::map<std::tuple<PeerId, Slot, std::size_t>,
           std::map<PeerId, std::pair<float, std::shared_ptr<const std::vector<float>>>>>
      sums_;
  std::map<const void*, Known> payloads_;
  using Name = std::tuple<Round, ParcelId, std::uint32_t>;
  std::vector<std::map<Name, Payload>> sent_;  ///< [from · peers + to]
  std::vector<std::vector<double>> came_;      ///< [peer][parcel]: shares of gradients since the last step
  std::map<PeerId, std::map<const void*, Use>> unapplied_;
  std::set<PeerId> ended_;
  std::vector<float> before_, residual_;
  bool has_feedback_ = false;
  Payload encoded_;  ///< the last one
};

}  // namespace

std::unique_ptr<Checker> check_floats(const Invariants& invariants, const Prepared& prepared,
                                      Findings& findings) {
  return std::make_unique<Floats>(invariants, prepared, findings);
}

}  // namespace gossamer::node
