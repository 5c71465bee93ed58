// Spectra against closed forms, and drawings.
#include "gossamer/topology/report.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "gossamer_test/catch.h"
#include "support.h"

namespace gossamer::topology::test {
namespace {

constexpr double kPi = std::numbers::pi;

SpectralReport report_of(const std::string& kind, std::size_t peers) {
  return analyse(make_schedule(spec_of(kind, peers)));
}

/// Rounds until lambda^rounds ≤ 1e-6.
long rounds_at(double lambda) { return static_cast<long>(std::ceil(std::log(1e-6) / std::log(lambda))); }

/// Σ_j W_ij x_j, `rounds` times.
std::vector<double> mixed(const Schedule& schedule, std::vector<double> x, long rounds) {
  const std::size_t n = schedule.peers();
  for (long r = 0; r < rounds; ++r) {
    const std::vector<double> w = schedule.at(static_cast<Round>(r)).dense();
    std::vector<double> next(n);
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j) next[i] += w[i * n + j] * x[j];
    x = next;
  }
  return x;
}

double distance(const std::vector<double>& x, double value) {
  double sum = 0;
  for (const double v : x) sum += (v - value) * (v - value);
  return std::sqrt(sum);
}

/// The eigenvalues of a round of one_peer_exponential are (1 + e^{iθ})/2, of modulus |cos(πk 2^t / P)|.
double one_peer_contraction(std::size_t peers, std::size_t period, long rounds) {
  double worst = 0;
  for (std::size_t k = 1; k < peers; ++k) {
    double product = 1;
    for (long r = 0; r < rounds; ++r)
      product *= std::abs(std::cos(kPi * static_cast<double>(k << (static_cast<std::size_t>(r) % period)) /
                                   static_cast<double>(peers)));
    worst = std::max(worst, product);
  }
  return worst;
}

}  // namespace

TEST_CASE("the spectral gap of a ring is known") {
  for (const std::size_t peers : {4, 5, 7, 8, 12, 16, 33, 100}) {
    CAPTURE(peers);
    const double lambda = 1.0 / 3 + 2.0 / 3 * std::cos(2 * kPi / static_cast<double>(peers));
    const SpectralReport report = report_of("ring", peers);
    REQUIRE(report.spectral_gap == Approx(1 - lambda).margin(1e-6));
    REQUIRE(std::abs(report.rounds_to_1e6 - rounds_at(lambda)) <= 1);
    REQUIRE(report.symmetric);
    REQUIRE(report.min_degree == 2);
    REQUIRE(report.max_degree == 2);
  }
}

TEST_CASE("how far a round may pull is the largest eigenvalue of I - W") {
  const auto pull_of = [](const char* kind, std::size_t peers) {
    GraphSpec spec;
    spec.kind = kind;
    spec.peers = peers;
    return largest_pull(make_schedule(spec));
  };
  REQUIRE(pull_of("ring", 1) == Approx(0).margin(1e-6));
  for (const std::size_t peers : {2, 8, 33}) REQUIRE(pull_of("full", peers) == Approx(1).epsilon(1e-3));
  for (const std::size_t peers : {3, 8, 64}) {
    const double least = std::cos(2 * kPi * static_cast<double>(peers / 2) / static_cast<double>(peers));
    REQUIRE(pull_of("ring", peers) == Approx(2.0 / 3 * (1 - least)).epsilon(1e-3));
  }
  REQUIRE(pull_of("star", 9) == Approx(1).epsilon(1e-3));  // Laplacian: 0, 1 and P, over P
  REQUIRE(pull_of("hypercube", 16) == Approx(8.0 / 5).epsilon(1e-3));
}

TEST_CASE("a full graph averages in one round") {
  for (const std::size_t peers : {2, 3, 4, 5, 7, 8, 12, 16, 33}) {
    CAPTURE(peers);
    const SpectralReport report = report_of("full", peers);
    REQUIRE(report.spectral_gap == 1);
    REQUIRE(report.rounds_to_1e6 == 1);
    REQUIRE(report.max_degree == peers - 1);
  }
}

