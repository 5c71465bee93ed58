// Frames, messages and rounds: what control code and network owe each other.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <unordered_map>

#include "checkers.h"
#include "frame.h"
#include "hash.h"
#include "link.h"

namespace gossamer::node {
namespace {

// --- frames

class Frames final : public Checker {
 public:
  Frames(const Prepared& prepared, Findings& findings)
      : findings_(findings),
        peers_(prepared.job.peers.size()),
        links_(peers_ * peers_),
        in_(peers_, 0),
        out_(peers_, 0),
        uncounted_(peers_, 0) {}

  void on_frame(Fate fate, PeerId from, PeerId to, std::span<const std::byte> frame) override {
    Wire& wire = links_[from * peers_ + to];
    if (fate == Fate::held) return;
    if (fate == Fate::posed) uncounted_[to] += frame.size();
    if (fate == Fate::garbled) uncounted_[to] += frame.size(), ++wire.garbled;
    if (fate == Fate::sent) out_[from] += frame.size();
    if (fate == Fate::arrived) in_[to] += frame.size();
    const std::uint64_t hash = hash_bytes(frame);
    if (fate == Fate::sent || fate == Fate::copied || fate == Fate::stray || fate == Fate::forged ||
        fate == Fate::posed) {
      ++wire.under_way[hash];
      ++wire.balance;
      return;
    }
    if (fate == Fate::garbled) {
      take(wire, hash, from, to);
      return;
    }
    --wire.balance;
    if (const auto at = wire.under_way.find(hash); at == wire.under_way.end() && wire.garbled > 0)
      --wire.garbled;
    else
      take(wire, hash, from, to);
  }

  void at_end(const SimResult& result) override {
    std::int64_t under_way = 0;
    for (const Wire& w : links_) under_way += w.balance;
    if (under_way != static_cast<std::int64_t>(result.frames_under_way))
      findings_.report("frames", fmt::format("sent and copied less lost and arrived leaves {} frames; the "
                                             "network still holds {}",
                                             under_way, result.frames_under_way));
    for (PeerId p = 0; p < peers_; ++p) {
      const WorkerResult& r = result.peers[p];
      if (r.traffic.bytes_out != out_[p])
        findings_.report("frames", fmt::format("peer {} counts {} bytes sent; the network was given {}", p,
                                               r.traffic.bytes_out, out_[p]));
      if (r.traffic.bytes_in > in_[p] || r.traffic.bytes_in + uncounted_[p] < in_[p])
        findings_.report(
            "frames",
            fmt::format(
                "peer {} counts {} bytes received; {} arrived, {} of them garbled, or in another's name", p,
                r.traffic.bytes_in, in_[p], uncounted_[p]));
    }
  }

 private:
  struct Wire {
    std::unordered_map<std::uint64_t, std::uint64_t> under_way;  ///< by hash of the frame's bytes
    std::int64_t balance = 0;
    std::uint64_t garbled = 0;  ///< under way
  };
  void take(Wire& wire, std::uint64_t hash, PeerId from, PeerId to) {
    const auto at = wire.under_way.find(hash);
    if (at == wire.under_way.end())
      return findings_.report(
          "frames", fmt::format("a frame from {} to {} arrived or was lost that was not sent", from, to));
    if (--at->second == 0) wire.under_way.erase(at);
  }

  Findings& findings_;
  std::size_t peers_;
  std::vector<Wire> links_;
  std::vector<std::uint64_t> in_, out_,
      uncounted_;  ///< bytes by peer; uncounted: that the peer need not have counted
};

// --- links

std::string text(const Message& m) {
  return fmt::format("round {} parcel {} tag {} ({} bytes)", m.round, m.parcel, m.tag, m.payload->size());
}
bool same(const Message& a, const Message& b) {
  return a.round == b.round && a.parcel == b.parcel && a.tag == b.tag && a.entries == b.entries &&
         (a.payload == b.payload);
}

class Links final : public Checker {
 public:
  Links(const Invariants& invariants, Findings& findings)
      : invariants_(invariants),
        findings_(findings),
        links_(invariants.peers * invariants.peers),
        round_(invariants.peers, 0),
        ended_(invariants.peers, false) {}

  void on_round(PeerId peer, Round round) override { round_[peer] = round; }
  void on_end(PeerId peer, const std::string&) override { ended_[peer] = true; }
  void on_send(PeerId peer, PeerId to, const Message& m) override { link(peer, to).sent.push_back(m); }

  void on_message(PeerId peer, PeerId from, const Message& m) override {
    Line& line = link(from, peer);
    if (invariants_.forged && !invariants_.best_effort) return on_any(peer, from, m, line);
    std::size_t& next = invariants_.best_effort ? line.after_newest[{m.parcel, m.tag}] : line.delivered;
    const std::size_t at = invariants_.best_effort ? found(line, m, next) : next;
    if (at >= line.sent.size() || !same(m, line.sent[at]))
      return findings_.report("links", delivered_wrong(peer, from, m, line, next));
    line.waiting.insert(m.sequence);
    next = at + 1;
  }

