#include "view_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "attack.h"
#include "hash.h"
#include "length.h"
#include "method.h"
#include "plan.h"
#include "row_soundness.h"
#include "text.h"
#include "view_graph.h"
#include "view_table.h"

namespace gossamer::node {
namespace {

/// The job with those of the members that it does not name, after those that it does.
Job extended(const Job& base, const std::vector<std::string>& members,
             const std::vector<std::string>& diallers) {
  Job job = base;
  const std::vector<std::string> names = base.peer_names();
  double throughput = 0;  // the mean of those that state theirs, as all do where it is read
  for (const PeerEntry& peer : base.peers)
    throughput += peer.throughput.value_or(0) / static_cast<double>(base.peers.size());
  for (const std::string& name : members) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    PeerEntry peer;
    peer.name = name;
    const bool dials = std::find(diallers.begin(), diallers.end(), name) != diallers.end();
    if (!dials) peer.address = peer.bind = "tcp://" + name + ":1";  // the sockets know the right one
    peer.batch = base.batch;
    peer.device = base.device;
    peer.device_at = base.device_at;
    if (throughput > 0) peer.throughput = throughput;
    job.peers.push_back(std::move(peer));
  }
  return job;
}

/// all: base and the members that it does not name.
std::vector<PeerId> places_of(const Job& all, std::size_t named, const std::vector<std::string>& members) {
  std::vector<PeerId> places;
  for (const std::string& name : members)
    places.push_back(find_peer(all, name, "a view names '" + name + "'"));
  const auto others = std::find_if(places.begin(), places.end(), [&](PeerId p) { return p >= named; });
  const auto first = members.begin() + (others - places.begin());
  if (places.empty() || !std::is_sorted(first, members.end()) ||
      std::adjacent_find(places.begin(), places.end(), std::greater_equal<>()) != places.end())
    throw ConfigError(fmt::format(
        "a view of the peers {}; expected at least one, each once, in the job's order, then others by name",
        places.empty() ? "none" : join(members, ", ")));
  return places;
}

/// The job of those peers, but for its graph.
Job cut(const Job& base, const std::vector<PeerId>& places) {
  Job job = base;
  job.peers.clear();
  for (const PeerId p : places) job.peers.push_back(base.peers[p]);
  const auto number = [&](PeerId place) {
    const auto at = std::lower_bound(places.begin(), places.end(), place);
    return at != places.end() && *at == place ? std::optional(static_cast<PeerId>(at - places.begin()))
                                              : std::nullopt;
  };
  job.links.clear();
  for (LinkEntry link : base.links) {
    const auto a = number(link.a), b = number(link.b);
    if (!a || !b) continue;
    link.a = *a, link.b = *b;
    job.links.push_back(link);
  }
  const std::vector<std::string> names = job.peer_names();
  const auto missing = [&](std::string_view name) {
    return std::find(names.begin(), names.end(), name) == names.end();
  };
  const auto somewhere_else = [&](const FaultWindow& w) {
    const std::string_view where = w.where;
    const std::size_t arrow = where.find('>');
    return missing(where.substr(0, arrow)) ||
           (arrow != std::string_view::npos && missing(where.substr(arrow + 1)));
  };
  std::erase_if(job.sim.slow, [&](const auto& slow) { return missing(slow.first); });
  std::erase_if(job.sim.attackers, [&](const auto& text) { return missing(parse_attacker(text).peer); });
  std::erase_if(job.sim.cut, somewhere_else);
  std::erase_if(job.sim.clog, somewhere_else);
  std::erase_if(job.sim.pause, somewhere_else);
  std::erase_if(job.sim.crash, somewhere_else);
  return job;
}

/// The learner that knows base's peers; objectives that were made are still theirs.
void renumber_learner(Prepared& view, const Prepared& base, const std::vector<PeerId>& places) {
  if (base.learner.objective)
    view.learner.objective = [ask = base.learner.objective, places](std::size_t i) { return ask(places[i]); };
  if (base.learner.optimizer)
    view.learner.optimizer = [ask = base.learner.optimizer, places](std::size_t i) { return ask(places[i]); };
  if (!base.first_objective) return;
  const auto at = std::find(places.begin(), places.end(), base.first_peer);
  view.first_peer = at == places.end() ? 0 : static_cast<PeerId>(at - places.begin());
  if (at == places.end()) view.first_objective = std::make_shared<std::unique_ptr<optim::Objective>>();
}

/// Their rows and samples, and how long they take for them.
void deal_data(Prepared& view, const Prepared& base) {
  const bool own = view.learner.objective != nullptr;
  if (own && !view.learner.rows) return set_length(view, base.rounds_per_epoch);
  if (view.homes.empty())
    for (const PeerEntry& peer : base.job.peers) view.homes.push_back({peer.name, peer.batch});
  if (!own && view.job.learns_by_key()) {
    view.clicks = dealt_anew(base.clicks, view.job, view.homes);
    return set_length(view, view.clicks.steps_per_epoch);
  }
  view.split = deal(view);
  set_length(view, view.split->sampler(0)->steps_per_epoch());
}

/// Estimates of neighbours begin at x⁰ in every view, and parameters do not: the first exchange, after
/// local_steps rounds, goes dense.
void tell_first_round_whole(ExchangeSettings& exchange) {
  const compress::Traits codec = compress::make_codec(exchange.codec)->traits();
  if (!reads(find_method(exchange.method), "dense_rounds") || codec.exact || codec.votes) return;
  exchange.dense_rounds = std::max(local_steps(exchange), exchange.dense_rounds);
}

/// A round must wait for someone.
ExchangeSettings with_fewer_backups(ExchangeSettings exchange, const topology::Schedule& schedule) {
  if (exchange.backup == 0) return exchange;
  for (PeerId i = 0; i < schedule.peers(); ++i)
    if (const std::size_t n = schedule.at(0).in(i).size(); n > 0)
      exchange.backup = std::min(exchange.backup, n - 1);
  if (!closes_early(exchange) && !find_method(exchange.method).needs.may_be_stale) exchange.staleness = 0;
  return exchange;
}

/// Job and bridges.
std::string choose_graph(Prepared& view, const Job& base, const std::vector<PeerId>& places) {
  const ExchangeSettings exchange = view.job.exchange;
  const ViewGraph chosen = graph_of_view(base, places, [&](const topology::GraphSpec& graph) {
    view.job.graph = graph;
    view.job.exchange = with_fewer_backups(exchange, topology::make_schedule(graph));
    const Plan plan = make_plan(view.job, 0);
    if (view.rows) row_plan(view.job, *view.rows, plan.schedule);
  });
  view.bridges = chosen.bridges;
  if (view.job.graph.kind != base.graph.kind) view.job.graph_file.clear();
  if (view.job.exchange.backup == exchange.backup) return chosen.warning;
  return fmt::format("{}{}exchange.backup is {} in place of {}, as some peer hears no more than {}",
                     chosen.warning, chosen.warning.empty() ? "" : "; ", view.job.exchange.backup,
                     exchange.backup, view.job.exchange.backup + 1);
}

}  // namespace

