// Pairwise averaging: a copy of every peer's x is kept, and whatever moves the peer's own must be what a
// step, an answer given or an answer taken makes of the copy.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "checkers.h"
#include "data_plane.h"
#include "link.h"

namespace gossamer::node {
namespace {

// As in pairwise.cpp.
constexpr Slot kShared = 2, kDifference = 3;
constexpr std::uint32_t kRequest = 0, kAnswer = 1, kDeclined = 2;

class Pairs final : public Checker {
 public:
  Pairs(const Invariants& invariants, const Prepared& prepared, Findings& findings)
      : findings_(findings),
        x_(invariants.peers, {prepared.initial.begin(), prepared.initial.end()}),
        requests_(invariants.peers),
        answers_(invariants.peers) {}

  void on_used(PeerId peer, PeerId from, const Message& m) override {
    if (ended_.contains(peer)) return;
    if (m.tag == kRequest) requests_[peer][{from, m.round, m.parcel}] = m.payload;
    if (m.tag == kAnswer) answers_[peer].emplace(m.payload.get(), m.payload);
  }

  void on_send(PeerId peer, PeerId to, const Message& m) override {
    if (m.tag == kDeclined) close(peer, to, m.round, m.parcel);
  }

  void after_encode(PeerId, const op::Encode&, const compress::FeedbackState*,
                    const Payload& payload) override {
    encoded_ = payload;
  }

  void on_op(PeerId peer, const Op& op, const DataView& after) override {
    std::visit([&](const auto& o) { run(peer, o, after); }, op);
  }
  void on_end(PeerId peer, const std::string&) override { ended_.insert(peer); }

  void at_end(const SimResult& result) override {
    if (std::any_of(result.peers.begin(), result.peers.end(),
                    [](const auto& p) { return p.outcome != Outcome::finished; }))
      return;
    for (PeerId p = 0; p < x_.size(); ++p) {
      if (!requests_[p].empty())
        findings_.report("pairs", fmt::format("peer {} has neither answered nor declined {} requests", p,
                                              requests_[p].size()));
      if (!answers_[p].empty())
        findings_.report("pairs",
                         fmt::format("peer {} has not moved by {} answers that it was given; the mean "
                                     "of all peers is another than it was",
                                     p, answers_[p].size()));
    }
  }

 private:
  using Request = std::tuple<PeerId, Round, ParcelId>;  ///< who asks

  template <class Other>
  void run(PeerId, const Other&, const DataView&) {}

  void run(PeerId peer, const op::Combine& o, const DataView& after) {
    if (o.dst != kShared) return;
    const auto u = after.slot(kGradient);
    expect(peer, o.range, after, "its step", [&](std::size_t k) { return x_[peer][k] - u[k]; });
  }

  void run(PeerId peer, const op::Encode& o, const DataView& after) {
    const std::vector<float> sent = decoded(encoded_, o.range.size);
    const float* x = x_[peer].data() + o.range.begin;
    if (o.src != kDifference) {
      for (std::size_t k = 0; k < sent.size(); ++k)
        if (sent[k] != x[k])
          return findings_.report("pairs", fmt::format("peer {} asks with {} for entry {}; it has {}", peer,
                                                       sent[k], o.range.begin + k, x[k]));
      return;
    }
    const PeerId asker = o.tag - 1;
    const Payload asked = close(peer, asker, o.round, o.parcel);
    if (!asked) return;
    const std::vector<float> theirs = decoded(asked, o.range.size);
    for (std::size_t k = 0; k < sent.size(); ++k)
      if (!near(sent[k], (theirs[k] - x[k]) / 2, std::abs(theirs[k]) + std::abs(x[k])))
        return findings_.report(
            "pairs", fmt::format("peer {} answers peer {} with {} for entry {}; half the difference is {}",
                                 peer, asker, sent[k], o.range.begin + k, (theirs[k] - x[k]) / 2));
    expect(peer, o.range, after, "an answer given",
           [&](std::size_t k) { return x_[peer][k] + sent[k - o.range.begin]; });
  }

  void run(PeerId peer, const op::DecodeAdd& o, const DataView& after) {
    if (o.dst != kShared) return;
    if (answers_[peer].erase(o.payload.get()) == 0)
      return findings_.report("pairs",
                              fmt::format("peer {} moves by an answer of {} bytes a second time, or by "
                                          "one that it was not given",
                                          peer, o.payload->size()));
    const std::vector<float> d = decoded(o.payload, o.range.size);
    expect(peer, o.range, after, "an answer taken",
           [&](std::size_t k) { return x_[peer][k] - d[k - o.range.begin]; });
  }

  /// The request is answered or declined now; returns what it asked with, null where there is none.
  Payload close(PeerId peer, PeerId asker, Round round, ParcelId parcel) {
    const auto at = requests_[peer].find({asker, round, parcel});
    if (at == requests_[peer].end()) {
      findings_.report("pairs",
                       fmt::format("peer {} answers peer {} on parcel {} in round {}, and is not asked", peer,
                                   asker, parcel, round));
      return nullptr;
    }
    const Payload asked = at->second;
    requests_[peer].erase(at);
    return asked;
  }

  template <class Value>
  void expect(PeerId peer, Range r, const DataView& after, const char* by, Value&& value) {
    const auto now = after.slot(kShared);
    for (std::size_t k = r.begin; k < r.begin + r.size; ++k) {
      const float expected = value(k);
      if (!near(now[k], expected, std::abs(x_[peer][k]) + std::abs(expected)))
        return findings_.report(
            "pairs", fmt::format("entry {} of peer {} goes from {} to {} by {}; expected {}", k, peer,
                                 x_[peer][k], now[k], by, expected));
      x_[peer][k] = now[k];
    }
  }

  static bool near(float found, float expected, float size) {
    return std::abs(found - expected) <= 1e-6f * size;
  }
  static std::vector<float> decoded(const Payload& payload, std::size_t entries) {
    std::vector<float> v(entries, 0.0f);
    compress::decode_add(*payload, 1.0f, v);
    return v;
  }

  Findings& findings_;
  std::vector<std::vector<float>> x_;                 ///< by peer: slot kShared
  std::vector<std::map<Request, Payload>> requests_;  ///< by peer: that it was asked and has not answered
  /// By peer: that it was given and has not moved by; by what tells payloads apart.
  std::vector<std::map<const void*, Payload>> answers_;
  std::set<PeerId> ended_;
  Payload encoded_;  ///< the last one
};

}  // namespace

std::unique_ptr<Checker> check_pairs(const Invariants& invariants, const Prepared& prepared,
                                     Findings& findings) {
  return std::make_unique<Pairs>(invariants, prepared, findings);
}

}  // namespace gossamer::node