TEST_CASE("the spectral gap of a star is one over its peers") {
  for (const std::size_t peers : {3, 4, 8, 33}) {
    CAPTURE(peers);
    const SpectralReport report = report_of("star", peers);
    REQUIRE(report.spectral_gap == Approx(1.0 / static_cast<double>(peers)).margin(1e-6));
    REQUIRE(report.min_degree == 1);
    REQUIRE(report.max_degree == peers - 1);
  }
}

TEST_CASE("the spectral gaps of tori and exponential graphs are known") {
  REQUIRE(report_of("torus", 16).spectral_gap == Approx(0.4).margin(1e-6));
  // Ying et al. 2021: 2 / (1 + ⌈log₂ P⌉) for even P
  REQUIRE(report_of("exponential", 8).spectral_gap == Approx(2.0 / 4).margin(1e-6));
  REQUIRE(report_of("exponential", 12).spectral_gap == Approx(2.0 / 5).margin(1e-6));
  REQUIRE(report_of("exponential", 64).spectral_gap == Approx(2.0 / 7).margin(1e-6));
  REQUIRE_FALSE(report_of("exponential", 8).symmetric);
}

TEST_CASE("one_peer_exponential averages exactly for powers of two") {
  for (const std::size_t peers : {2, 4, 8, 16, 64}) {
    CAPTURE(peers);
    const Schedule schedule = make_schedule(spec_of("one_peer_exponential", peers));
    const SpectralReport report = analyse(schedule);
    REQUIRE(report.spectral_gap == 1);
    REQUIRE(report.rounds_to_1e6 == static_cast<long>(schedule.period()));
    std::vector<double> x(peers);
    x[1] = 1;
    REQUIRE(mixed(schedule, x, report.rounds_to_1e6) ==
            std::vector<double>(peers, 1.0 / static_cast<double>(peers)));
  }
}

TEST_CASE("one_peer_exponential contracts for other sizes") {
  for (const std::size_t peers : {3, 5, 6, 7, 12, 33}) {
    CAPTURE(peers);
    const SpectralReport report = report_of("one_peer_exponential", peers);
    const double per_period = one_peer_contraction(peers, report.period, static_cast<long>(report.period));
    REQUIRE(report.spectral_gap ==
            Approx(1 - std::pow(per_period, 1.0 / static_cast<double>(report.period))).margin(1e-6));
    REQUIRE(report.doubly_stochastic);
    REQUIRE_FALSE(report.symmetric);
    // Rounds are counted one by one, not in periods.
    REQUIRE(one_peer_contraction(peers, report.period, report.rounds_to_1e6) <= 1.00001e-6);
    REQUIRE(one_peer_contraction(peers, report.period, report.rounds_to_1e6 - 1) > 1e-6);
  }
}

TEST_CASE("weights that are not doubly stochastic reach the Perron average") {
  GraphSpec spec = spec_of("star", 6);
  spec.weights = "uniform";
  const Schedule schedule = make_schedule(spec);
  const SpectralReport report = analyse(schedule);
  REQUIRE_FALSE(report.doubly_stochastic);
  REQUIRE(report.rounds_to_1e6 > 1);
  // π is proportional to 1 + degree: 6 for the hub, 2 for each leaf
  const std::vector<double> starts[] = {{1, 0, 0, 0, 0, 0}, {0, 1, 0, 0, 0, 0}, {0, 1, -1, 0, 0, 0}};
  const double averages[] = {6.0 / 16, 2.0 / 16, 0};
  for (int s = 0; s < 3; ++s)
    REQUIRE(distance(mixed(schedule, starts[s], report.rounds_to_1e6), averages[s]) <=
            1.1e-6 * distance(starts[s], averages[s]));
  // The slowest mode is the difference of hub and leaves: λ = 1/6 + 1/2 − 1, or of two leaves: λ = 1/2.
  REQUIRE(report.spectral_gap == Approx(0.5).margin(1e-6));
  REQUIRE(report.rounds_to_1e6 == rounds_at(0.5));
}

TEST_CASE("a single peer is a consensus") {
  const SpectralReport report = report_of("ring", 1);
  REQUIRE(report.connected);
  REQUIRE(report.spectral_gap == 1);
  REQUIRE(report.rounds_to_1e6 == 0);
  REQUIRE(report.max_degree == 0);
}

