#pragma once
// Measures the links between running peers: latency and bandwidth of every pair, and what each peer can send
// to all others at once, over the sockets that
// training uses (a ROUTER that others connect to, a DEALER to each). Nobody coordinates: all go through the
// rounds of one tournament, in which each peer meets each other once and no peer is in two meetings at a
// time, so that measurements share no peer's link.
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gossamer/node/job.h"

namespace gossamer::node {

using topology::PeerId;

/// Round r of a tournament of that many peers, r from 0 to rounds − 1: who meets whom. Every pair meets once
/// (the circle method: a 1-factorisation of the complete graph; with an odd number one peer pauses).
std::size_t tournament_rounds(std::size_t peers);
std::optional<PeerId> opponent(std::size_t peers, std::size_t round, PeerId self);

struct ProbeSpec {
  std::vector<std::string> names, addresses;  ///< of all peers
  std::string bind;                           ///< where this one listens
  PeerId self = 0;
  double seconds = 1;   ///< of bulk in each direction of a pair, and from a peer to all others, about
  double timeout = 15;  ///< seconds without a word after which a peer counts as silent
  std::size_t pings = 20;
};

/// Half the lower quartile of round trips, of which there is one at least: what other work on the machines
/// and other traffic adds to some of them is not the link's.
double latency_of(std::vector<double> round_trips);

/// What a pair measured.
struct PairMeasure {
  PeerId a, b;         ///< a < b
  double latency;      ///< seconds: latency_of the round trips of a small message
  double there, back;  ///< bit/s of payload from a to b and from b to a, after a warm-up
  double bandwidth() const { return std::min(there, back); }
};

struct ProbeResult {
  std::vector<PairMeasure> pairs;  ///< of all peers that told, ascending
  /// bit/s that a peer sent when it sent to all others at once; none where there are two peers.
  std::map<PeerId, double> uplinks;
  std::vector<PeerId> silent;  ///< never heard, or no more
};

/// Takes part in the tournament: waits for the others to appear, measures, and gathers what the others
/// measured. on_log: a line at each meeting. stop: asked often; true ends at once with what there is. Throws
/// ConfigError where it cannot listen.
ProbeResult probe(const ProbeSpec& spec, const std::function<void(const std::string&)>& on_log,
                  const std::function<bool()>& stop);

/// The result as a table that a topology file reads (key `links`), as CSV matrices of the same, as JSON and
/// back.
std::string links_toml(const ProbeResult& result, const std::vector<std::string>& names);
std::string links_csv(const ProbeResult& result, const std::vector<std::string>& names);
std::string to_json(const ProbeResult& result, const std::vector<std::string>& names);
ProbeResult probe_result(const std::string& json, const std::vector<std::string>& names);

}  // namespace gossamer::node
