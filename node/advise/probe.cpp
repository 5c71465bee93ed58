// The tournament, from one peer's side.
//
// Before it all ask for a hello until each has heard each, or the time-out has passed; one that has answers
// on, since its own connection to who asks may not have stood before. In a round the two of a
// meeting say that they are ready until both know. The one of the lower number then leads:
//   pings     `pings` of them there and back, one at a time; the first ones wake the connection
//   there     bulks for about `seconds`; what is under way is at most what has been acknowledged so far (and
//             not less than a few, nor more than kMostUnderWay), which doubles per round trip as TCP's slow
//             start does, so that a slow link is not filled for longer than it is measured
//   back      the same from the other
//   measure   both hold the result
// The receiver reckons: bytes over time from the first third of the bytes on (the warm-up) to the last.
// After the tournament each peer in its turn pours to all others at once. Bytes that they have taken over
// time, from the first third of the time on, are what it can send, and no less than it sent to any one of
// them: several connections that lose packets on a short queue may not fill what one fills.
//
// Whoever is elsewhere answers a peer that is ready with hello, which keeps it from taking that for silence,
// and tells in which round it is: a peer that has gone past a meeting will not come back to it. At the end
// each sends what it led to all others until they have told that they got it.
#include "probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "probe_sockets.h"
#include "text.h"

namespace gossamer::node {
namespace {

constexpr double kSayEvery_s = 0.1, kWarmUpShare = 1.0 / 3;
constexpr double kToAll =
    2;  ///< times a pair's seconds: several connections take longer to share a line evenly
constexpr std::size_t kBulkBytes = std::size_t{32} << 10, kLeastUnderWay = 4,
                      kMostUnderWay = (std::size_t{64} << 20) / kBulkBytes;
constexpr std::uint64_t kAsks = 1;                       ///< number of a hello that wants one back
constexpr std::uint64_t kOver = std::uint64_t{1} << 32;  ///< round of a peer that has met all

class Prober {
 public:
  Prober(const ProbeSpec& spec, const std::function<void(const std::string&)>& on_log,
         const std::function<bool()>& stop)
      : spec_(spec),
        on_log_(on_log),
        stop_(stop),
        sockets_(spec),
        heard_(spec.names.size(), -1),
        round_of_(spec.names.size(), 0),
        ready_(spec.names.size(), -1),
        got_(spec.names.size(), 0),
        over_(spec.names.size(), false) {}

  ProbeResult run() {
    gather_all();
    for (round_ = 0; round_ < tournament_rounds(peers()) && !stop_(); ++round_)
      if (const auto other = opponent(peers(), round_, spec_.self); other && !silent(*other)) meet(*other);
    for (PeerId p = 0; peers() > 2 && p < peers() && !stop_(); ++p, ++round_)
      p == spec_.self ? pour_to_all() : hear(p);
    round_ = kOver;
    share();
    ProbeResult result;
    for (const auto& [ends, pair] : pairs_)
      if (pair.a == pair.b)
        result.uplinks[pair.a] = pair.there;
      else
        result.pairs.push_back(pair);
    for (PeerId p = 0; p < peers(); ++p)
      if (p != spec_.self && silent_.contains(p)) result.silent.push_back(p);
    return result;
  }

 private:
  std::size_t peers() const { return spec_.names.size(); }
  bool silent(PeerId p) const { return silent_.contains(p); }

  void send(PeerId to, ProbeKind kind, std::uint64_t number = 0) {
    ProbeMessage m;
    m.kind = kind;
    m.round = round_;
    m.number = number;
    sockets_.send(to, m);
  }

  /// The next message after the bookkeeping that each brings; hellos and others' readiness end there.
  std::optional<ProbeMessage> next(double seconds) {
    const auto m = sockets_.receive(seconds);
    if (!m) return m;
    heard_[m->sender] = sockets_.now();
    round_of_[m->sender] = std::max(round_of_[m->sender], m->round);
    switch (m->kind) {
      case ProbeKind::hello:
        if (m->number == kAsks) send(m->sender, ProbeKind::hello);
        break;
      case ProbeKind::ready:
        ready_[m->sender] = static_cast<double>(m->round);
        if (m->round != round_) send(m->sender, ProbeKind::hello);
        break;
      case ProbeKind::measure:
        pairs_.insert_or_assign({m->pair.a, m->pair.b}, m->pair);
        if (m->pair.a == m->sender) led_[m->sender].insert(m->pair.b);
        break;
      case ProbeKind::told:
        over_[m->sender] = led_[m->sender].size() == m->number;
        if (over_[m->sender]) send(m->sender, ProbeKind::got);
        break;
      case ProbeKind::got:
        got_[m->sender] = true;
        break;
      default:
        break;
    }
    return m;
  }

