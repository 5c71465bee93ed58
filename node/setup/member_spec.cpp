// What a member of a run is told of it.
#include <algorithm>
#include <cmath>
#include <utility>

#include "hash.h"
#include "method.h"
#include "setup.h"
#include "shapes.h"
#include "view_run.h"

namespace gossamer::node {
namespace {

ApartSpec apart_spec(const Job& job) {
  ApartSpec spec{.policy = job.run.on_partition};
  const bool waits = spec.policy == "majority" ||
                     (spec.policy == "continue" && begins_alike(find_method(job.exchange.method)));
  if (waits) spec.wait_s = job.run.partition_timeout;
  spec.ends = spec.policy != "continue";
  return spec;
}

}  // namespace

std::uint64_t rounds_under_way(const Job& job) {
  constexpr std::uint64_t kSynchronous = 8;
  return kSynchronous + 2 * job.exchange.staleness.value_or(0);
}

/// As long as the job says, whatever others confirm; where it says nothing they decide, from 1.1 s on.
void be_patient(SwimSpec& swim, const Job& job) {
  const double silence = job.run.silence_timeout, usual = RunSection{}.silence_timeout;
  if (silence == usual && job.sim.night == 0) return;
  if (silence < usual)
    for (double* const time : {&swim.probe_timeout_s, &swim.probe_every_s, &swim.least_suspicion_s})
      *time *= silence / usual;
  const double probes = swim.probe_every_s + 2 * swim.probe_timeout_s;
  swim.least_suspicion_s = swim.most_suspicion_s = std::max(swim.least_suspicion_s, silence - probes);
}

MemberSpec member_spec(const Job& job, PeerId self, std::uint64_t start, const WorkerSpec& first) {
  MemberSpec spec;
  for (const PeerEntry& peer : job.peers) spec.roster.push_back({peer.name, peer.address});
  spec.named = spec.roster.size();
  spec.self = self;
  spec.start = start;
  spec.job = first.job_id;
  spec.min_peers = job.least_peers();
  spec.alike = begins_alike(find_method(job.exchange.method));
  spec.steps_alone = steps_alone(job.exchange);
  spec.holds_mass = holds_mass(find_method(job.exchange.method));
  spec.keeps_gradient = buffers_of(first.plan).keeps_gradient;
  spec.own_models = job.heterogeneous();
  spec.apart = apart_spec(job);
  spec.merges = merges_sides(find_method(job.exchange.method)) && !spec.own_models;
  spec.under_way = rounds_under_way(job);
  spec.batch = job.batch;
  spec.swim.seed = hash_text(job.peers[self].name);
  be_patient(spec.swim, job);
  spec.join_timeout_s = job.run.join_timeout;
  const HelloBody& hello = first.membership.hello;
  spec.terms.job_text = hello.job_text;
  spec.terms.layers = hello.layers;
  spec.terms.access = access_toml(job);
  spec.only_named = why_only_named(job);
  spec.terms.parameters_hash = hello.parameters_hash;
  spec.terms.data_hash = hello.data_hash;
  return spec;
}

MemberSpec joining_spec(const Prepared& base, const Contact& self, std::uint64_t start, std::uint64_t job_id,
                        const Contact& join) {
  MemberSpec spec = member_spec(base.job, 0, start, worker_spec(base, 0, 1, 0));
  const auto& names = base.names;
  const auto at = std::find(names.begin(), names.end(), self.name);
  spec.self = static_cast<PeerId>(at - names.begin());
  if (at == names.end()) spec.roster.push_back(self);
  spec.job = job_id;
  spec.join = join;
  spec.swim.seed = hash_text(self.name);
  return spec;
}

double EpochCount::enter(const Prepared& view, double share, std::optional<double> known) {
  const double all = static_cast<double>(view.rounds) / static_cast<double>(view.rounds_per_epoch);
  epochs_ = known ? *known : all_ ? epochs_ + std::max(0.0, share - share_) * *all_ : share * all;
  share_ = share;
  all_ = all;
  return epochs_;
}

WorkerSpec view_worker_spec(const Prepared& prepared, PeerId seat, std::uint64_t epoch, std::uint64_t session,
                            double share) {
  WorkerSpec spec = worker_spec(prepared, seat, epoch, session);
  spec.of_view = true;
  spec.share_before = share;
  spec.rounds_before = std::min<Round>(
      spec.rounds - 1, static_cast<Round>(std::llround(share * static_cast<double>(spec.rounds))));
  spec.rounds -= spec.rounds_before;
  return spec;
}

}  // namespace gossamer::node
