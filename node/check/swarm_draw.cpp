// What a seed stands for: configuration and faults.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>

#include "aggregation.h"
#include "codec_schedule.h"
#include "draw.h"
#include "method.h"
#include "plan.h"
#include "row_soundness.h"
#include "soundness.h"
#include "sparse_rows.h"
#include "swarm.h"
#include "unread.h"

namespace gossamer::node {
namespace {

constexpr std::size_t kMostTries = 20000, kTriesPerMethod = 500;
constexpr double kNegligible = 1e-10;  ///< that so many signs of life in a row are lost counts as impossible

/// Every lossy codec under each of its parameters for small models.
std::vector<std::string> lossy_codecs() {
  std::vector<std::string> specs;
  for (const compress::CodecRow& row : compress::codec_table()) {
    if (compress::make_codec(row.name)->traits().exact) continue;
    if (*row.drawn == 0) specs.emplace_back(row.name);
    std::istringstream drawn(row.drawn);
    for (std::string parameters; drawn >> parameters;)
      specs.push_back(fmt::format("{}:{}", row.name, parameters));
  }
  return specs;
}

// --- the configuration

void draw_graph(Draw& d, Job& job) {
  topology::GraphSpec& g = job.graph;
  const auto kinds = topology::graph_table();
  do {
    g.kind = kinds[d.below(kinds.size())].name;
  } while (topology::graph_kind(g.kind).traits.edges_are_written);
  g.weights = d.chance(0.7) ? "metropolis" : "uniform";
  g.degree = d.from(2, 4);
  g.period = d.from(2, 6);
  g.seed = d.from(1, 1000);
  g.directed = d.chance(0.5);
}

/// Names of the table's rows of which it is true.
template <class True>
std::vector<std::string> names_where(std::span<const optim::NamedHelp> table, const True& is_true) {
  std::vector<std::string> names;
  for (const optim::NamedHelp& row : table)
    if (is_true(row.name)) names.emplace_back(row.name);
  return names;
}

std::string plain_optimizer(Draw& d) {
  return d.one(names_where(optim::optimizer_table(),
                           [](const char* kind) { return !optim::optimizer_traits(kind).keeps_state; }));
}
std::string stateful_optimizer(Draw& d) {
  return d.one(names_where(optim::optimizer_table(),
                           [](const char* kind) { return optim::optimizer_traits(kind).keeps_state; }));
}

std::string model_kind(Draw& d, bool large) {
  return d.one(names_where(optim::model_table(),
                           [&](const char* kind) { return !large || optim::model_traits(kind).hidden; }));
}

void draw_model(Draw& d, Job& job) {
  const bool large = d.chance(0.05);  // parcels of several chunks
  job.model.kind = model_kind(d, large);
  job.model.hidden = {large ? 700 : d.from(2, 12)};
  job.data.format = "synthetic";
  job.data.features = large ? 64 : d.from(3, 40);
  job.data.classes = d.from(2, 4);
  job.data.rows = d.from(80, 300);
  job.data.test_rows = 8;
  job.data.seed = d.from(1, 1000);
  job.exchange.parcel = large || d.chance(0.4) ? 1 << 20 : 16 * d.from(1, 12);
  job.exchange.dense_below = d.chance(0.85) ? 0 : 100;
}

void draw_training(Draw& d, Job& job) {
  job.optimizer.kind = d.chance(0.6) ? plain_optimizer(d) : stateful_optimizer(d);
  job.optimizer.learning_rate = 0.02;
  job.batch = d.from(1, 6);
  const bool uneven = d.chance(0.3);
  for (PeerEntry& p : job.peers) p.batch = uneven ? d.from(1, 6) : job.batch;
  job.run.seed = d.from(1, 1000);
  job.run.evaluate_every = 0;
}

void draw_exchange(Draw& d, Job& job) {
  ExchangeSettings& e = job.exchange;
  static const std::vector<std::string> lossy = lossy_codecs();
  e.codec = compress::make_codec(d.chance(0.4) ? compress::kDense : lossy[d.below(lossy.size())])->spec();
  e.staleness = d.chance(0.5) ? 0 : d.from(1, 3);
  if (d.chance(0.25)) e.staleness.reset();
  e.aggregate = d.chance(0.15) ? "samples" : "weighted";
  e.local_steps = d.from(2, 4);
}

constexpr double kShareOfTables = 0.2;
constexpr std::array kRules{"median",         "trimmed_mean:f=1",     "krum:f=1",
                            "multi_krum:f=1", "geometric_median:f=1", "centered_clip:f=1",
                            "self_clip:f=1",  "nnm+median:f=1",       "vote"};

/// Keys by which a method goes another way.
void draw_ways(Draw& d, Job& job) {
  ExchangeSettings& e = job.exchange;
  const Needs& needs = find_method(e.method).needs;
  e.delivery = needs.may_lose && d.chance(0.5) ? "best_effort" : "reliable";
  if (e.delivery == "best_effort") e.staleness.reset();
  e.backup = needs.partial != Needs::Partial::no && d.chance(0.35) ? d.from(1, 2) : 0;
  if (needs.rules != Needs::Rules::none && e.backup == 0 && d.chance(0.25)) {
    e.aggregate = optim::describe_aggregator(d.one(kRules)).spec;
    e.staleness = 0;
  }
  e.algorithm = d.one(std::array{"auto", "ring", "halving_doubling"});
}

void draw_own_values(Draw& d, const Method& method, ExchangeSettings& e) {
  e.own.clear();
  e.overlap = reads(method, "overlap") && !method.idle_rounds && d.one(std::array{false, false, true});
  for (const OwnKey& key : method.keys) {
    if (key.drawn.empty()) continue;
    const double drawn = key.drawn[d.below(key.drawn.size())];
    std::visit([&]<class T>(const OwnValue<T>& v) { v.in(e) = static_cast<T>(drawn); }, key.value);
  }
}

/// Keys that one method or a few of a kind have.
void draw_own_keys(Draw& d, Job& job) {
  ExchangeSettings& e = job.exchange;
  const Needs& needs = find_method(e.method).needs;
  if (find_method(e.method).usual_local_steps == 1) e.local_steps.reset();
  e.fragments = needs.outer ? d.from(1, local_steps(e)) : 1;
  e.outer_delay = needs.outer && d.chance(0.5) ? d.below(local_steps(e)) : 0;
  draw_own_values(d, find_method(e.method), e);
  e.outer_rate.reset();
  e.outer_momentum.reset();
  if (needs.outer && d.chance(0.5)) e.outer_rate = d.decades(0.1, 1);
  if (needs.outer && d.chance(0.5)) e.outer_momentum = d.one(std::array{0.0, 0.5, 0.9});
  job.run.rounds = std::max<std::uint64_t>(local_steps(e), d.from(2, find_method(e.method).swarm_rounds));
  if (needs.heterogeneous && optim::model_traits(job.model.kind).hidden && d.chance(0.5))
    for (PeerEntry& p : job.peers) p.hidden = {d.from(2, 12)};
  const bool sparse = needs.sparse_feedback && density_of(e.codec);
  e.momentum_correction = sparse && e.backup == 0 && d.chance(0.3) ? 0.5 : 0;
  if (e.momentum_correction > 0) job.optimizer.kind = plain_optimizer(d);
  e.clip = sparse && d.chance(0.3) ? d.decades(0.1, 10) : 0;
}

}  // namespace

Job draw_job(Draw& d) {
  Job job;
  job.path = job.name = "swarm";
  job.run.min_peers = 0;  // who comes and goes is drawn elsewhere (churn_draw.h)
  const auto methods = method_table();
  for (std::size_t tries = 0; tries < kMostTries; ++tries) {
    if (tries % kTriesPerMethod == 0) job.exchange.method = methods[d.below(methods.size())].name;
    job.peers.clear();
    for (std::size_t i = 0, peers = d.from(2, 9); i < peers; ++i) {
      PeerEntry p;
      p.name = fmt::format("peer{}", i);
      p.address = p.bind = fmt::format("tcp://127.0.0.1:{}", 7001 + i);
      job.peers.push_back(p);
    }
    job.graph.peers = job.peers.size();
    draw_graph(d, job);
    draw_model(d, job);
    draw_training(d, job);
    draw_exchange(d, job);
    draw_ways(d, job);
    draw_own_keys(d, job);
    const std::string aggregate = job.exchange.aggregate;  // what the method cannot honour is drawn anew
    drop_unread(job.exchange);
    job.exchange.aggregate = aggregate;
    try {
      const bool votes = make_plan(job, 0).codec.votes || job.exchange.aggregate.starts_with("vote");
      // which steps by the whole rate in every entry, and momentum makes ten times that of it
      if (votes) job.optimizer.learning_rate /= 10;
      config::drop_unread(job, config::Chosen::kOthers);
      return job;
    } catch (const ConfigError&) {
    } catch (const topology::GraphError&) {
    }
  }
  throw std::runtime_error(fmt::format("no sound job in {} tries", kMostTries));
}

namespace {

/// In some runs stragglers are not waited for; drawn by itself.
void draw_stragglers(std::uint64_t seed, Job& job) try {
  Draw d(seed ^ 0x5742);
  if (job.learns_by_key() || d.chance(0.5)) return;
  const bool fewer = d.chance(0.5);
  job.exchange.straggler = fewer ? "fewer" : "without";
  job.exchange.straggler_k = d.one(std::array{0.0, 0.0, 1.0, 6.0});
  make_plan(job, 0);
  job.run.rounds = std::max(job.run.rounds, 12 * (fewer ? local_steps(job.exchange) : 1));
} catch (const ConfigError&) {
  job.exchange.straggler = "wait";
  job.exchange.straggler_k = ExchangeSettings{}.straggler_k;
}

/// Gossip exchanges in some runs after every few steps alone; drawn by itself.
void draw_local_steps(std::uint64_t seed, Job& job) {
  Draw d(seed ^ 0x10ca1);
  const Method& method = find_method(job.exchange.method);
  if (!reads(method, "local_steps") || method.usual_local_steps != 1 || !d.chance(0.25)) return;
  job.exchange.local_steps = d.from(2, 4);
  job.run.rounds *= 2;
}

/// Codecs that can carry rows, as they are by themselves.
std::vector<std::string> row_codecs() {
  std::vector<std::string> specs;
  for (const auto& row : compress::codec_table()) try {
      compress::check_rows_spec({.codec = row.name});
      specs.push_back(compress::make_codec(row.name)->spec());
    } catch (const compress::CodecError&) {  // it cannot
    }
  return specs;
}

/// In some runs what is learned stands in tables, as far as the rest of the job goes with it. Drawn by
/// itself, so that other runs stay as they are.
void draw_rows(std::uint64_t seed, Job& job) {
  Draw d(~seed);
  if (!d.chance(kShareOfTables)) return;
  Job sparse = job;
  const auto kinds = optim::sparse_model_table();
  sparse.model.kind = kinds[d.below(kinds.size())].name;
  for (PeerEntry& p : sparse.peers) p.hidden.clear();
  sparse.model.hidden = {d.from(2, 12)};
  sparse.data.format = kPlanted;
  sparse.sparse.samples.fields = d.from(1, 4);
  sparse.sparse.planted.keys = d.from(2, 60);
  sparse.sparse.model.factors = d.from(1, 5);
  const auto optimizers = optim::row_optimizer_table();
  sparse.sparse.table.optimizer = optimizers[d.below(optimizers.size())].name;
  sparse.sparse.table.learning_rate = 0.05;
  static const std::vector<std::string> codecs = row_codecs();
  sparse.sparse.codec = codecs[d.below(codecs.size())];
  sparse.sparse.density = d.one(std::array{1.0, 0.5, 0.1, 0.01});
  sparse.sparse.unsent = d.one(std::array{16, 64, 1 << 20});
  try {
    make_plan(sparse, 0);
    if (!exchanges_rows(sparse)) return;
    check_rows(sparse);
    row_plan(sparse, {}, make_plan(sparse, 0).schedule);
    config::drop_unread(sparse, config::Chosen::kOthers);
    job = std::move(sparse);
  } catch (const ConfigError&) {  // stays dense
  }
}

// --- the faults

class Faults {
 public:
  Faults(Draw& d, SwarmCase& c) : d_(d), c_(c), job_(c.job), sim_(c.job.sim) {
    const topology::Schedule schedule = topology::make_schedule(job_.graph);
    for (PeerId i = 0; i < job_.peers.size(); ++i)
      for (const PeerId j : schedule.links(i)) links_.emplace_back(i, j);
  }