  /// Waits for a message of the partner of that kind; empty where the partner falls silent or is past this
  /// meeting. `say` is done now and every few hundredths of a second.
  template <class Say, class Enough>
  bool wait(PeerId partner, Say&& say, Enough&& enough) {
    const double begin = sockets_.now();
    double said = -1;
    while (!enough()) {
      const double now = sockets_.now();
      if (stop_()) return false;
      if (now - std::max(begin, heard_[partner]) > spec_.timeout) {
        silent_.insert(partner);
        return false;
      }
      if (round_of_[partner] > round_ && round_ != kOver) return false;
      if (now - said >= kSayEvery_s) {
        say();
        said = now;
      }
      if (const auto m = next(kSayEvery_s); m && m->sender == partner) last_ = *m;
    }
    return true;
  }
  bool wait_for(PeerId partner, ProbeKind kind) {
    last_.kind = ProbeKind::hello;
    return wait(
        partner, [] {}, [&] { return last_.kind == kind; });
  }

  void gather_all() {
    const double until = sockets_.now() + spec_.timeout;
    const auto missing = [&] {
      std::vector<std::string> names;
      for (PeerId p = 0; p < peers(); ++p)
        if (p != spec_.self && heard_[p] < 0) names.push_back(spec_.names[p]);
      return names;
    };
    for (auto names = missing(); !names.empty() && !stop_(); names = missing()) {
      if (sockets_.now() > until) {
        for (PeerId p = 0; p < peers(); ++p)
          if (p != spec_.self && heard_[p] < 0) silent_.insert(p);
        on_log_(fmt::format("not there: {}; the others are measured", join(names, ", ")));
        return;
      }
      for (PeerId p = 0; p < peers(); ++p)
        if (p != spec_.self) send(p, ProbeKind::hello, kAsks);
      const double pause = sockets_.now() + kSayEvery_s;
      while (sockets_.now() < pause) next(pause - sockets_.now());
    }
  }

  /// Both are in this round.
  bool find(PeerId other) {
    const auto here = static_cast<double>(round_);
    if (silent(other) ||
        !wait(
            other, [&] { send(other, ProbeKind::ready); }, [&] { return ready_[other] == here; }))
      return false;
    send(other, ProbeKind::ready);  // the other may have missed all before
    return true;
  }

  void meet(PeerId other) {
    if (!find(other)) return give_up(other);
    const bool measured = spec_.self < other ? lead(other) : follow(other);
    if (!measured) give_up(other);
  }

  void give_up(PeerId other) {
    if (!stop_())
      on_log_(fmt::format("{}: {}", spec_.names[other],
                          silent(other) ? "fell silent; its links are not measured"
                                        : "went on without this meeting; this link is not measured"));
  }

  bool lead(PeerId other) {
    std::vector<double> trips;
    for (std::uint64_t k = 0; k < spec_.pings + kWarmUpPings; ++k) {
      const double begin = sockets_.now();
      send(other, ProbeKind::ping, k);
      do {
        if (!wait_for(other, ProbeKind::pong)) return false;
      } while (last_.number != k);
      if (k >= kWarmUpPings) trips.push_back(sockets_.now() - begin);
    }
    PairMeasure pair{spec_.self, other, latency_of(trips), 0, 0};
    if (!pour(other) || !wait_for(other, ProbeKind::there)) return false;
    pair.there = last_.pair.there;
    const auto back = drink(other);
    if (!back) return false;
    pair.back = *back;
    pairs_.insert_or_assign({pair.a, pair.b}, pair);
    on_log_(fmt::format("{}: {} there, {} back, {:.3g} ms", spec_.names[other],
                        bandwidth_text(rounded(pair.there, 4)), bandwidth_text(rounded(pair.back, 4)),
                        1e3 * pair.latency));
    ProbeMessage m;
    m.kind = ProbeKind::measure;
    m.round = round_;
    m.pair = pair;
    sockets_.send(other, m);
    return true;
  }

