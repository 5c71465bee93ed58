// What a peer's replica is made of.
#include "method.h"
#include "plan.h"
#include "setup.h"
#include "soundness.h"

namespace gossamer::node {

optim::OptimizerSpec optimizer_of(const Prepared& prepared) {
  optim::OptimizerSpec spec = prepared.job.optimizer;
  const Method& method = find_method(prepared.job.exchange.method);
  spec.steps_between = method.needs.keeps_apart ? 1 : local_steps(prepared.job.exchange);
  if (codes_velocity(prepared.job, prepared.plan->codec))
    spec.second_moment_steps = prepared.job.exchange.dense_rounds;
  return spec;
}

ReplicaBaseParts replica_base_parts(const Prepared& prepared, PeerId self,
                                    std::unique_ptr<optim::Objective> objective, const Buffers& buffers) {
  const Job& job = prepared.job;
  ReplicaBaseParts parts;
  parts.objective = std::move(objective);
  parts.codecs = prepared.codecs_of(self);
  parts.aggregate = job.exchange.aggregate;
  parts.parcels = prepared.plan->parcels_of(self);
  parts.rate = [spec = job.optimizer](Round t) {
    return optim::learning_rate(spec, static_cast<double>(t)) / spec.learning_rate;
  };
  for (const PeerId p : buffers.models) parts.peer_sizes.push_back(prepared.initial_of(p).size());
  parts.seed = job.run.seed;
  parts.peer = self;
  return parts;
}

Replica make_replica(const Prepared& prepared, PeerId self, std::unique_ptr<optim::Objective> objective,
                     std::size_t threads, AttackSpec attack, std::optional<Buffers> buffers,
                     SpareFloats spare) {
  if (!buffers) buffers = buffers_of(plan_of(prepared, self));
  const std::size_t floats = objective->buffer_size();
  ReplicaParts parts{replica_base_parts(prepared, self, std::move(objective), *buffers)};
  parts.optimizer = prepared.learner.optimizer ? prepared.learner.optimizer(self)
                                               : optim::make_optimizer(optimizer_of(prepared), floats);
  if (prepared.learner.around_optimizer)
    parts.optimizer = prepared.learner.around_optimizer(std::move(parts.optimizer));
  parts.attack = attack;
  parts.rows = prepared.rows;
  parts.peers = prepared.job.peers.size();
  parts.threads = threads;
  parts.spare = std::move(spare);
  parts.planted = prepared.planted;
  return Replica(std::move(parts), prepared.initial_of(self), *buffers);
}

}  // namespace gossamer::node