  void draw() {
    const double step_time = sim_.step_time;
    sim_ = {};
    sim_.step_time = step_time;
    job_.links.clear();
    draw_machines();
    if (d_.chance(0.9)) draw_network();
    draw_fault_windows();
    if (d_.chance(0.1)) draw_permanent_failure();
    job_.run.silence_timeout = std::max(3.5, std::ceil(longest_silence()));
    job_.run.join_timeout = job_.run.drain_timeout = 60 + job_.run.silence_timeout;
    // what a rule is to bear is not refused
    if (rule_scope(job_.exchange.aggregate) == RuleScope::none && d_.chance(0.3)) {
      sim_.forge = d_.one(std::array{0.02, 0.2});
      job_.run.mute_after = 0;  // a stranger who writes in neighbours' names would have them muted
    }
    if (d_.chance(0.3)) sim_.pose = d_.one(std::array{0.02, 0.1});
  }

 private:
  void draw_machines() {
    sim_.step_jitter = d_.one(std::array{0.0, 0.1, 0.9});
    if (d_.chance(0.3))
      sim_.slow = {{job_.peers[d_.below(job_.peers.size())].name, d_.one(std::array{0.1, 3.0, 20.0})}};
  }

  void draw_network() {
    sim_.bandwidth = d_.decades(1e6, 1e9);
    sim_.latency = d_.seconds(0, 0.03);
    if (d_.chance(0.5)) sim_.jitter = d_.seconds(0.001, 0.03);
    if (d_.chance(0.5)) sim_.loss = d_.one(std::array{0.01, 0.05, 0.1, 0.3});
    if (d_.chance(0.5)) sim_.duplicate = d_.one(std::array{0.05, 0.2, 0.5});
    if (d_.chance(0.5)) sim_.reorder = d_.one(std::array{0.05, 0.2, 0.5});
    if (d_.chance(0.25)) sim_.stray = d_.one(std::array{0.02, 0.1});
    if (d_.chance(0.25)) sim_.garble = d_.one(std::array{0.01, 0.05});
    if (d_.chance(0.3) && !links_.empty()) {
      const auto [a, b] = links_[d_.below(links_.size())];
      job_.links = {{a, b, d_.decades(1e6, 1e8), d_.seconds(0.001, 0.2)}};
    }
  }

