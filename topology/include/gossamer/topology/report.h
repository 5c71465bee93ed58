#pragma once
// A SpectralReport tells what a graph will do to a run: spectral gap, rounds to consensus, drawing.
#include <span>
#include <string>
#include <vector>

#include "gossamer/topology/schedule.h"

namespace gossamer::topology {

/// Of one period of the schedule, M = W(T−1)…W(0).
struct SpectralReport {
  bool connected = false;          ///< the union of the period's graphs is (strongly) connected
  bool symmetric = false;          ///< every matrix of the period
  bool doubly_stochastic = false;  ///< every matrix of the period
  std::size_t period = 1;
  std::size_t min_degree = 0, max_degree = 0;  ///< out-degree, over peers and rounds
  /// 1 − |λ₂(M)|^{1/T}: the contraction of the consensus error per round (methods: 1−|λ₂|); 1 where M
  /// averages exactly.
  double spectral_gap = 0;
  /// Rounds until ‖M^k x − x̄‖ ≤ 1e-6 ‖x − x̄‖ for every x (by the largest singular value of the products
  /// off the consensus subspace); 0 for a single peer, −1 where it never comes or not within 10⁷ rounds.
  long rounds_to_1e6 = -1;
};
/// Seconds for 512 peers; the time grows with P³. The weights are taken as what they stand for: a row's
/// rounding to float is undone, and a product that averages but for that rounding counts as exact.
SpectralReport analyse(const Schedule& schedule);

/// ‖I − W‖₂, the largest of the schedule's rounds (methods: β): 0 … 2, 1 where W averages over all at once.
/// Right to a thousandth from below; takes some 100 passes over the edges.
double largest_pull(const Schedule& schedule);

/// How a round follows its matrix: m ← momentum·m + gamma (W − I) x, x ← x + m, m = 0 at first. As it stands
/// x ← W x.
struct Pull {
  double gamma = 1, momentum = 0;
};

/// The worst start's error after k = 0 … rounds rounds, 1 at first; without momentum ‖M^k off the consensus
/// subspace‖₂. Ends early where it is under 1e-7.
std::vector<double> consensus_errors(const Schedule& schedule, std::size_t rounds, const Pull& pull = {});

/// By what factor an error grows a round, in the long run: under 1 where peers come together; where every
/// matrix is doubly stochastic. Of the last half of 512 rounds or 8 periods from a random start; a pass over
/// the edges each. Random rounds may together drive apart what each of them alone draws together.
double pull_growth(const Schedule& schedule, const Pull& pull);

/// Rounds after which errors, as of consensus_errors, stay at 1e-6 or below; beyond their end by the slope of
/// their second half; −1 where that does not fall.
double rounds_to_consensus(std::span<const double> errors);

/// A drawing for a browser: peers on a circle, edges as wide as their weight, one circle for each of the
/// first 16 rounds where the graph varies, and below the curve of `errors` over rounds. peer_names as for
/// to_dot.
std::string to_svg(const Schedule& schedule, std::span<const std::string> peer_names,
                   std::span<const double> errors);

/// Graphviz; peer_names: one for each peer, or none for numbers (else GraphError); edges labelled by weight,
/// undirected where W is symmetric; one cluster per round where time-varying.
std::string to_dot(const Schedule& schedule, std::span<const std::string> peer_names);

}  // namespace gossamer::topology