TEST_CASE("what never averages is reported") {
  SECTION("vectors that go round and round") {
    const SpectralReport cycle =
        analyse(make_schedule(edges_spec(3, {{0, 1, 1.0F}, {1, 2, 1.0F}, {2, 0, 1.0F}}, "explicit", true)));
    REQUIRE(cycle.connected);
    REQUIRE(cycle.spectral_gap == 0);
    REQUIRE(cycle.rounds_to_1e6 == -1);
    REQUIRE(analyse(make_schedule(edges_spec(2, {{0, 1, 1.0F}}, "explicit", false))).rounds_to_1e6 == -1);
  }
  SECTION("peers that are apart") {
    const SpectralReport apart = analyse(Schedule({MixingMatrix({{{1, 0.5F}}, {{0, 0.5F}}, {}})}));
    REQUIRE_FALSE(apart.connected);
    REQUIRE(apart.spectral_gap == 0);
    REQUIRE(apart.rounds_to_1e6 == -1);
  }
  SECTION("more rounds than are counted") {
    const SpectralReport slow = analyse(make_schedule(edges_spec(2, {{0, 1, 1e-7F}}, "explicit", false)));
    REQUIRE(slow.connected);
    REQUIRE(slow.spectral_gap == Approx(2e-7).epsilon(0.5));
    REQUIRE(slow.rounds_to_1e6 == -1);
  }
}

TEST_CASE("a broadcast is a consensus though not strongly connected") {
  const SpectralReport report = analyse(Schedule({MixingMatrix({{}, {{0, 0.9F}}})}));
  REQUIRE_FALSE(report.connected);
  REQUIRE(report.spectral_gap == Approx(0.9));
  REQUIRE(report.rounds_to_1e6 == 6);
}

TEST_CASE("rounds that differ are counted in order") {
  // Peers 0 and 1 average, then 1 and 2: λ₂ of the product is 1/4, and never exact.
  const MixingMatrix first({{{1, 0.5F}}, {{0, 0.5F}}, {}}), second({{}, {{2, 0.5F}}, {{1, 0.5F}}});
  const SpectralReport report = analyse(Schedule({first, second}));
  REQUIRE(report.connected);
  REQUIRE(report.symmetric);
  REQUIRE(report.period == 2);
  REQUIRE(report.min_degree == 0);
  REQUIRE(report.spectral_gap == Approx(0.5).margin(1e-6));
  REQUIRE(report.rounds_to_1e6 > 15);
  REQUIRE(report.rounds_to_1e6 < 25);
}

TEST_CASE("a large slow graph is analysed without counting its rounds one by one") {
  const SpectralReport ring = report_of("ring", 200);
  REQUIRE(ring.rounds_to_1e6 == Approx(std::log(1e-6) / std::log(1 - ring.spectral_gap)).epsilon(1e-3));
}

TEST_CASE("a drawing of a symmetric graph is undirected") {
  const std::vector<std::string> names{"alpha", "be\"ta", "ga\\mma"};
  const std::string dot = to_dot(make_schedule(spec_of("full", 3)), names);
  REQUIRE(contains(dot, "graph gossamer {\n"));
  REQUIRE_FALSE(contains(dot, "digraph"));
  REQUIRE(contains(dot, "p0 [label=\"alpha\"];"));
  REQUIRE(contains(dot, "p1 [label=\"be\\\"ta\"];"));
  REQUIRE(contains(dot, "p2 [label=\"ga\\\\mma\"];"));
  REQUIRE(contains(dot, "p0 -- p1 [label=\"0.3333\"];"));
  REQUIRE_FALSE(contains(dot, "p1 -- p0"));
}

TEST_CASE("a drawing of a directed graph has arrows from the sender") {
  const std::string dot =
      to_dot(make_schedule(edges_spec(3, {{0, 1, {}}, {1, 2, {}}, {2, 0, {}}}, "uniform", true)), {});
  REQUIRE(contains(dot, "digraph gossamer {\n"));
  REQUIRE(contains(dot, "p0 -> p1 [label=\"0.5\"];"));
  REQUIRE_FALSE(contains(dot, "p1 -> p0"));
}

