#pragma once
// Advice ranks every sound combination of graph, method and codec over given links by a model of its
// time.
#include <string>
#include <vector>

#include "gossamer/node/job.h"
#include "gossamer/optim/model.h"
#include "gossamer/topology/cost.h"
#include "gossamer/topology/placement.h"

namespace gossamer::node {

struct Question {
  /// Peers with their links, codec, staleness, optimiser, step time; the graph in it does not matter.
  Job job;
  std::vector<optim::Layer> layers;  ///< of the model
  std::vector<std::string> methods;  ///< empty: all that a cost is known for
  std::uint64_t rounds = 1000;       ///< that training takes with full averaging
  double heterogeneity = 0;          ///< of the data, 0 = IID: z of topology::round_growth
};

struct Advice {
  std::string method, codec, graph;  ///< graph: with its parameters, for people
  std::string algorithm;             ///< of a dense all-reduce; empty where it does not matter
  topology::GraphSpec spec;
  bool waits = true;            ///< false: the method waits for nobody, exchange.staleness = "unbounded"
  topology::Order order;        ///< the peer at place i of the graph is job.peers[order[i]]
  topology::RoundCost cost;     ///< peers as in the question
  double message_seconds = 0;   ///< the parts of a round from cost.from to cost.to, alone on their link
  double bytes_per_round = 0;   ///< that the busiest peer sends, on average
  double consensus_rounds = 0;  ///< until the worst start's disagreement is 1e-6 of what it was; -1: never
  std::size_t period = 1;       ///< rounds after which traffic repeats
  double delay = 1;             ///< topology::consensus_delay; 1 for a full reduce
  double rounds = 0;            ///< question.rounds · topology::round_growth
  double seconds() const { return rounds * cost.seconds; }
  double consensus_seconds() const { return consensus_rounds < 0 ? -1 : consensus_rounds * cost.seconds; }
};

/// All sound combinations, the one that trains soonest first. Each is placed on the links as well as a local
/// search finds. Throws ConfigError for an unknown method, one without a known cost, and where nothing is
/// left.
std::vector<Advice> advise(const Question& question);

/// The job with the advice followed: peers in the order of the graph, links, graph, method and codec.
Job follow(const Job& job, const Advice& advice);
/// The same but for the topology: KEY=VALUE for each key of the job that the advice decides, or that its
/// method does not read.
std::vector<std::string> settings(const Job& job, const Advice& advice);

/// Bandwidths, latencies and uplinks of a job: [sim] where a [[link]] says nothing.
topology::LinkTable link_table(const Job& job);

/// "tree (degree 3)"
std::string graph_label(const topology::GraphSpec& spec);

}  // namespace gossamer::node