  /// Of at most some seconds, so that silence_timeout may stand above them.
  void draw_fault_windows() {
    for (std::size_t k = d_.chance(0.3) ? d_.from(1, 3) : 0; k > 0 && !links_.empty(); --k)
      sim_.cut.push_back({direction(), d_.seconds(0, 1), d_.seconds(0.05, 1.5)});
    for (std::size_t k = d_.chance(0.3) ? d_.from(1, 3) : 0; k > 0 && !links_.empty(); --k)
      sim_.clog.push_back({direction(), d_.seconds(0, 1), d_.seconds(0.05, 1.5)});
    if (d_.chance(0.25)) sim_.pause.push_back({peer(), d_.seconds(0, 1), d_.seconds(0.05, 1.5)});
  }

  /// A peer stops for good, or for longer than its neighbours wait.
  void draw_permanent_failure() {
    const auto who = static_cast<PeerId>(d_.below(job_.peers.size()));
    c_.failing = {who};
    if (d_.chance(0.7))
      c_.crashes = {{who, d_.seconds(0, 1.5)}};
    else
      failure_ = {job_.peers[who].name, d_.seconds(0, 0.5), 0};
  }

  std::string peer() { return job_.peers[d_.below(job_.peers.size())].name; }
  std::string direction() {
    const auto [a, b] = links_[d_.below(links_.size())];
    return job_.peers[a].name + ">" + job_.peers[b].name;
  }