TEST_CASE("a drawing of a varying graph has a cluster per round") {
  const std::string dot = to_dot(make_schedule(spec_of("one_peer_exponential", 4)), {});
  REQUIRE(contains(dot, "subgraph cluster_0 {\n    label=\"round 0\";"));
  REQUIRE(contains(dot, "subgraph cluster_1 {"));
  REQUIRE_FALSE(contains(dot, "cluster_2"));
  REQUIRE(contains(dot, "r0_p0 -> r0_p1 "));
  REQUIRE(contains(dot, "r1_p0 -> r1_p2 [label=\"0.5\", dir=none];"));  // round 1 is symmetric: 0-2 and 1-3
  REQUIRE_FALSE(contains(dot, "r1_p2 -> r1_p0"));
}

TEST_CASE("a drawing needs a name for each peer") {
  const std::vector<std::string> names{"alpha"};
  REQUIRE(
      contains(error_of([&] { to_dot(make_schedule(spec_of("ring", 3)), names); }), "1 names for 3 peers"));
}

TEST_CASE("the consensus error falls as the spectrum says") {
  const std::vector<double> ring = consensus_errors(make_schedule(spec_of("ring", 8)), 50);
  const double lambda = 1.0 / 3 + 2.0 / 3 * std::cos(kPi / 4);
  REQUIRE(ring.size() == 51);
  for (std::size_t k = 0; k < ring.size(); ++k)
    REQUIRE(ring[k] == Approx(std::pow(lambda, static_cast<double>(k))).epsilon(1e-4));
  const std::vector<double> base = consensus_errors(make_schedule(spec_of("base", 12)), 50);
  REQUIRE(base.size() == make_schedule(spec_of("base", 12)).period() + 1);  // exact: ends there
  REQUIRE(consensus_errors(make_schedule(spec_of("full", 1)), 5).back() < 1e-7);
}

TEST_CASE("pulls with momentum draw peers of a ring together, and may drive random pairs apart") {
  const Schedule ring = make_schedule(spec_of("ring", 8));
  REQUIRE(pull_growth(ring, {1, 0}) == Approx(1.0 / 3 + 2.0 / 3 * std::cos(kPi / 4)).epsilon(1e-4));
  REQUIRE(pull_growth(ring, {1, 0.9}) < 0.96);  // heavy ball: √0.9
  REQUIRE(pull_growth(ring, {1, 0.9}) > 0.94);
  for (const std::size_t peers : {2, 3, 4, 5, 8, 16}) {
    GraphSpec spec = spec_of("matching", peers);
    for (spec.seed = 1; spec.seed <= 10; ++spec.seed)
      REQUIRE(pull_growth(make_schedule(spec), {0.6, 0.5}) < 1);
  }
  REQUIRE(pull_growth(make_schedule(spec_of("matching", 2)), {1, 0.9}) < 0.96);
  for (const std::size_t peers : {3, 5, 6, 16})
    REQUIRE(pull_growth(make_schedule(spec_of("matching", peers)), {1, 0.9}) > 1.01);
  REQUIRE(pull_growth(make_schedule(spec_of("full", 1)), {1, 0.9}) == 0);
}

TEST_CASE("a picture shows every peer, edge and round") {
  const auto count = [](const std::string& text, const std::string& part) {
    std::size_t found = 0;
    for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
    return found;
  };
  const Schedule ring = make_schedule(spec_of("ring", 5)), varying = make_schedule(spec_of("base", 12));
  const std::vector<std::string> names{"a", "b<", "c&", "d", "e"};
  const std::vector<double> errors{1, 0.5, 0.25};
  const std::string svg = to_svg(ring, names, errors);
  REQUIRE(count(svg, "<circle ") == 5);
  REQUIRE(count(svg, "stroke=\"#456\"") == 5);
  REQUIRE(contains(svg, ">b&lt;<"));
  REQUIRE(contains(svg, ">c&amp;<"));
  REQUIRE(count(to_svg(varying, {}, errors), ">round ") == varying.period());
  REQUIRE(
      contains(error_of([&] { to_svg(ring, std::span(names).first(2), errors); }), "2 names for 5 peers"));
}

}  // namespace gossamer::topology::test
