// Every sound combination of graph, method and codec, its cost and its rank.
#include "advice.h"
#include "plan.h"
#include "soundness.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

#include "method.h"
#include "model_parts.h"
#include "patterns.h"
#include "unread.h"

namespace gossamer::node {
namespace {

using topology::Order;
using topology::Traffic;
using Messages = Pattern::Messages;

/// The order of the peers and what refers to it.
Job in_order(Job job, const Order& order) {
  std::vector<PeerEntry> peers;
  std::vector<topology::PeerId> place(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    peers.push_back(job.peers[order[i]]);
    place[order[i]] = static_cast<topology::PeerId>(i);
  }
  job.peers = std::move(peers);
  for (LinkEntry& link : job.links) {
    link.a = place[link.a];
    link.b = place[link.b];
  }
  return job;
}

std::vector<double> step_seconds(const Job& job) {
  std::vector<double> step;
  for (const PeerEntry& p : job.peers) {
    step.push_back(job.sim.step_time * static_cast<double>(p.batch) / static_cast<double>(job.batch));
    for (const auto& [name, factor] : job.sim.slow)
      if (name == p.name) step.back() *= factor;
  }
  return step;
}

template <class T>
std::vector<T> picked(const std::vector<T>& values, const Order& order) {
  std::vector<T> result;
  for (const topology::PeerId p : order) result.push_back(values[p]);
  return result;
}

/// No order of the peers makes another graph of it.
bool has_no_places(const topology::GraphSpec& spec) {
  const topology::GraphTraits& traits = topology::graph_kind(spec.kind).traits;
  return traits.edges_are_written || traits.places_are_alike;
}

class Adviser {
 public:
  explicit Adviser(const Question& question)
      : question_(question),
        links_(link_table(question.job)),
        step_(step_seconds(question.job)),
        framing_(wire_framing()) {}

  std::vector<Advice> all() {
    for (const Method* method : methods_of_known_cost(question_.methods))
      for (const std::string& codec : codecs(*method))
        for (const std::string& algorithm : algorithms(*method, codec)) each_graph(*method, codec, algorithm);
    std::stable_sort(found_.begin(), found_.end(),
                     [](const Advice& a, const Advice& b) { return a.seconds() < b.seconds(); });
    if (found_.empty())
      throw ConfigError(question_.job.path +
                        ": no graph goes with these methods and codecs; the last reason: " + last_reason_);
    return std::move(found_);
  }

 private:
  /// The job's codec, and dense for methods that are not there to compress.
  std::vector<std::string> codecs(const Method& method) const {
    const std::string& codec = question_.job.exchange.codec;
    using Code = Needs::Code;
    const Needs& needs = method.needs;
    if (compress::make_codec(codec)->traits().exact) return {codec};
    if (needs.code == Code::any || needs.code_of_mean) return {codec, compress::kDense};
    if (needs.code == Code::exact) return {compress::kDense};
    return {codec};
  }

  /// The ways of a method over its graph: exchange.algorithm, empty where it does not matter.
  static std::vector<std::string> algorithms(const Method& method, const std::string& codec) {
    if (method.pattern->messages == Messages::reduce && compress::make_codec(codec)->traits().exact)
      return {"ring", "halving_doubling"};
    return {""};
  }

  void each_graph(const Method& method, const std::string& codec, const std::string& algorithm) {
    Job job = question_.job;
    job.exchange.method = method.row.name;
    drop_unread(job.exchange);
    job.exchange.codec = codec;
    if (!algorithm.empty()) job.exchange.algorithm = algorithm;
    if (!method.needs.may_wait) job.exchange.staleness = std::nullopt;
    if (method.refusal && !method.refusal(job.exchange).empty()) job.exchange.overlap = false;
    const std::vector<topology::Part> parts = pattern_parts(method, job, question_.layers);
    double bytes = 0;
    for (const topology::Part& p : parts) bytes += framing_.on_wire(p.bytes);
    auto specs = topology::candidate_graphs(job.peers.size());
    for (auto& spec : topology::candidate_edges(links_, bytes)) specs.push_back(std::move(spec));
    for (const topology::GraphSpec& spec : specs) {
      if (!offered(method, spec.kind)) continue;
      job.graph = spec;
      try {
        weigh_up(method, job, algorithm, parts, bytes);
      } catch (const ConfigError& refusal) {
        last_reason_ = refusal.what();
      }
    }
  }

