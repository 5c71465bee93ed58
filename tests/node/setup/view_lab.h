#pragma once
// What holds of the run of every view.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <string>
#include <vector>

#include "gossamer/topology/report.h"
#include "gossamer_test/catch.h"
#include "sim_job.h"
#include "view_run.h"

namespace gossamer::node::test {

using Members = std::vector<std::string>;

inline Members named(const std::vector<PeerId>& peers) {
  Members names;
  for (const PeerId p : peers) names.push_back(fmt::format("peer{}", p));
  return names;
}

inline bool every(const topology::Schedule& s, bool (topology::MixingMatrix::*property)() const) {
  for (std::size_t t = 0; t < s.period(); ++t)
    if (!(s.at(t).*property)()) return false;
  return true;
}

inline bool rows_sum_to_one(const topology::Schedule& s) {
  for (std::size_t t = 0; t < s.period(); ++t)
    for (PeerId i = 0; i < s.peers(); ++i) {
      double sum = s.at(t).self_weight(i);
      for (const auto& e : s.at(t).in(i)) sum += e.weight;
      if (std::abs(sum - 1) > 1e-5 || s.at(t).self_weight(i) < -1e-6f) return false;
    }
  return true;
}

inline std::size_t batches(const Job& job) {
  std::size_t sum = 0;
  for (const auto& p : job.peers) sum += p.batch;
  return sum;
}

/// What holds of every view.
inline void check_view(const Prepared& base, const Members& members, const ViewRun& view) {
  const Prepared& p = *view.prepared;
  INFO(fmt::format("{}: {}", fmt::join(members, " "), view.warning));
  const topology::Schedule& w = p.plan->schedule;
  CHECK(p.job.peer_names() == members);
  CHECK(w.peers() == members.size());
  CHECK(p.plan->share.size() == members.size());
  CHECK(rows_sum_to_one(w));
  if (every(base.plan->schedule, &topology::MixingMatrix::doubly_stochastic))
    CHECK(every(w, &topology::MixingMatrix::doubly_stochastic));
  if (every(base.plan->schedule, &topology::MixingMatrix::symmetric))
    CHECK(every(w, &topology::MixingMatrix::symmetric));
  const bool connected = topology::analyse(w).connected;
  CHECK((connected || gossamer::test::says(view.warning, "falls apart")));
  CHECK(connected == p.bridges.empty());
  if (!base.job.learns_by_key())
    CHECK(p.rounds_per_epoch == std::max<std::size_t>(1, base.data.train->rows() / batches(p.job)));
  CHECK(p.job.optimizer.total_steps == p.rounds);
  CHECK(p.total_samples == (p.job.exchange.staleness ? 0.0 : static_cast<double>(p.rounds * batches(p.job))));
  CHECK(p.initial.data() == base.initial.data());
  CHECK(p.hello.job_hash != base.hello.job_hash);
  CHECK(gossamer::test::says(p.hello.job_text, fmt::format("[view]\nmembers = [\"{}\"", members.front())));
}

inline void check_runs(const ViewRun& view, std::size_t rounds) {
  Prepared p = *view.prepared;
  p.rounds = rounds;
  if (p.total_samples > 0) p.total_samples = static_cast<double>(rounds * batches(p.job));
  Run run(p);
  run.go();
  for (const auto& peer : run.result.peers) {
    INFO(peer.message);
    CHECK(peer.outcome == Outcome::finished);
  }
  CHECK(largest_difference(run.simulation.parameters(0), p.initial) > 1e-4);
}

}  // namespace gossamer::node::test