  void on_used(PeerId peer, PeerId from, const Message& m) override {
    Line& line = link(from, peer);
    if (line.waiting.erase(m.sequence) == 0)
      return findings_.report("links", fmt::format("peer {} used the message {} of peer {}, which {}", peer,
                                                   text(m), from, "it had used or not received"));
    if (never_applied(m) || invariants_.settles(from, peer)) return;
    ++line.used;
    if (invariants_.synchronous() && !ended_[peer] && m.round + delay_of(m) != round_[peer])
      findings_.report("links", fmt::format("peer {} in round {} used the message {} of peer {}", peer,
                                            round_[peer], text(m), from));
  }

  void at_end(const SimResult& result) override {
    const bool all = std::all_of(result.peers.begin(), result.peers.end(),
                                 [](const auto& p) { return p.outcome == Outcome::finished; });
    if (!all || !invariants_.synchronous()) return;
    for (PeerId a = 0; a < invariants_.peers; ++a)
      for (PeerId b = 0; b < invariants_.peers; ++b) {
        const Line& line = link(a, b);
        const auto wanted = static_cast<std::size_t>(std::count_if(
            line.sent.begin(), line.sent.end(), [&](const Message& m) { return !never_applied(m); }));
        if (line.used != wanted)
          findings_.report("links", fmt::format("peer {} used {} of the {} messages that peer {} sent it", b,
                                                line.used, wanted, a));
      }
  }

 private:
  struct Line {
    std::vector<Message> sent;
    std::size_t delivered = 0, used = 0;
    std::set<std::size_t> came;       ///< places in sent, where any order will do
    std::set<std::uint64_t> waiting;  ///< sequences delivered and not used yet
    /// Best effort: by parcel and tag, the place in sent after that of the newest delivered.
    std::map<std::pair<ParcelId, std::uint32_t>, std::size_t> after_newest;
  };
  /// Of rows there is none.
  Round delay_of(const Message& m) const { return m.parcel < invariants_.parcels ? invariants_.delay : 0; }
  bool never_applied(const Message& m) const { return m.round + delay_of(m) >= invariants_.rounds; }
  Line& link(PeerId from, PeerId to) { return links_[from * invariants_.peers + to]; }

  /// In any order, each once.
  void on_any(PeerId peer, PeerId from, const Message& m, Line& line) {
    const std::size_t at = found(line, m, 0);
    if (at >= line.sent.size() || !line.came.insert(at).second)
      return findings_.report("links", delivered_wrong(peer, from, m, line, 0));
    line.waiting.insert(m.sequence);
  }

  /// Where it was sent, from a place on.
  static std::size_t found(const Line& line, const Message& m, std::size_t from) {
    while (from < line.sent.size() && !same(m, line.sent[from])) ++from;
    return from;
  }

  static std::string delivered_wrong(PeerId peer, PeerId from, const Message& m, const Line& line,
                                     std::size_t next) {
    const std::string expected =
        next < line.sent.size() ? "expected " + text(line.sent[next]) : "expected nothing";
    const char* why = "it is none of those that were sent";
    for (std::size_t k = 0; k < line.sent.size(); ++k)
      if (same(m, line.sent[k])) why = k < next ? "it came before" : "others were to come before it";
    return fmt::format("peer {} was given the message {} of peer {}; {}: {}", peer, text(m), from, expected,
                       why);
  }

  Invariants invariants_;
  Findings& findings_;
  std::vector<Line> links_;
  std::vector<Round> round_;
  std::vector<bool> ended_;
};

// --- rounds

class Rounds final : public Checker {
 public:
  Rounds(const Invariants& invariants, const Prepared& prepared, Findings& findings)
      : invariants_(invariants), findings_(findings), begun_(invariants.peers, 0) {
    for (PeerId p = 0; p < invariants.peers; ++p)
      parcels_.push_back(static_cast<ParcelId>(prepared.plan->parcels_of(p).size()));
  }

  void on_round(PeerId peer, Round round) override {
    if (invariants_.backup > 0 ? round < begun_[peer] : round != begun_[peer])
      findings_.report("rounds",
                       fmt::format("peer {} begins round {}; expected {}", peer, round, begun_[peer]));
    begun_[peer] = round + 1;
    if (!invariants_.waits_for_neighbours || !invariants_.staleness || invariants_.schedule.time_varying())
      return;
    for (const auto& e : invariants_.schedule.at(0).in(peer))
      if (begun_[e.peer] + *invariants_.staleness + 1 < begun_[peer])
        findings_.report(
            "rounds",
            fmt::format("peer {} begins round {} while its neighbour {} is in round {}; the staleness is {}",
                        peer, round, e.peer, static_cast<std::int64_t>(begun_[e.peer]) - 1,
                        *invariants_.staleness));
  }