  void weigh_up(const Method& method, const Job& job, const std::string& algorithm,
                const std::vector<topology::Part>& parts, double bytes) {
    const Plan plan = make_plan(job, 0);
    Advice advice;
    advice.method = method.row.name;
    advice.codec = job.exchange.codec;
    advice.algorithm = algorithm;
    advice.spec = job.graph;
    advice.graph = graph_label(job.graph);
    advice.waits = method.needs.may_wait;
    const Traffic exchanged = exchange_traffic(method, job, plan, algorithm, parts, framing_);
    advice.order = placed(method, job, algorithm, exchanged, bytes);
    const topology::LinkTable links = links_.placed(advice.order);
    const std::vector<double> step = picked(step_, advice.order);
    const RoundTraffic whole = round_traffic(method, job, plan, exchanged, parts, question_.layers, framing_);
    advice.cost = topology::round_cost(whole.traffic, step, links, whole.staleness);
    advice.period = whole.traffic.size();
    std::vector<double> sent = bytes_sent(whole.traffic), pairings;
    if (method.pattern->messages == Messages::pairs) {
      const std::vector<double> requests = request_rates(plan, step, links, bytes);
      pairings = pairing_rates(plan, requests, step, links, bytes);
      sent = bytes_of_pairs(requests, bytes);
    }
    advice.bytes_per_round = *std::max_element(sent.begin(), sent.end());
    const Consensus consensus = consensus_of(method, plan, pairings);
    if (!std::isfinite(consensus.delay)) return;
    advice.delay = consensus.delay;
    advice.consensus_rounds = consensus.rounds;
    advice.rounds =
        static_cast<double>(question_.rounds) *
        topology::round_growth(advice.delay, method.pattern->corrected ? 0 : question_.heterogeneity);
    name_slowest(whole.traffic, advice);
    found_.push_back(std::move(advice));
  }

  /// Whether messages of a bound number of rounds are waited for, where the method has it so.
  /// A graph that belongs to methods of its own is offered to these, and no other is.
  static bool offered(const Method& method, std::string_view kind) {
    const auto& all = methods();
    const std::string_view own = method.pattern->own_graph;
    return own.empty()
               ? std::none_of(all.begin(), all.end(),
                              [&](const Method* m) { return m->pattern && kind == m->pattern->own_graph; })
               : kind == own;
  }

  /// The best order found; the same for methods that send the same over the same graph.
  Order placed(const Method& method, const Job& job, const std::string& algorithm, const Traffic& traffic,
               double bytes) {
    Order as_listed(links_.peers());
    std::iota(as_listed.begin(), as_listed.end(), topology::PeerId{0});
    // Whose messages follow the numbers of the peers, whatever the graph is.
    const bool numbered = method.pattern->messages == Messages::tree || !algorithm.empty();
    if (has_no_places(job.graph) && !numbered) return as_listed;
    Order& known = orders_[{graph_label(job.graph), bytes * method.pattern->vectors,
                            numbered ? std::string(method.row.name) + algorithm : ""}];
    if (!known.empty()) return known;
    std::size_t messages = 1;
    for (const auto& round : traffic) messages += round.size();
    const auto cost = [&](const Order& order) {
      const topology::LinkTable links = links_.placed(order);
      double sum = 0;  // turns a plateau of the slowest link into a slope
      for (const auto& round : traffic)
        for (const auto& m : round) sum += links.at(m.from, m.to).seconds(m.bytes);
      return topology::round_cost(traffic, picked(step_, order), links).seconds +
             kSlope * sum / static_cast<double>(messages);
    };
    const std::array starts{topology::cheap_ring(links_, bytes), topology::by_nearness(links_, bytes),
                            as_listed};
    const std::size_t rounds = 2 * std::max(traffic.size(), links_.peers());
    const std::size_t each = messages / traffic.size() * rounds + 1;
    known = topology::place(starts, cost, std::clamp<std::size_t>(kMostWork / each, 3, kMostAsked));
    return known;
  }

