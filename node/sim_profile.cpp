#include "sim_profile.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "frame.h"

namespace gossamer::node {
namespace {

using topology::PeerId;

constexpr std::array<LinkClass, 3> kClasses{{
    {"datacentre", 0.2, {1e9, 1e-4}, {1e10, 1e-3}},
    {"broadband", 0.5, {2e7, 5e-3}, {5e8, 4e-2}},
    {"mobile", 0.3, {2e6, 3e-2}, {5e7, 1.5e-1}},
}};

}  // namespace

std::span<const LinkClass> link_classes() { return kClasses; }

std::vector<std::string> speed_names() { return {"equal", "uniform", "lognormal"}; }

std::vector<std::string> link_names() {
  std::vector<std::string> names{"equal"};
  for (const LinkClass& c : kClasses) names.emplace_back(c.name);
  names.emplace_back("mixed");
  return names;
}

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
    for (std::size_t c = 0; c + 1 < kClasses.size(); ++c)
      if ((left -= kClasses[c].share) < 0) return c;
    return kClasses.size() - 1;
  }
  const auto at = std::find_if(kClasses.begin(), kClasses.end(),
                               [&](const LinkClass& c) { return c.name == job_.sim.links; });
  return static_cast<std::size_t>(at - kClasses.begin());
}

/// A link is of the slower of its ends' classes.
LinkQuality SimProfile::link(PeerId a, PeerId b) const {
  LinkQuality q{job_.sim.bandwidth, job_.sim.latency};
  if (job_.sim.links != "equal") {
    const LinkClass& c = kClasses[std::max(access(a), access(b))];
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