std::string why_only_named(const Job& base) {
  if (base.heterogeneous())
    return "the peers' models have hidden sizes of their own, and nothing says which others would have: only "
           "those that the files name take part";
  return {};
}

namespace {

void name_members(HelloBody& hello, const std::vector<std::string>& members) {
  std::vector<std::string> quoted;
  for (const std::string& name : members) quoted.push_back('"' + name + '"');
  hello.job_text += fmt::format("{}members = [{}]\n", kViewTable, join(quoted, ", "));
  hello.job_hash = hash_text(hello.job_text);
}

}  // namespace

ViewRun run_of_view(const Prepared& base, const std::vector<std::string>& members, bool keyframes,
                    const std::vector<std::string>& diallers) {
  const Job all = extended(base.job, members, diallers);
  const std::vector<PeerId> places = places_of(all, base.job.peers.size(), members);
  if (const std::string why = why_only_named(base.job);
      !why.empty() && places.back() >= base.job.peers.size())
    throw ConfigError(why);
  auto view = std::make_shared<Prepared>(base);
  view->job = cut(all, places);
  view->names = members;
  if (keyframes) tell_first_round_whole(view->job.exchange);
  if (!exchanges_rows(view->job)) view->rows.reset();
  const std::string warning = choose_graph(*view, all, places);
  view->shapes.clear();
  if (view->job.heterogeneous())
    for (const PeerId p : places) view->shapes.push_back(base.shapes[p]);
  renumber_learner(*view, base, places);
  deal_data(*view, base);
  make_plan(*view);
  Plan plan = *view->plan;
  plan.first_heard = keyframes;
  view->plan = std::make_shared<const Plan>(std::move(plan));
  name_members(view->hello, members);
  return {std::move(view), warning};
}

std::shared_ptr<const Prepared> with_former(std::shared_ptr<const Prepared> view,
                                            std::vector<std::pair<PeerId, PeerId>> former) {
  const topology::Schedule& schedule = view->plan->schedule;
  std::erase_if(former, [&](const auto& pair) {
    for (std::size_t t = 0; t < schedule.period(); ++t)
      for (const PeerId to : schedule.at(t).out(pair.first))
        if (to == pair.second) return true;
    return pair.first == pair.second || pair.first >= schedule.peers() || pair.second >= schedule.peers();
  });
  if (former.empty()) return view;
  std::sort(former.begin(), former.end());
  Plan plan = *view->plan;
  plan.former = std::move(former);
  auto with = std::make_shared<Prepared>(*view);
  with->plan = std::make_shared<const Plan>(std::move(plan));
  return with;
}

}  // namespace gossamer::node