  /// Of each place, per round.
  std::vector<double> bytes_sent(const Traffic& traffic) const {
    std::vector<double> sent(links_.peers(), 0);
    for (const auto& round : traffic)
      for (const auto& m : round) sent[m.from] += m.bytes / static_cast<double>(traffic.size());
    return sent;
  }
  /// Of each place, per round: its requests, and its answers to others'.
  std::vector<double> bytes_of_pairs(const std::vector<double>& requests, double bytes) const {
    const std::size_t peers = links_.peers();
    std::vector<double> sent(peers, 0);
    for (std::size_t i = 0; i < peers; ++i)
      for (std::size_t j = 0; j < peers; ++j)
        sent[i] += bytes * (requests[i * peers + j] + requests[j * peers + i]);
    return sent;
  }

  /// The message that ended a round last, in words of the question.
  void name_slowest(const Traffic& traffic, Advice& advice) const {
    auto& cost = advice.cost;
    if (cost.from != cost.to)
      for (const auto& round : traffic) {
        double bytes = 0;
        for (const auto& m : round)
          if (m.from == cost.from && m.to == cost.to) bytes += m.bytes;
        const auto& link = links_.at(advice.order[cost.from], advice.order[cost.to]);
        if (bytes > 0) advice.message_seconds = std::max(advice.message_seconds, link.seconds(bytes));
      }
    cost.from = advice.order[cost.from];
    cost.to = advice.order[cost.to];
  }

  static constexpr std::size_t kMostWork = 2000000;  ///< messages reckoned in the search for one order
  static constexpr std::size_t kMostAsked = 3000;    ///< orders tried
  static constexpr double kSlope = 0.01;

  const Question& question_;
  topology::LinkTable links_;
  std::vector<double> step_;
  topology::Framing framing_;
  std::map<std::tuple<std::string, double, std::string>, Order> orders_;
  std::vector<Advice> found_;
  std::string last_reason_;
};

}  // namespace

topology::LinkTable link_table(const Job& job) {
  topology::LinkTable table(job.peers.size(), {job.sim.bandwidth, job.sim.latency});
  for (const LinkEntry& l : job.links)
    for (auto* link : {&table.at(l.a, l.b), &table.at(l.b, l.a)}) {
      link->bandwidth = l.bandwidth.value_or(link->bandwidth);
      link->latency = l.latency.value_or(link->latency);
    }
  for (topology::PeerId p = 0; p < job.peers.size(); ++p)
    if (job.peers[p].uplink) table.uplink(p) = *job.peers[p].uplink;
  return table;
}

std::string graph_label(const topology::GraphSpec& spec) {
  const topology::GraphKind& kind = topology::graph_kind(spec.kind);
  if (kind.traits.edges_are_written) {
    std::vector<std::size_t> degrees(spec.peers, 0);
    for (const auto& e : spec.edges) {
      ++degrees[e.from];
      ++degrees[e.to];
    }
    return fmt::format("{} cheap links (degree {})", spec.edges.size(),
                       *std::max_element(degrees.begin(), degrees.end()));
  }
  if (reads(kind, "groups")) return fmt::format("{} ({} groups)", spec.kind, spec.groups);
  if (reads(kind, "directed") && !spec.directed) return fmt::format("{} (undirected)", spec.kind);
  if (reads(kind, "degree")) return fmt::format("{} (degree {})", spec.kind, spec.degree);
  return spec.kind;
}

std::vector<Advice> advise(const Question& question) { return Adviser(question).all(); }

Job follow(const Job& job, const Advice& advice) {
  Job placed = in_order(job, advice.order);
  placed.graph = advice.spec;
  placed.exchange.method = advice.method;
  placed.exchange.codec = advice.codec;
  drop_unread(placed.exchange);
  if (!advice.algorithm.empty()) placed.exchange.algorithm = advice.algorithm;
  if (!advice.waits) placed.exchange.staleness = std::nullopt;
  return placed;
}

std::vector<std::string> settings(const Job& job, const Advice& advice) {
  std::vector<std::string> set{"exchange.method=" + advice.method, "exchange.codec=" + advice.codec};
  ExchangeSettings exchange = job.exchange;
  exchange.method = advice.method;
  for (const config::UnreadKey& key : config::unread_keys(exchange))
    set.push_back(key.name + "=" + key.fallback);
  if (!advice.algorithm.empty()) set.push_back("exchange.algorithm=" + advice.algorithm);
  if (!advice.waits) set.emplace_back("exchange.staleness=unbounded");
  return set;
}

}  // namespace gossamer::node
