// What rounds cost, against sums done by hand.
#include "gossamer/topology/cost.h"

#include <cmath>

#include "gossamer/topology/report.h"
#include "gossamer_test/catch.h"
#include "support.h"

namespace gossamer::topology::test {
namespace {

constexpr double kStep = 0.1;
const std::vector<Part> kWhole{{1, 1e6}};  // 1 MB when the step is done

double seconds_of(const Traffic& traffic, const LinkTable& links, std::size_t staleness = 0) {
  const std::vector<double> step(links.peers(), kStep);
  return round_cost(traffic, step, links, staleness).seconds;
}

}  // namespace

TEST_CASE("a round of gossip is the step and the dearest link") {
  LinkTable links(5, {8e6, 0.02});  // 1 MB takes a second
  const Traffic ring = gossip_traffic(make_schedule(spec_of("ring", 5)), kWhole, {});
  REQUIRE(seconds_of(ring, links) == Approx(kStep + 1 + 0.02));
  links.at(2, 3) = links.at(3, 2) = {2e6, 0.5};
  REQUIRE(seconds_of(ring, links) == Approx(kStep + 4 + 0.5));
  links.at(0, 2) = {1, 1};  // no edge of the ring
  REQUIRE(seconds_of(ring, links) == Approx(kStep + 4 + 0.5));
}

TEST_CASE("the message that a round waits for is named") {
  LinkTable links(4, {8e6, 0});
  links.at(2, 1) = {1e6, 0};
  const std::vector<double> step(4, kStep);
  const Traffic full = gossip_traffic(make_schedule(spec_of("full", 4)), kWhole, {});
  const RoundCost cost = round_cost(full, step, links);
  REQUIRE(cost.from == 2);
  REQUIRE(cost.to == 1);
  REQUIRE(cost.step == kStep);
  const RoundCost alone = round_cost(Traffic(1), step, links);
  REQUIRE(alone.seconds == Approx(kStep));
  REQUIRE(alone.from == alone.to);
}

TEST_CASE("what is slow in one direction only is waited for every other round") {
  // 1 waits for 0's slow message, 0 for 1's fast one: the mean around the cycle.
  LinkTable links(2, {8e6, 0});
  links.at(0, 1) = {8e6, 3};
  const Traffic pair = gossip_traffic(make_schedule(spec_of("ring", 2)), kWhole, {});
  REQUIRE(seconds_of(pair, links) == Approx(kStep + 1 + 1.5));
}

TEST_CASE("parts that are ready early travel while the rest is computed") {
  const LinkTable links(4, {8e6, 0});
  const std::vector<Part> parts{{0.25, 5e5}, {1, 5e5}};
  const Traffic ring = gossip_traffic(make_schedule(spec_of("ring", 4)), parts, {});
  const std::vector<double> step(4, 4.0);
  REQUIRE(round_cost(ring, step, links).seconds == Approx(4.5));  // only the second half is waited for
}

TEST_CASE("messages share an uplink where there is one") {
  LinkTable links(4, {8e6, 0});
  const Traffic full = gossip_traffic(make_schedule(spec_of("full", 4)), kWhole, {});
  REQUIRE(seconds_of(full, links) == Approx(kStep + 1));
  for (PeerId i = 0; i < 4; ++i) links.uplink(i) = 8e6;
  REQUIRE(seconds_of(full, links) == Approx(kStep + 3));
}

TEST_CASE("staleness hides latency") {
  const LinkTable links(4, {8e9, 1});
  const Traffic ring = gossip_traffic(make_schedule(spec_of("ring", 4)), kWhole, {});
  const std::vector<double> step(4, 0.3);
  REQUIRE(round_cost(ring, step, links, 0).seconds == Approx(1.301));
  REQUIRE(round_cost(ring, step, links, 1).seconds == Approx(1.301 / 2));
  REQUIRE(round_cost(ring, step, links, 8).seconds == Approx(0.3));
}

TEST_CASE("reduces cost what their formulas say") {
  const LinkTable links(5, {8e6, 0.02});
  REQUIRE(seconds_of(ring_traffic(5, kWhole, {}), links) == Approx(kStep + 8 * (0.2 + 0.02)));
  REQUIRE(seconds_of(slice_traffic(5, kWhole, {}), links) == Approx(kStep + 2 * (0.2 + 0.02)));
  REQUIRE(seconds_of(halving_traffic(5, kWhole, {}), links) ==
          Approx(kStep + 2 * (1 + 0.02) + 2 * (0.5 + 0.02) + 2 * (0.25 + 0.02)));
  REQUIRE(seconds_of(halving_traffic(8, kWhole, {}), LinkTable(8, {8e6, 0.02})) ==
          Approx(kStep + 2 * 7.0 / 8 + 6 * 0.02));
  REQUIRE(seconds_of(tree_traffic(5, kWhole, {}), links) == Approx(kStep + 4 * (1 + 0.02)));  // 3 -> 2 -> 0
  REQUIRE(seconds_of(butterfly_traffic(8, kWhole, {}), LinkTable(8, {8e6, 0.02})) ==
          Approx(kStep + 3 * (1 + 0.02)));
  REQUIRE(seconds_of(butterfly_traffic(1, kWhole, {}), LinkTable(1, {1, 1})) == Approx(kStep));
  REQUIRE(seconds_of(ring_traffic(1, kWhole, {}), LinkTable(1, {1, 1})) == Approx(kStep));
}

TEST_CASE("a varying graph costs the mean of its rounds") {
  const LinkTable links(8, {8e6, 0});
  const Schedule schedule = make_schedule(spec_of("one_peer_exponential", 8));
  REQUIRE(seconds_of(gossip_traffic(schedule, kWhole, {}), links) == Approx(kStep + 1));
}

TEST_CASE("rare messages are followed for as long as their waits take to settle") {
  LinkTable links(8, {8e6, 0.01});
  for (PeerId i = 0; i < 8; ++i)
    for (PeerId j = 0; j < 8; ++j) links.at(i, j).bandwidth = 8e6 / (1 + 3 * ((i + j) % 5) + i * j % 3);
  const Traffic busy = gossip_traffic(make_schedule(spec_of("one_peer_exponential", 8)), kWhole, {});
  Traffic rare, repeated;
  for (const auto& round : busy) {
    rare.insert(rare.end(), 3, {});
    rare.push_back(round);
  }
  for (std::size_t k = 0; k < 20; ++k) repeated.insert(repeated.end(), rare.begin(), rare.end());
  REQUIRE(seconds_of(rare, links) == Approx(seconds_of(repeated, links)).epsilon(0.01));
}

TEST_CASE("frames add their headers") {
  const Framing framing{100, 1000};
  REQUIRE(framing.on_wire(0) == 100);
  REQUIRE(framing.on_wire(1000) == 1100);
  REQUIRE(framing.on_wire(1001) == 1201);
  REQUIRE(Framing{}.on_wire(1001) == 1001);
}

TEST_CASE("the delay to consensus is that of the spectrum") {
  for (const std::size_t peers : {4, 8, 16}) {
    CAPTURE(peers);
    const Schedule ring = make_schedule(spec_of("ring", peers));
    const double lambda = 1 - analyse(ring).spectral_gap;
    REQUIRE(consensus_delay(ring) == Approx(1 / (1 - lambda * lambda)).epsilon(1e-5));
    REQUIRE(consensus_delay(make_schedule(spec_of("full", peers))) == Approx(1));
    const Schedule one_peer = make_schedule(spec_of("one_peer_exponential", peers));
    REQUIRE(consensus_delay(one_peer) == Approx(static_cast<double>(one_peer.period())));
  }
  REQUIRE(consensus_delay(make_schedule(spec_of("ring", 1))) == 1);
  REQUIRE(std::isinf(consensus_delay(Schedule({MixingMatrix({{}, {}})}))));
}

TEST_CASE("a share of every round's matrix is followed") {
  const Schedule schedule = make_schedule(spec_of("one_peer_exponential", 4));
  const Schedule half = damped(schedule, std::vector<double>{1, 0.5});
  REQUIRE(half.at(0).in(0)[0].weight == schedule.at(0).in(0)[0].weight);
  REQUIRE(half.at(1).in(0)[0].weight == schedule.at(1).in(0)[0].weight / 2);
}

TEST_CASE("pairs at random agree as Boyd and others say") {
  // Complete graph of P: a pairing leaves 1 − 1/(P − 1) of the mean square.
  for (const std::size_t peers : {2, 4, 9}) {
    std::vector<double> rates(peers * peers, 0);
    for (std::size_t i = 0; i < peers; ++i)
      for (std::size_t j = 0; j < peers; ++j)
        if (i != j) rates[i * peers + j] = 2.0 / static_cast<double>(peers * (peers - 1));  // one a round
    const double left = 1 - 1 / static_cast<double>(peers - 1);
    REQUIRE(pair_contraction(peers, rates) == Approx(left).margin(1e-12));
    for (double& r : rates) r *= 3;
    REQUIRE(pair_contraction(peers, rates) == Approx(left * left * left).margin(1e-12));
  }
  REQUIRE(pair_contraction(3, std::vector<double>{0, 1, 0, 1, 0, 0, 0, 0, 0}) ==
          Approx(1));  // 2 meets nobody
  REQUIRE(pair_contraction(2, std::vector<double>(4, 0)) == 1);
}

TEST_CASE("momentum towards the neighbours is a heavy ball") {
  // A mode of eigenvalue λ goes by z² = (1 + β − γ (1 − λ)) z − β.
  const Schedule ring = make_schedule(spec_of("ring", 8));
  const Pull pull{0.2, 0.3};
  const double lambda = 1 - analyse(ring).spectral_gap, beta = pull.momentum;
  const double a = 1 + beta - pull.gamma * (1 - lambda);
  const double root = (a + std::sqrt(a * a - 4 * beta)) / 2;
  const std::vector<double> errors = consensus_errors(ring, 60, pull);
  REQUIRE(errors[60] / errors[59] == Approx(root).epsilon(1e-4));
  REQUIRE(rounds_to_consensus(errors) == Approx(60 + std::log(1e-6 / errors[60]) / std::log(root)).margin(1));
  const std::vector<double> plain = consensus_errors(ring, 200);
  REQUIRE(rounds_to_consensus(plain) == static_cast<double>(analyse(ring).rounds_to_1e6));
  REQUIRE(rounds_to_consensus(std::vector<double>{1, 1, 1}) == -1);
  REQUIRE(consensus_delay(ring, pull) < consensus_delay(damped(ring, pull.gamma)));
}

TEST_CASE("rounds grow mildly with the delay, more so on heterogeneous data") {
  REQUIRE(round_growth(1, 0) == 1);
  REQUIRE(round_growth(4, 0) == Approx(1.13));
  REQUIRE(round_growth(4, 1) == Approx(1.43));
}

}  // namespace gossamer::topology::test
