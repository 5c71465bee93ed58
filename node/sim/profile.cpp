#include "profile.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "hash.h"

namespace gossamer::node {
SimProfile::SimProfile(const Job& job, std::uint64_t seed) : job_(job), seed_(seed) {}

double SimProfile::uniform(Use use, std::uint64_t a, std::uint64_t b) const {
  const std::array<std::uint64_t, 3> counter{static_cast<std::uint64_t>(use), a, b};
  return static_cast<double>(hash_bytes(std::as_bytes(std::span(counter)), seed_) >> 11) * 0x1p-53;
}

double SimProfile::between(double least, double most, Use use, PeerId a, PeerId b) const {
  return least * std::pow(most / least, uniform(use, std::min(a, b), std::max(a, b)));
}

/// lognormal: the middle machine takes √spread, and two standard deviations reach 1 and the spread, where the
/// few beyond are cut off.
double SimProfile::slowness(PeerId peer) const {
  const SimSection& sim = job_.sim;
  double factor = 1;
  if (sim.speeds == "uniform") factor += (sim.speed_spread - 1) * uniform(Use::speed, peer);
  if (sim.speeds == "lognormal") {
    const double normal = std::sqrt(-2 * std::log(1 - uniform(Use::speed, peer))) *  // Box and Muller
                          std::cos(2 * std::numbers::pi * uniform(Use::speed, peer, 1));
    factor = std::pow(sim.speed_spread, std::clamp(0.5 + normal / 4, 0.0, 1.0));
  }
  for (const auto& [name, slow] : sim.slow)
    if (name == job_.peers[peer].name) factor *= slow;
  return factor;
}

std::size_t SimProfile::access(PeerId peer) const {
  if (job_.sim.links == "mixed") {
    double left = uniform(Use::access, peer);
    for (std::size_t c = 0; c + 1 < link_classes().size(); ++c)
      if ((left -= link_classes()[c].share) < 0) return c;
    return link_classes().size() - 1;
  }
  const auto at = std::find_if(link_classes().begin(), link_classes().end(),
                               [&](const LinkClass& c) { return c.name == job_.sim.links; });
  return static_cast<std::size_t>(at - link_classes().begin());
}

/// A link is of the slower of its ends' classes.
LinkQuality SimProfile::link(PeerId a, PeerId b) const {
  LinkQuality q{job_.sim.bandwidth, job_.sim.latency};
  if (job_.sim.links != "equal") {
    const LinkClass& c = link_classes()[std::max(access(a), access(b))];
    q = {between(c.least.bandwidth, c.most.bandwidth, Use::bandwidth, a, b),
         between(c.least.latency, c.most.latency, Use::latency, a, b)};
  }
  for (const LinkEntry& l : job_.links)
    if (std::minmax(l.a, l.b) == std::minmax(a, b)) {
      q.bandwidth = l.bandwidth.value_or(q.bandwidth);
      q.latency = l.latency.value_or(q.latency);
    }
  return q;
}

double SimProfile::clock_rate(PeerId peer) const {
  return 1 + job_.sim.clock_skew * (2 * uniform(Use::clock_rate, peer) - 1);
}
double SimProfile::clock_begin(PeerId peer) const { return 1e4 * uniform(Use::clock_begin, peer); }

double SimProfile::clock(PeerId peer, double time) const {
  return job_.sim.clock_skew > 0 ? clock_begin(peer) + clock_rate(peer) * time : time;
}
double SimProfile::when(PeerId peer, double clock) const {
  constexpr double kRounding_s = 1e-9;
  return job_.sim.clock_skew > 0 ? (clock - clock_begin(peer)) / clock_rate(peer) + kRounding_s : clock;
}

double SimProfile::asleep_until(PeerId peer, double time) const {
  const double day = job_.sim.day, night = day * job_.sim.night;
  if (night <= 0) return time;
  // Counted from the day's beginning, so that all that waits for one waking wakes at the same time to the
  // bit.
  const double phase = day * uniform(Use::phase, peer), days = std::floor((time + phase) / day);
  const double waking = days * day + night - phase;
  return std::max(waking, time);
}

}  // namespace gossamer::node
