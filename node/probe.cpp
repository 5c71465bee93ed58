// The tournament, from one peer's side.
//
// Before it all say hello until each has heard each, or the time-out has passed. In a round the two of a
// meeting say that they are ready until both know. The one of the lower number then leads:
//   pings     `pings` of them there and back, one at a time; the first ones wake the connection
//   there     bulks for about `seconds`; what is under way is at most what has been acknowledged so far (and
//             not less than a few, nor more than kMostUnderWay), which doubles per round trip as TCP's slow
//             start does, so that a slow link is not filled for longer than it is measured
//   back      the same from the other
//   measure   both hold the result
// The receiver reckons: bytes over time from the first third of the bytes on (the warm-up) to the last.
// Whoever is elsewhere answers a peer that is ready with hello, which keeps it from taking that for silence,
// and tells in which round it is: a peer that has gone past a meeting will not come back to it.
// At the end each sends what it led to all others until they have told that they got it.
#include "probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "probe_sockets.h"
#include "text.h"

namespace gossamer::node {
namespace {

constexpr double kSayEvery_s = 0.1, kWarmUpShare = 1.0 / 3;
constexpr std::size_t kBulkBytes = std::size_t{32} << 10, kLeastUnderWay = 4,
                      kMostUnderWay = (std::size_t{64} << 20) / kBulkBytes;
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
    round_ = kOver;
    share();
    ProbeResult result;
    for (const auto& [ends, pair] : pairs_) result.pairs.push_back(pair);
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
        if (p != spec_.self) send(p, ProbeKind::hello);
      const double pause = sockets_.now() + kSayEvery_s;
      while (sockets_.now() < pause) next(pause - sockets_.now());
    }
    for (PeerId p = 0; p < peers(); ++p)  // who heard this one late may still wait for a hello
      if (p != spec_.self) send(p, ProbeKind::hello);
  }

  void meet(PeerId other) {
    const auto here = static_cast<double>(round_);
    if (!wait(
            other, [&] { send(other, ProbeKind::ready); }, [&] { return ready_[other] == here; }))
      return give_up(other);
    send(other, ProbeKind::ready);  // the other may have missed all before
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
                        bandwidth_text(std::round(pair.there)), bandwidth_text(std::round(pair.back)),
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

  /// Sends bulks, then says that it was the last.
  bool pour(PeerId other) {
    const double until = sockets_.now() + spec_.seconds;
    std::size_t sent = 0, taken = 0;
    last_ = {};
    const auto pump = [&] {
      if (last_.kind == ProbeKind::taken) taken = std::max<std::size_t>(taken, last_.number);
      ProbeMessage m;
      m.kind = ProbeKind::bulk;
      m.round = round_;
      while (sockets_.now() < until && sent - taken < std::clamp(taken, kLeastUnderWay, kMostUnderWay) &&
             sockets_.send(other, m, kBulkBytes - sizeof m))
        ++sent;
      return sockets_.now() >= until && taken == sent && sent > 0;
    };
    if (!wait(
            other, [] {}, pump))
      return false;
    send(other, ProbeKind::last, sent);
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
  std::map<std::pair<PeerId, PeerId>, PairMeasure> pairs_;
  ProbeMessage last_;  ///< of the partner
};

/// To that many significant digits: what is measured says no more.
double rounded(double value, int digits) {
  if (!(value > 0)) return 0;
  const double grain = std::pow(10, std::floor(std::log10(value)) - digits + 1);
  return std::round(value / grain) * grain;
}

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

std::string links_toml(const ProbeResult& result, const std::vector<std::string>& names) {
  std::string text = fmt::format(
      "# gossamer probe: {} of {} links between {} peers. Use it as links = \"…\" in a topology file.\n",
      result.pairs.size(), names.size() * (names.size() - 1) / 2, names.size());
  for (const PeerId p : result.silent) text += fmt::format("# {} did not answer.\n", names[p]);
  for (const PairMeasure& pair : result.pairs)
    text += fmt::format("\n[[link]]\nbetween = [{}, {}]\nbandwidth = {}  # {} there, {} back\nlatency = {}\n",
                        in_quotes(names[pair.a]), in_quotes(names[pair.b]),
                        in_quotes(bandwidth_text(rounded(pair.bandwidth(), 4))),
                        bandwidth_text(rounded(pair.there, 4)), bandwidth_text(rounded(pair.back, 4)),
                        number_text(rounded(pair.latency, 4)));
  return text;
}

std::string links_csv(const ProbeResult& result, const std::vector<std::string>& names) {
  const auto matrix = [&](const std::string& what, auto value) {
    std::string text = what + "," + join(names, ",") + "\n";
    for (PeerId i = 0; i < names.size(); ++i) {
      text += names[i];
      for (PeerId j = 0; j < names.size(); ++j) {
        const auto pair = std::find_if(result.pairs.begin(), result.pairs.end(), [&](const PairMeasure& p) {
          return p.a == std::min(i, j) && p.b == std::max(i, j);
        });
        text += "," + (pair == result.pairs.end() ? "" : number_text(rounded(value(*pair), 4)));
      }
      text += "\n";
    }
    return text;
  };
  return matrix("bandwidth", [](const PairMeasure& p) { return p.bandwidth(); }) +
         matrix("latency", [](const PairMeasure& p) { return p.latency; });
}

std::string to_json(const ProbeResult& result, const std::vector<std::string>& names) {
  nlohmann::ordered_json out{{"peers", names},
                             {"links", nlohmann::ordered_json::array()},
                             {"silent", nlohmann::ordered_json::array()}};
  for (const PairMeasure& p : result.pairs)
    out["links"].push_back({{"between", {names[p.a], names[p.b]}},
                            {"bandwidth", p.bandwidth()},
                            {"bandwidth_there", p.there},
                            {"bandwidth_back", p.back},
                            {"latency", p.latency}});
  for (const PeerId p : result.silent) out["silent"].push_back(names[p]);
  return out.dump();
}

ProbeResult probe_result(const std::string& json, const std::vector<std::string>& names) {
  const auto id = [&](const nlohmann::json& name) {
    return static_cast<PeerId>(std::find(names.begin(), names.end(), name.get<std::string>()) -
                               names.begin());
  };
  const auto in = nlohmann::json::parse(json);
  ProbeResult result;
  for (const auto& link : in.at("links")) {
    const auto number = [&](const char* key) { return link.at(key).get<double>(); };
    const auto& ends = link.at("between");
    result.pairs.push_back({id(ends.at(0)), id(ends.at(1)), number("latency"), number("bandwidth_there"),
                            number("bandwidth_back")});
  }
  for (const auto& name : in.at("silent")) result.silent.push_back(id(name));
  return result;
}

}  // namespace gossamer::node
