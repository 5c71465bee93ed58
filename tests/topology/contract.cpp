// What holds for every row of graph_table().
#include <algorithm>
#include <bit>
#include <set>

#include "gossamer/topology/report.h"
#include "gossamer_test/catch.h"
#include "support.h"

namespace gossamer::topology::test {
namespace {

template <class F>
void for_every_graph(F&& check) {
  for (const GraphKind& kind : graph_table())
    for (const std::size_t peers : kPeers) {
      if (std::string(kind.name) == "hypercube" && !std::has_single_bit(peers)) continue;
      CAPTURE(kind.name, peers);
      check(kind, spec_of(kind.name, peers));
    }
}

void check_matrix(const MixingMatrix& w) {
  const std::size_t n = w.peers();
  const std::vector<double> dense = w.dense();
  for (PeerId i = 0; i < n; ++i) {
    double sum = 0;
    for (PeerId j = 0; j < n; ++j) {
      REQUIRE(dense[i * n + j] >= 0);
      sum += dense[i * n + j];
    }
    REQUIRE(sum == Approx(1).margin(1e-6));
    REQUIRE(dense[i * n + i] == static_cast<double>(w.self_weight(i)));
    REQUIRE(std::is_sorted(w.in(i).begin(), w.in(i).end(),
                           [](const Edge& a, const Edge& b) { return a.peer < b.peer; }));
    REQUIRE(std::is_sorted(w.out(i).begin(), w.out(i).end()));
  }
}

/// W of each round.
std::vector<std::vector<double>> matrices(const GraphSpec& spec) {
  const Schedule schedule = make_schedule(spec);
  std::vector<std::vector<double>> all;
  for (Round t = 0; t < schedule.period(); ++t) all.push_back(schedule.at(t).dense());
  return all;
}

void check_in_matches_out(const MixingMatrix& w) {
  std::set<std::pair<PeerId, PeerId>> received, sent;
  for (PeerId i = 0; i < w.peers(); ++i) {
    for (const Edge& e : w.in(i)) REQUIRE(received.emplace(e.peer, i).second);
    for (const PeerId to : w.out(i)) REQUIRE(sent.emplace(i, to).second);
    REQUIRE_FALSE(received.count({i, i}));
  }
  REQUIRE(received == sent);
}

}  // namespace

TEST_CASE("every graph has rows of non-negative weights that sum to 1") {
  for_every_graph([](const GraphKind&, GraphSpec spec) {
    for (const char* weights : {"metropolis", "lazy", "uniform"}) {
      spec.weights = weights;
      const Schedule schedule = make_schedule(spec);
      REQUIRE(schedule.peers() == spec.peers);
      for (Round t = 0; t < schedule.period(); ++t) check_matrix(schedule.at(t));
    }
  });
}

TEST_CASE("every graph lists the same edges from both of their ends") {
  for_every_graph([](const GraphKind&, const GraphSpec& spec) {
    const Schedule schedule = make_schedule(spec);
    for (Round t = 0; t < schedule.period(); ++t) check_in_matches_out(schedule.at(t));
  });
}

TEST_CASE("every graph is connected and reaches consensus") {
  for_every_graph([](const GraphKind&, const GraphSpec& spec) {
    const SpectralReport report = analyse(make_schedule(spec));
    REQUIRE(report.connected);
    REQUIRE((report.doubly_stochastic || spec.kind == "epidemic"));  // of metropolis weights
    REQUIRE(report.spectral_gap > 0);
    REQUIRE(report.spectral_gap <= 1);
    REQUIRE(report.rounds_to_1e6 >= (spec.peers == 1 ? 0 : 1));
  });
}

TEST_CASE("every graph is the same when made again") {
  for_every_graph([](const GraphKind&, const GraphSpec& spec) {
    const Schedule a = make_schedule(spec), b = make_schedule(spec);
    REQUIRE(a.period() == b.period());
    for (Round t = 0; t < a.period(); ++t) REQUIRE(a.at(t).dense() == b.at(t).dense());
  });
}

TEST_CASE("every graph varies in time only where the table says so") {
  for_every_graph([](const GraphKind& kind, const GraphSpec& spec) {
    const Schedule schedule = make_schedule(spec);
    if (!kind.traits.time_varying) REQUIRE(schedule.period() == 1);
    if (kind.traits.time_varying && spec.peers > spec.degree + 1) REQUIRE(schedule.time_varying());
    REQUIRE(schedule.at(schedule.period()).dense() == schedule.at(0).dense());
  });
}

TEST_CASE("every graph has links that are mutual and edges of a single peer that are none") {
  for_every_graph([](const GraphKind&, const GraphSpec& spec) {
    const Schedule schedule = make_schedule(spec);
    for (PeerId i = 0; i < spec.peers; ++i) {
      const std::vector<PeerId> links = schedule.links(i);
      REQUIRE(links.empty() == (spec.peers == 1));
      for (const PeerId j : links) {
        const std::vector<PeerId> back = schedule.links(j);
        REQUIRE(std::binary_search(back.begin(), back.end(), i));
      }
    }
  });
}

TEST_CASE("every graph kind has a name of its own and one line of help") {
  std::set<std::string> names;
  for (const GraphKind& kind : graph_table()) {
    REQUIRE(names.insert(kind.name).second);
    REQUIRE_FALSE(std::string(kind.help).empty());
    REQUIRE_FALSE(contains(kind.help, "\n"));
  }
  REQUIRE(names == std::set<std::string>{"ring", "torus", "full", "star", "exponential",
                                         "one_peer_exponential", "random_regular", "edges", "file", "tree",
                                         "hypercube", "erdos_renyi", "watts_strogatz", "matching", "base",
                                         "equi_dyn", "hierarchical", "epidemic"});
}

TEST_CASE("every graph is altered by the keys that it reads, and by no others") {
  using Change = std::pair<const char*, void (*)(GraphSpec&)>;
  constexpr Change kChanges[] = {{"weights", [](GraphSpec& s) { s.weights = "lazy"; }},
                                 {"degree", [](GraphSpec& s) { s.degree = s.degree == 2 ? 4 : 2; }},
                                 {"rows", [](GraphSpec& s) { s.rows = 2; }},
                                 {"groups", [](GraphSpec& s) { s.groups = 2; }},
                                 {"probability", [](GraphSpec& s) { s.probability = 0.7; }},
                                 {"period", [](GraphSpec& s) { s.period = 5; }},
                                 {"seed", [](GraphSpec& s) { s.seed = 2; }},
                                 {"directed", [](GraphSpec& s) { s.directed = !s.directed; }}};
  for (const GraphKind& kind : graph_table()) {
    const GraphSpec spec = spec_of(kind.name, 16);
    for (const auto& [key, change] : kChanges) {
      CAPTURE(kind.name, key);
      GraphSpec changed = spec;
      change(changed);
      REQUIRE((matrices(changed) != matrices(spec)) == reads(kind, key));
    }
    CAPTURE(kind.name);
    REQUIRE(reads(kind, "file") == kind.traits.edges_are_in_a_file);
    REQUIRE(reads(kind, "edges") == (kind.traits.edges_are_written && !kind.traits.edges_are_in_a_file));
    GraphSpec without = spec;
    without.edges.clear();
    if (kind.traits.edges_are_written)
      REQUIRE_THROWS_AS(make_schedule(without), GraphError);
    else
      REQUIRE(matrices(without) == matrices(spec));
  }
}

TEST_CASE("a graph stays the same when two peers change places where it says so") {
  for (const GraphKind& kind : graph_table()) {
    CAPTURE(kind.name);
    const GraphSpec spec = spec_of(kind.name, 16);
    bool alike = true;
    for (const std::vector<double>& w : matrices(spec))
      for (const auto& [a, b] : {std::pair{0U, 1U}, std::pair{1U, 6U}, std::pair{4U, 15U}}) {
        const auto other = [a = a, b = b](std::size_t i) { return i == a ? b : i == b ? a : i; };
        for (std::size_t i = 0; i < 16; ++i)
          for (std::size_t j = 0; j < 16; ++j) alike = alike && w[i * 16 + j] == w[other(i) * 16 + other(j)];
      }
    REQUIRE(alike == kind.traits.places_are_alike);
  }
}

TEST_CASE("a graph of a file can be written out as edges") {
  for (const GraphKind& kind : graph_table()) {
    CAPTURE(kind.name);
    REQUIRE((kind.traits.written_as != nullptr) == kind.traits.edges_are_in_a_file);
    if (!kind.traits.written_as) continue;
    const GraphTraits& written = graph_kind(kind.traits.written_as).traits;
    REQUIRE(written.edges_are_written);
    REQUIRE_FALSE(written.edges_are_in_a_file);
  }
}

TEST_CASE("every graph can be drawn") {
  for_every_graph([](const GraphKind&, const GraphSpec& spec) {
    const std::string dot = to_dot(make_schedule(spec), {});
    REQUIRE(contains(dot, "graph gossamer {"));
    REQUIRE(std::count(dot.begin(), dot.end(), '{') == std::count(dot.begin(), dot.end(), '}'));
  });
}

}  // namespace gossamer::topology::test
