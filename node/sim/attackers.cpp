#include "attackers.h"

#include <algorithm>
#include <boost/math/special_functions/erf.hpp>
#include <cmath>

namespace gossamer::node {
namespace {

/// The largest z with which m attackers of n are nearer to the mean than enough honest vectors to make a
/// majority with them (Baruch et al. 2019, algorithm 3): z = Φ⁻¹((n − m − s)/(n − m)), s = ⌊n/2 + 1⌋ − m; at
/// least 0.
double most_hidden(std::size_t n, std::size_t m) {
  const auto honest = static_cast<double>(n - m);
  const double needed = static_cast<double>(n / 2 + 1) - static_cast<double>(m);
  const double share = std::clamp((honest - needed) / honest, 0.5, 0.999);
  return std::sqrt(2.0) * boost::math::erf_inv(2 * share - 1);
}

}  // namespace

AttackSpec attack_of(const Job& job, PeerId peer) {
  for (const std::string& text : job.sim.attackers) {
    Attacker attacker = parse_attacker(text);
    if (attacker.peer != job.peers[peer].name) continue;
    if (attacker.attack.size == AttackSpec::kPapersSize)
      attacker.attack.size = most_hidden(job.peers.size(), job.sim.attackers.size());
    return attacker.attack;
  }
  return {};
}

}  // namespace gossamer::node
