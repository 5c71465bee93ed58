// RelaySum (Vogels et al. 2021, "RelaySum for decentralized deep learning on heterogeneous data", algorithm
// 1): on a tree every peer's x reaches every other one once, later by a round for each hop, so that all mix
// with the same weights however heterogeneous their data are.
//
//   x½ = x − u;   m_{i→j} = x½ + Σ_{k ∈ N(i)∖j} m_before_{k→i};   c_{i→j} = 1 + Σ_{k ∈ N(i)∖j} c_before_{k→i}
//   x ← (x½·(P − Σ_j c_{j→i}) + Σ_j m_{j→i}) / P
//
// c counts whose x is in a sum; it follows from the tree and the round, so that it need not travel. Slots: 2
// + n holds the last sum from neighbour n, the last slot what is being sent. Dense, synchronous; the graph is
// a static tree.
#include "gossip.h"
#include "method.h"
#include "reasons.h"

namespace gossamer::node {
namespace {

class RelaySum final : public Gossip {
 public:
  explicit RelaySum(ExchangeHost& host)
      : Gossip(host),
        tree_(host.plan().schedule.at(0)),
        neighbours_(tree_.in(host.plan().self)),
        before_(counts_of_none()),
        now_(before_) {}

  void begin_round(Gradient& gradient) override {
    Gossip::begin_round(gradient);
    before_ = now_;
    for (PeerId i = 0; i < tree_.peers(); ++i)
      for (std::size_t to = 0; to < tree_.in(i).size(); ++to) now_[i][to] = 1 + heard(i, to);
  }

  std::vector<Op> on_ready(Round round, ParcelId parcel) override {
    const Range r = range(parcel);
    std::vector<Op> ops{host_.step(r, round)};
    for (std::size_t to = 0; to < neighbours_.size(); ++to) {
      op::Combine sum{r, outgoing(), 0, {{1.0f, kParameters}}};
      for (std::size_t from = 0; from < neighbours_.size(); ++from)
        if (from != to && round > 0) sum.terms.emplace_back(1.0f, incoming(from));
      ops.push_back(std::move(sum));
      ops.push_back(op::encode_exactly(r, outgoing(), round, parcel, static_cast<std::uint32_t>(to)));
    }
    return ops;
  }

  void on_encoded(const Encoded& e) override {
    host_.send(neighbours_[e.tag].peer, {e.round, e.parcel, 0, e.entries, e.payload});
  }

  void archive(Archive archive) override {
    Gossip::archive(archive);
    for (PeerId i = 0; i < tree_.peers(); ++i)
      archive.numbers("heard" + std::to_string(i), std::span<std::uint64_t>(now_[i]));
  }

 private:
  using Counts = std::vector<std::vector<std::uint64_t>>;  ///< [peer][its neighbour]: c_{peer→neighbour}

  Slot incoming(std::size_t n) const { return static_cast<Slot>(2 + n); }
  Slot outgoing() const { return static_cast<Slot>(2 + neighbours_.size()); }

  Counts counts_of_none() const {
    Counts counts(tree_.peers());
    for (PeerId i = 0; i < tree_.peers(); ++i) counts[i].assign(tree_.in(i).size(), 0);
    return counts;
  }

  /// Σ_k c_before_{k→i} over the neighbours k of i but number `left_out`.
  std::uint64_t heard(PeerId i, std::size_t left_out) const {
    std::uint64_t sum = 0;
    for (std::size_t k = 0; k < tree_.in(i).size(); ++k)
      if (k != left_out) sum += before_[tree_.in(i)[k].peer][number(tree_.in(i)[k].peer, i)];
    return sum;
  }
  /// Which of `of`'s neighbours `peer` is.
  std::size_t number(PeerId of, PeerId peer) const {
    const auto row = tree_.in(of);
    std::size_t n = 0;
    while (row[n].peer != peer) ++n;
    return n;
  }

  void mix(Round, ParcelId parcel) override {
    const PeerId self = host_.plan().self;
    const Range r = range(parcel);
    const auto all = static_cast<float>(tree_.peers());
    std::uint64_t heard_of = 0;
    op::Combine combine{r, kParameters, 0, {}};
    for (std::size_t n = 0; n < neighbours_.size(); ++n) {
      const PeerId from = neighbours_[n].peer;
      heard_of += now_[from][number(from, self)];
      host_.submit(op::Combine{r, incoming(n), 0, {}});
      host_.submit(op::DecodeAdd{r, incoming(n), 1.0f, take(from, inbox(from, parcel)).payload});
      combine.terms.emplace_back(1.0f / all, incoming(n));
    }
    combine.keep = (all - static_cast<float>(heard_of)) / all;
    host_.submit(std::move(combine));
  }

  const topology::MixingMatrix& tree_;
  std::span<const topology::Edge> neighbours_;
  Counts before_, now_;  ///< of the last round's messages, and this round's
};

std::unique_ptr<Exchange> make_relay_sum(ExchangeHost& host) { return std::make_unique<RelaySum>(host); }

}  // namespace

constinit const Method kRelaySumMethod{
    .row =
        {"relay_sum",
         "sums of parameters relayed along a tree, every peer's once, all alike whatever graph.weights says "
         "(RelaySum), for heterogeneous data"},
    .needs = {.graph = Needs::Graph::tree,
              .weights = Needs::Weights::symmetric,
              .code = Needs::Code::exact,
              .may_vary = false,
              .may_be_stale = false,
              .why_graph =
                  "sums relayed around a cycle would count a peer twice; use graph.kind 'tree' or 'star'",
              .why_weights = "edges of a tree go both ways; use graph.directed = false",
              .why_static =
                  "relays what it heard along the same edges a round later; use graph.kind 'tree' or 'star'",
              .why_code = kWholeState,
              .why_synchronous = kLockstep},
    .make = make_relay_sum,
    .buffers =
        [](const Plan& plan) { return Buffers{.slots = plan.schedule.at(0).in(plan.self).size() + 1}; },
    .pattern = Pattern{.mixing = Pattern::Mixing::relay, .corrected = true},
    .invariants = {.waits_for = MethodInvariants::WaitsFor::parcels}};

}  // namespace gossamer::node
