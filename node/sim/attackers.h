#pragma once
// attack_of tells which simulated peers attack the others, and how (sim.attackers).
#include "attack.h"
#include "gossamer/node/job.h"

namespace gossamer::node {

/// The attack of one peer; kind none for an honest one.
AttackSpec attack_of(const Job& job, PeerId peer);
inline bool honest(const Job& job, PeerId peer) {
  return attack_of(job, peer).kind == AttackSpec::Kind::none;
}

}  // namespace gossamer::node