  bool follow(PeerId other) {
    for (std::uint64_t k = 0; k < spec_.pings + kWarmUpPings; ++k) {
      if (!wait_for(other, ProbeKind::ping)) return false;
      send(other, ProbeKind::pong, last_.number);
    }
    const auto there = drink(other);
    if (!there) return false;
    ProbeMessage m;
    m.kind = ProbeKind::there;
    m.round = round_;
    m.pair = {other, spec_.self, 0, *there, 0};
    sockets_.send(other, m);
    return pour(other) && wait_for(other, ProbeKind::measure);
  }

  /// Bulks to one peer.
  struct Stream {
    std::size_t sent = 0, taken = 0;
  };
  /// Sends what may be under way.
  void pump(PeerId to, Stream& stream, double until) {
    ProbeMessage m;
    m.kind = ProbeKind::bulk;
    m.round = round_;
    while (sockets_.now() < until &&
           stream.sent - stream.taken < std::clamp(stream.taken, kLeastUnderWay, kMostUnderWay) &&
           sockets_.send(to, m, kBulkBytes - sizeof m))
      ++stream.sent;
  }

  /// Sends bulks, then says that it was the last.
  bool pour(PeerId other) {
    const double until = sockets_.now() + spec_.seconds;
    Stream stream;
    last_ = {};
    const auto all_taken = [&] {
      if (last_.kind == ProbeKind::taken) stream.taken = std::max<std::size_t>(stream.taken, last_.number);
      pump(other, stream, until);
      return sockets_.now() >= until && stream.taken == stream.sent && stream.sent > 0;
    };
    if (!wait(
            other, [] {}, all_taken))
      return false;
    send(other, ProbeKind::last, stream.sent);
    return true;
  }

  /// Receives bulks until the last; bit/s.
  std::optional<double> drink(PeerId other) {
    std::vector<double> times;
    last_ = {};
    const bool whole = wait(
        other, [] {},
        [&] {
          if (last_.kind == ProbeKind::bulk) {
            times.push_back(sockets_.now());
            send(other, ProbeKind::taken, times.size());
          }
          const bool ended = last_.kind == ProbeKind::last;
          last_.kind = ProbeKind::hello;
          return ended;
        });
    if (!whole || times.size() < 2) return std::nullopt;
    const auto first = static_cast<std::size_t>(kWarmUpShare * static_cast<double>(times.size() - 1));
    const double bits = 8.0 * static_cast<double>(kBulkBytes) * static_cast<double>(times.size() - 1 - first);
    return bits / std::max(times.back() - times[first], 1e-9);
  }

  /// To those who are there.
  void pour_to_all() {
    std::map<PeerId, Stream> streams;
    for (PeerId p = 0; p < peers(); ++p)
      if (p != spec_.self && find(p)) streams.emplace(p, Stream{});
    const double begin = sockets_.now(), until = begin + kToAll * spec_.seconds;
    std::optional<std::pair<double, std::size_t>> first, last;  // when how many had been taken by all
    while (!streams.empty() && !stop_()) {
      const double now = sockets_.now();
      for (auto at = streams.begin(); at != streams.end();)
        at = ended(at->first, at->second, begin, until) ? streams.erase(at) : std::next(at);
      const auto m = next(std::min(kSayEvery_s, std::max(until - now, 0.001)));
      const auto at = m ? streams.find(m->sender) : streams.end();
      if (at == streams.end() || m->kind != ProbeKind::taken || m->round != round_) continue;
      taken_by_all_ += m->number - std::min<std::uint64_t>(m->number, at->second.taken);
      at->second.taken = std::max<std::size_t>(at->second.taken, m->number);
      const bool seen = first && last->second > first->second;
      if (sockets_.now() > until && seen) continue;  // else what comes late must tell
      if (sockets_.now() > begin + kWarmUpShare * (until - begin) && !first)
        first = {sockets_.now(), taken_by_all_};
      last = {sockets_.now(), taken_by_all_};
    }
    if (!first || last->second == first->second) return;
    double uplink = 8.0 * static_cast<double>(kBulkBytes * (last->second - first->second)) /
                    std::max(last->first - first->first, 1e-9);
    for (const auto& [ends, pair] : pairs_)  // what it sent to one alone it can send to all
      if (pair.a == spec_.self || pair.b == spec_.self)
        uplink = std::max(uplink, pair.a == spec_.self ? pair.there : pair.back);
    pairs_.insert_or_assign({spec_.self, spec_.self}, PairMeasure{spec_.self, spec_.self, 0, uplink, uplink});
    on_log_(fmt::format("to all at once: {}", bandwidth_text(rounded(uplink, 4))));
  }