  void on_message(PeerId peer, PeerId from, const Message& m) override {
    Round& newest = newest_[{peer, from, m.parcel, m.tag}];
    newest = std::max(newest, m.round + 1);  // after a wrong frame an earlier one may come late
  }

  void on_mixed(PeerId peer, Round round, ParcelId parcel) override {
    if (invariants_.backup > 0) return check_partial(peer, round, parcel);
    if (!invariants_.waits_for_neighbours || !invariants_.staleness || round < *invariants_.staleness) return;
    for (const auto& e : invariants_.schedule.at(round).in(peer)) {
      const auto needed = last_sent(e.peer, peer, round - *invariants_.staleness);
      if (needed && !came(peer, e.peer, parcel, *needed))
        findings_.report("rounds",
                         fmt::format("peer {} mixes parcel {} in round {} without what peer {} sent in round "
                                     "{}; the staleness is {}",
                                     peer, parcel, round, e.peer, *needed, *invariants_.staleness));
    }
  }

  void at_end(const SimResult& result) override {
    if (invariants_.samples > 0) return check_samples(result);
    for (PeerId p = 0; p < invariants_.peers; ++p)
      if (const auto& r = result.peers[p]; r.outcome == Outcome::finished && r.rounds != invariants_.rounds)
        findings_.report(
            "rounds", fmt::format("peer {} finished after {} of {} rounds", p, r.rounds, invariants_.rounds));
  }

 private:
  void check_samples(const SimResult& result) {
    double all = 0;
    bool finished = true;
    for (const WorkerResult& r : result.peers) {
      all += static_cast<double>(r.rows);
      finished &= r.outcome == Outcome::finished;
    }
    if (finished && all < invariants_.samples)
      findings_.report("rounds", fmt::format("all peers have finished after {:.0f} of {:.0f} samples", all,
                                             invariants_.samples));
  }

  /// The newest round up to `latest` in which one sends to the other.
  std::optional<Round> last_sent(PeerId from, PeerId to, Round latest) const {
    for (Round back = 0; back < invariants_.schedule.period() && back <= latest; ++back)
      for (const auto& e : invariants_.schedule.at(latest - back).in(to))
        if (e.peer == from) return latest - back;
    return std::nullopt;
  }

  /// All that the neighbour sent of a round has come, of the parcel or of all parcels of its model.
  bool came(PeerId peer, PeerId from, ParcelId parcel, Round round) {
    const ParcelId begin = invariants_.whole_models ? 0 : parcel;
    const ParcelId end = invariants_.whole_models ? parcels_[from] : parcel + 1;
    for (ParcelId p = begin; p < end; ++p)
      for (std::uint32_t tag = 0; tag < invariants_.vectors; ++tag)
        if (newest_[{peer, from, p, tag}] <= round) return false;
    return true;
  }

  /// Of a round that closes early: who is left out, and how late the latest are.
  void check_partial(PeerId peer, Round round, ParcelId parcel) {
    const Round bound = invariants_.staleness.value_or(0);
    std::size_t missing = 0;
    for (const auto& e : invariants_.schedule.at(round).in(peer)) {
      if (!came(peer, e.peer, parcel, round)) ++missing;
      if (bound > 0 && round >= bound && !came(peer, e.peer, parcel, round - bound))
        findings_.report("rounds", fmt::format("peer {} closes round {} of parcel {} without what peer {} "
                                               "sent in round {}; the staleness is {}",
                                               peer, round, parcel, e.peer, round - bound, bound));
    }
    if (missing > invariants_.backup)
      findings_.report("rounds",
                       fmt::format("peer {} closes round {} of parcel {} without {} neighbours; the backup "
                                   "is {}",
                                   peer, round, parcel, missing, invariants_.backup));
  }

  Invariants invariants_;
  Findings& findings_;
  std::vector<ParcelId> parcels_;                         ///< by peer
  std::vector<Round> begun_;                              ///< rounds begun
  std::map<std::array<std::uint64_t, 4>, Round> newest_;  ///< one more than the newest round that came
};

}  // namespace

std::unique_ptr<Checker> check_frames(const Prepared& prepared, Findings& findings) {
  return std::make_unique<Frames>(prepared, findings);
}
std::unique_ptr<Checker> check_links(const Invariants& invariants, Findings& findings) {
  return std::make_unique<Links>(invariants, findings);
}
std::unique_ptr<Checker> check_rounds(const Invariants& invariants, const Prepared& prepared,
                                      Findings& findings) {
  return std::make_unique<Rounds>(invariants, prepared, findings);
}

}  // namespace gossamer::node