  /// What a peer that lives may leave its neighbours without, and sets the failing one's pause above it.
  double longest_silence() {
    double windows = 0;
    for (const auto* list : {&sim_.cut, &sim_.clog, &sim_.pause})
      for (const FaultWindow& s : *list) windows += s.seconds;
    const double lost = 1 - (1 - sim_.loss) * (1 - sim_.garble);
    const double in_a_row = lost > 0 ? std::ceil(std::log(kNegligible) / std::log(lost)) : 0;
    const double slowest_link = job_.links.empty() ? 0 : *job_.links[0].latency;
    const double on_the_way = 8 * (sim_.latency + slowest_link) + sim_.jitter + 8.0 * (1 << 20) / 1e6 * 0.2;
    const double silence = windows + 0.5 * (in_a_row + 2) + on_the_way;
    if (!failure_.where.empty()) {
      failure_.seconds = 4 * std::max(3.5, std::ceil(silence)) + 10;
      sim_.pause.push_back(failure_);
    }
    return silence;
  }

  Draw& d_;
  SwarmCase& c_;
  Job& job_;
  SimSection& sim_;
  std::vector<std::pair<PeerId, PeerId>> links_;
  FaultWindow failure_;
};

}  // namespace

void draw_overlap(std::uint64_t seed, Job& job) {
  Draw d(seed ^ 0x0e1a);
  const Method& method = find_method(job.exchange.method);
  if (reads(method, "overlap") && method.idle_rounds && job.exchange.staleness == 0u)
    job.exchange.overlap = d.chance(0.4);
}

SwarmCase draw_case(std::uint64_t seed) {
  Draw d(seed);
  SwarmCase c;
  c.seed = seed;
  c.job = draw_job(d);
  draw_rows(seed, c.job);
  draw_stragglers(seed, c.job);
  draw_local_steps(seed, c.job);
  draw_overlap(seed, c.job);
  Faults(d, c).draw();
  return c;
}

SwarmCase draw_case(std::uint64_t seed, const Job& job) {
  Draw d(seed);
  SwarmCase c;
  c.seed = seed;
  c.job = job;
  Faults(d, c).draw();
  return c;
}

std::vector<std::string> crash_texts(const SwarmCase& c) {
  std::vector<std::string> texts;
  for (const auto& [peer, time] : c.crashes)
    texts.push_back(fmt::format("{}@{}s", c.job.peers[peer].name, time));
  return texts;
}

std::string describe(const SwarmCase& c) {
  const Job& j = c.job;
  std::string text =
      fmt::format("{} {} on {} of {}, staleness {}, {} rounds; loss {} duplicate {} reorder {} jitter {}",
                  j.exchange.method, j.exchange.codec, j.graph.kind, j.peers.size(),
                  j.exchange.staleness ? std::to_string(*j.exchange.staleness) : "unbounded", j.run.rounds,
                  j.sim.loss, j.sim.duplicate, j.sim.reorder, j.sim.jitter);
  if (!c.crashes.empty()) text += fmt::format(", crash {}", fmt::join(crash_texts(c), " "));
  if (c.churn) text += fmt::format(", {} members come back", j.sim.crash.size());
  return text;
}

}  // namespace gossamer::node