  /// Sends what may be under way; true where the stream is at its end, or the peer silent.
  bool ended(PeerId to, Stream& stream, double begin, double until) {
    if (sockets_.now() - std::max(begin, heard_[to]) > spec_.timeout) {
      silent_.insert(to);
      return true;
    }
    pump(to, stream, until);
    if (sockets_.now() < until || stream.taken < stream.sent) return false;
    send(to, ProbeKind::last, stream.sent);
    return true;
  }

  /// Takes what p pours.
  void hear(PeerId p) {
    if (find(p)) drink(p);
  }

  /// Until all that are there have what this peer led and this peer has what they led.
  void share() {
    std::vector<PairMeasure> own;
    for (const auto& [ends, pair] : pairs_)
      if (pair.a == spec_.self) own.push_back(pair);
    for (PeerId p = 0; p < peers(); ++p)
      if (p != spec_.self && !silent(p))
        wait(
            p, [&] { tell(p, own); }, [&] { return got_[p] && over_[p]; });
  }

  void tell(PeerId to, const std::vector<PairMeasure>& own) {
    if (got_[to]) return;
    ProbeMessage m;
    m.kind = ProbeKind::measure;
    m.round = round_;
    for (const PairMeasure& pair : own) {
      m.pair = pair;
      sockets_.send(to, m);
    }
    send(to, ProbeKind::told, own.size());
  }

  static constexpr std::size_t kWarmUpPings = 3;
  const ProbeSpec& spec_;
  const std::function<void(const std::string&)>& on_log_;
  const std::function<bool()>& stop_;
  ProbeSockets sockets_;
  std::uint64_t round_ = 0;
  std::vector<double> heard_;               ///< of each peer: when last; −1: never
  std::vector<std::uint64_t> round_of_;     ///< where each is, as far as known
  std::vector<double> ready_;               ///< for which round each was ready last
  std::vector<bool> got_;                   ///< which have all that this peer led
  std::vector<bool> over_;                  ///< of which all that they led has come
  std::map<PeerId, std::set<PeerId>> led_;  ///< by each peer: the other ends of what has come
  std::set<PeerId> silent_;
  /// As they travel between peers; of a peer and itself: what it sends to all others at once.
  std::map<std::pair<PeerId, PeerId>, PairMeasure> pairs_;
  std::size_t taken_by_all_ = 0;  ///< bulks that this peer poured to all
  ProbeMessage last_;             ///< of the partner
};

}  // namespace

double latency_of(std::vector<double> round_trips) {
  const auto quartile = round_trips.begin() + static_cast<std::ptrdiff_t>((round_trips.size() - 1) / 4);
  std::nth_element(round_trips.begin(), quartile, round_trips.end());
  return *quartile / 2;
}

std::size_t tournament_rounds(std::size_t peers) { return peers < 2 ? 0 : peers - 1 + peers % 2; }

std::optional<PeerId> opponent(std::size_t peers, std::size_t round, PeerId self) {
  const std::size_t rounds = tournament_rounds(peers);  // peers 0 … rounds − 1 stand in a circle
  const std::size_t last = rounds;                      // who stands outside it, or whose opponent pauses
  std::size_t other = last;
  if (self == last)
    other = round;
  else if (self != round)
    other = (2 * round + rounds - self) % rounds;  // as far from `round` on the other side
  if (other >= peers) return std::nullopt;
  return static_cast<PeerId>(other);
}

ProbeResult probe(const ProbeSpec& spec, const std::function<void(const std::string&)>& on_log,
                  const std::function<bool()>& stop) {
  return Prober(spec, on_log, stop).run();
}

}  // namespace gossamer::node
