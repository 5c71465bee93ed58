// What a run is for those of its peers that are there: any graph, any method, any of eight peers.
#include "view_lab.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <random>

#include "courses.h"
#include "plan.h"

using namespace gossamer;
using namespace gossamer::node;
using namespace gossamer::node::test;
using gossamer::test::says;

namespace {

constexpr std::size_t kPeers = 8;

/// At least one of eight.
Members drawn_members(std::mt19937_64& random) {
  std::vector<PeerId> peers;
  while (peers.empty())
    for (PeerId p = 0; p < kPeers; ++p)
      if (random() % 8 < 5) peers.push_back(p);
  return named(peers);
}

/// Eight peers with different batches, on the first codec, optimiser and staleness that is sound; none where
/// none is.
std::optional<Prepared> sound_run(const Settings& graph, std::string_view method) {
  for (const char* staleness : {"0", "unbounded"})
    for (const char* codec : {"onebit_scaled", "topk:density=0.2", "dense"}) try {
        Job job = small_job(Settings{"peers=8", "exchange.method=" + std::string(method),
                                     fmt::format("exchange.codec={}", codec), "optimizer.kind=sgd",
                                     fmt::format("exchange.staleness={}", staleness), "data.rows=1024",
                                     "run.rounds=0", "run.epochs=1"} +
                            graph);
        return prepare(with_batches(std::move(job), {4, 8, 4, 8, 12, 4, 8, 4}));
      } catch (const ConfigError&) {
      }
  return std::nullopt;
}

/// Every kind, as it is by default and in some other ways.
std::vector<Settings> all_graphs() {
  std::vector<Settings> all;
  for (const auto& kind : topology::graph_table()) {
    if (kind.traits.edges_are_written) continue;
    const Settings plain{"graph.kind=" + std::string(kind.name)};
    all.push_back(plain);
    const std::string_view reads = kind.reads;
    if (reads.find("degree") != reads.npos) all.push_back(plain + Settings{"graph.degree=4"});
    if (reads.find("directed") != reads.npos) all.push_back(plain + Settings{"graph.directed=false"});
    if (reads.find("groups") != reads.npos) all.push_back(plain + Settings{"graph.groups=4"});
    if (reads.find("rows") != reads.npos) all.push_back(plain + Settings{"graph.rows=2"});
    if (reads.find("probability") != reads.npos) all.push_back(plain + Settings{"graph.probability=0.4"});
  }
  all.push_back({"graph.kind=ring", "graph.weights=lazy"});
  all.push_back({"graph.kind=hypercube", "graph.weights=lazy"});
  all.push_back({"graph.kind=hypercube", "graph.weights=uniform"});
  return all;
}

}  // namespace

TEST_CASE("any of the peers go on, whatever graph and method are sound together") {
  std::mt19937_64 random(1);
  std::size_t views = 0, runs = 0;
  for (const Settings& graph : all_graphs())
    for (const auto& method : method_table()) {
      const auto base = sound_run(graph, method.name);
      if (!base) continue;
      INFO(fmt::format("{} {} {}", fmt::join(graph, " "), method.name, base->job.exchange.codec));
      for (int n = 0; n < 3; ++n) {
        const Members members =
            n == 0 ? named({static_cast<PeerId>(random() % kPeers)}) : drawn_members(random);
        const ViewRun view = run_of_view(*base, members);
        check_view(*base, members, view);
        if (++views % 7 != 0) continue;
        check_runs(view, 6);
        ++runs;
      }
    }
  CHECK(views > 500);
  CHECK(runs > 80);
}

TEST_CASE("every method runs alone, and learns, whatever its codec") {
  for (const auto& method : method_table()) {
    std::size_t runs = 0;
    INFO(method.name);
    for (const char* codec : kCodecs)
      for (const char* staleness : {"0", "2", "unbounded"})
        for (const char* graph : {"full", "tree"}) try {
            const Prepared base = prepare(
                small_job({"peers=8", "exchange.method=" + std::string(method.name), "optimizer.kind=sgd",
                           fmt::format("exchange.codec={}", codec), fmt::format("graph.kind={}", graph),
                           fmt::format("exchange.staleness={}", staleness)}));
            const ViewRun view = run_of_view(base, {"peer5"});
            CHECK(view.warning.empty());
            check_runs(view, 20);
            ++runs;
          } catch (const ConfigError&) {
          }
    CHECK(runs > 0);
  }
}

TEST_CASE("the generated graph of the new number is taken where there is one, else what is left of the old") {
  const auto view = [](const Settings& graph, const std::vector<PeerId>& members) {
    return run_of_view(
        prepare(small_job(Settings{"peers=8", "exchange.method=dpsgd", "exchange.codec=dense"} + graph)),
        named(members));
  };
  const auto links = [](const ViewRun& v, PeerId peer) { return v.prepared->plan->schedule.links(peer); };
  using Peers = std::vector<PeerId>;

  const ViewRun ring = view({"graph.kind=ring"}, {0, 2, 3, 6, 7});
  CHECK(ring.warning.empty());
  for (PeerId p = 0; p < 5; ++p) CHECK(links(ring, p).size() == 2);
  const ViewRun star = view({"graph.kind=star"}, {1, 4, 5, 6});
  CHECK(star.warning.empty());
  CHECK(links(star, 0) == Peers{1, 2, 3});
  CHECK(view({"graph.kind=hypercube"}, {1, 2, 5, 6}).warning.empty());

  const ViewRun cube = view({"graph.kind=hypercube"}, {0, 1, 2, 3, 5});
  CHECK(cube.warning ==
        "graph 'hypercube' of 5 peers does not do: they keep the edges among them that they had");
  CHECK(links(cube, 0) == Peers{1, 2});
  CHECK(links(cube, 1) == Peers{0, 3, 4});
  // of 0, 3, 5 and 6 no two differ in one bit only
  const ViewRun corners = view({"graph.kind=hypercube"}, {0, 3, 5});
  CHECK(corners.warning ==
        "graph 'hypercube' of 3 peers does not do: they keep the edges among them that they had. the graph "
        "falls apart into {peer0}, {peer3} and {peer5}; these are joined by peer0 - peer3, peer3 - peer5");
  CHECK(links(corners, 1) == Peers{0, 2});
  CHECK(corners.prepared->bridges.empty());
  CHECK(view({"graph.kind=torus", "graph.rows=2"}, {0, 1, 2, 3, 4, 5, 6}).warning != "");
  CHECK(view({"graph.kind=torus"}, {0, 1, 2, 3, 4, 5, 6}).warning.empty());
  CHECK(view({"graph.kind=random_regular", "graph.degree=3"}, {0, 1, 2, 3, 4, 5}).warning.empty());
  CHECK(view({"graph.kind=random_regular", "graph.degree=3"}, {0, 1, 2, 3, 4}).warning != "");

  const ViewRun reduce = view({"graph.kind=hypercube", "exchange.method=allreduce"}, {0, 1, 2, 3, 5, 6});
  CHECK(says(reduce.warning, "an edge joins every two of them"));
  check_runs(reduce, 5);
  const ViewRun waits = view({"graph.kind=ring", "exchange.backup=1", "optimizer.kind=sgd"}, {2, 5});
  CHECK(waits.warning == "exchange.backup is 0 in place of 1, as some peer hears no more than 1");
  check_runs(waits, 5);
}

TEST_CASE("of listed graphs peers are lost with their edges, and nothing is added") {
  const auto base = [](const char* edges, const Settings& more) {
    return prepare(small_job(Settings{"peers=6", "exchange.method=dpsgd", "exchange.codec=dense",
                                      "graph.kind=edges", std::string("graph.edges=") + edges} +
                             more));
  };
  const char* const kPath = "[[0,1],[1,2],[2,3],[3,4],[4,5]]";
  const Settings both{"graph.directed=false"};
  const Prepared path = base(kPath, both);
  CHECK(run_of_view(path, named({1, 2, 3, 4})).warning.empty());
  const ViewRun torn = run_of_view(path, named({0, 1, 3, 5}));
  CHECK(torn.warning ==
        "the graph falls apart into {peer0, peer1}, {peer3} and {peer5}, which learn apart from each other");
  CHECK(torn.prepared->plan->schedule.links(0) == std::vector<PeerId>{1});
  CHECK(torn.prepared->bridges == std::vector<std::pair<PeerId, PeerId>>{{0, 2}, {2, 3}});
  CHECK(torn.prepared->links_of(2) == std::vector<PeerId>{0, 3});
  check_view(path, named({0, 1, 3, 5}), torn);
  for (const char* staleness : {"0", "unbounded"}) {
    const Prepared other = base(kPath, both + Settings{std::string("exchange.staleness=") + staleness});
    check_runs(run_of_view(other, named({0, 1, 3, 5})), 8);
  }
  CHECK(refusal_of([&] {
          run_of_view(base(kPath, both + Settings{"exchange.method=relay_sum"}), named({0, 1, 3}));
        }).starts_with("3 of 6 peers are there (peer0, peer1, peer3), and cannot go on by themselves: "));

  // weights: what a lost peer had stays with its neighbours, so that W stays symmetric
  const Settings weighted = both + Settings{"graph.weights=explicit"};
  const ViewRun light =
      run_of_view(base("[[0,1,0.2],[1,2,0.3],[2,3,0.1],[3,4,0.4],[4,5,0.5],[5,0,0.2]]", weighted),
                  named({0, 1, 2, 3, 4}));
  const topology::MixingMatrix& w = light.prepared->plan->schedule.at(0);
  CHECK(light.warning.empty());
  CHECK(w.symmetric());
  CHECK(w.doubly_stochastic());
  CHECK(w.self_weight(0) == 0.8f);
  CHECK(w.in(3)[1].weight == 0.4f);

  // one way: in-degrees where the method goes with these, else both ways
  const char* const kCycle = "[[0,1],[1,2],[2,3],[3,4],[4,5],[5,0],[4,0]]";
  const Settings one_way{"graph.weights=uniform", "exchange.method=push_sum"};
  const ViewRun cycle = run_of_view(base(kCycle, one_way), named({0, 1, 2, 3, 4}));
  CHECK(cycle.warning.empty());
  CHECK(cycle.prepared->plan->schedule.at(0).out(1).size() == 1);
  const ViewRun cut = run_of_view(base(kCycle, one_way), named({0, 1, 2, 4, 5}));
  CHECK(says(cut.warning, "both ways"));
  CHECK(cut.prepared->plan->schedule.at(0).symmetric());
  check_runs(cut, 5);
  const ViewRun rounds =
      run_of_view(base("[[0,1],[1,2],[2,3],[3,4],[4,5],[5,0]]", {}), named({0, 1, 2, 4, 5}));
  CHECK(says(rounds.warning, "both ways"));
  CHECK(rounds.prepared->plan->schedule.at(0).doubly_stochastic());
}

TEST_CASE("a graph that a file holds goes on as listed edges") {
  const gossamer::test::Folder folder;
  const std::string edges =
      folder.write("edges.txt", "peer0 peer1\npeer1 peer2\npeer2 peer3\npeer3 peer0\npeer0 peer2\n");
  const std::string job = folder.write("job.toml", std::string("peers = 4") + kSmallJob);
  const Prepared base =
      prepare(load_job(job, Settings{"graph.kind=file", "graph.file=" + edges, "graph.directed=false"}));
  const ViewRun view = run_of_view(base, named({0, 2, 3}));
  CHECK(view.warning.empty());
  CHECK(view.prepared->plan->schedule.links(0) == std::vector<PeerId>{1, 2});
  check_view(base, named({0, 2, 3}), view);
  check_runs(view, 5);
}

TEST_CASE("what names peers follows them") {
  Job job = small_job({"peers=5", "exchange.method=dpsgd", "exchange.codec=dense",
                       "exchange.aggregate=samples", "sim.slow=[\"peer1=3\", \"peer4=2\"]",
                       "sim.attackers=[\"peer3=noise:1\"]", "graph.kind=full"});
  job.links = {{1, 2, 1e6, {}}, {0, 4, 2e6, {}}};
  job.sim.pause = {{"peer1", 1, 1}, {"peer2", 1, 1}};
  job.sim.cut = {{"peer0>peer4", 1, 2}, {"peer1>peer4", 1, 2}};
  const Prepared base = prepare(with_batches(job, {2, 4, 6, 8, 10}));
  const ViewRun view = run_of_view(base, named({0, 2, 4}));
  const Job& cut = view.prepared->job;
  CHECK(cut.sim.slow == std::vector<std::pair<std::string, double>>{{"peer4", 2}});
  CHECK(cut.sim.attackers.empty());
  CHECK(cut.sim.pause.size() == 1);
  REQUIRE(cut.sim.cut.size() == 1);
  CHECK(cut.sim.cut[0].where == "peer0>peer4");
  REQUIRE(cut.links.size() == 1);
  CHECK(cut.links[0].b == 2);
  CHECK(view.prepared->plan->share[2] == 10.0 / 18);
  check_view(base, named({0, 2, 4}), view);
  check_runs(view, 5);
  CHECK(run_of_view(base, named({0, 2, 4})).prepared->hello.job_hash == view.prepared->hello.job_hash);
  CHECK(run_of_view(base, named({0, 2, 3})).prepared->hello.job_hash != view.prepared->hello.job_hash);
  CHECK(says(refusal_of([&] { run_of_view(base, {"peer2", "peer0"}); }), "in the job's order"));
  CHECK(says(refusal_of([&] { run_of_view(base, {}); }), "expected at least one"));
}

TEST_CASE("rounds, samples and rates are those of so many peers") {
  const auto view = [](const Settings& more) {
    return run_of_view(prepare(small_job(Settings{"peers=8", "exchange.method=dpsgd", "exchange.codec=dense",
                                                  "data.rows=640", "run.rounds=0", "run.epochs=3"} +
                                         more)),
                       named({0, 4, 5, 6}))
        .prepared;
  };
  CHECK(view({})->rounds_per_epoch == 20);
  CHECK(view({})->rounds == 60);
  CHECK(view({})->job.optimizer.total_steps == 60);
  CHECK(view({})->total_samples == 0);
  CHECK(view({"exchange.staleness=unbounded"})->total_samples == 3 * 640);
  CHECK(view({"run.rounds=7"})->rounds == 7);
}

TEST_CASE("the first round goes dense where estimates begin anew and messages are coded") {
  const auto dense = [](const Settings& more, bool keyframes = true) {
    return run_of_view(prepare(small_job(Settings{"peers=8", "exchange.method=choco"} + more)),
                       named({0, 4, 5}), keyframes)
        .prepared->plan->exchange.dense_rounds;
  };
  CHECK(dense({}) == 1);
  CHECK(dense({}, false) == 0);
  CHECK(dense({"exchange.dense_rounds=5"}) == 5);
  CHECK(dense({"exchange.codec=dense"}) == 0);
  CHECK(dense({"exchange.method=moniqua", "exchange.codec=dense"}) == 0);
  CHECK(dense({"exchange.method=allreduce", "exchange.codec=sign_vote", "graph.kind=full"}) == 0);
}

TEST_CASE("a rule that cannot tolerate its f among so few is refused, and asks nothing of one alone") {
  for (const char* method : {"dpsgd", "broadcast"}) {
    const Prepared base =
        prepare(small_job({"peers=8", std::string("exchange.method=") + method, "exchange.codec=dense",
                           "graph.kind=full", "exchange.aggregate=krum:f=1"}));
    check_runs(run_of_view(base, named({0, 1, 2, 4, 7})), 4);
    check_runs(run_of_view(base, named({7})), 4);
    const std::string said = refusal_of([&] { run_of_view(base, named({0, 4, 5})); });
    CHECK(says(said, "3 of 8 peers are there (peer0, peer4, peer5), and cannot go on by themselves: "));
    CHECK(says(said, "krum"));
  }
}

TEST_CASE("peers that the job does not name go on with those that it does, whatever graph and method") {
  std::mt19937_64 random(2);
  const std::vector<std::string> others{"alpha", "beta", "gamma", "zeta"};
  std::size_t views = 0, runs = 0;
  for (const Settings& graph : all_graphs())
    for (const auto& method : method_table()) {
      const auto base = sound_run(graph, method.name);
      if (!base) continue;
      INFO(fmt::format("{} {} {}", fmt::join(graph, " "), method.name, base->job.exchange.codec));
      for (int n = 0; n < 2; ++n) {
        Members members = n == 0 ? Members{} : drawn_members(random);
        for (const std::string& name : others)
          if (members.empty() || random() % 2) members.push_back(name);
        const ViewRun view = run_of_view(*base, members);
        check_view(*base, members, view);
        if (++views % 7 != 0) continue;
        check_runs(view, 6);
        ++runs;
      }
    }
  CHECK(views > 300);
  CHECK(runs > 40);
}

TEST_CASE("peers that the job does not name are joined to the two others that have fewest edges") {
  const auto base = [](const Settings& graph) {
    return prepare(small_job(Settings{"peers=4", "exchange.method=dpsgd", "exchange.codec=dense"} + graph));
  };
  const Settings path{"graph.kind=edges", "graph.edges=[[0,1],[1,2],[2,3]]", "graph.directed=false"};
  using Peers = std::vector<PeerId>;
  const Prepared listed = base(path);
  const ViewRun one = run_of_view(listed, {"peer0", "peer1", "peer2", "peer3", "new"});
  CHECK(one.warning.empty());
  CHECK(one.prepared->plan->schedule.links(4) == Peers{0, 3});
  const ViewRun two = run_of_view(listed, {"peer0", "peer1", "peer3", "a", "b"});
  CHECK(two.prepared->plan->schedule.links(3) == Peers{0, 2});
  CHECK(two.warning.empty());
  check_runs(two, 6);
  const ViewRun cube = run_of_view(base({"graph.kind=hypercube"}), {"peer0", "peer1", "peer2", "peer3", "a"});
  CHECK(says(cube.warning, "they keep the edges among them that they had"));
  CHECK(cube.prepared->plan->schedule.links(4) == Peers{0, 1});
  CHECK(run_of_view(base({"graph.kind=hypercube"}), {"peer0", "peer1", "peer2", "a"}).warning.empty());

  for (const Members& wrong : {Members{"b", "a"}, Members{"a", "peer0"}, Members{"peer0", "a", "a"}})
    CHECK(says(refusal_of([&] { run_of_view(listed, wrong); }), "then others by name"));
}

TEST_CASE("no view links two peers that can only dial out") {
  const Prepared ring = prepare(small_job({"peers=4", "exchange.method=dpsgd", "exchange.codec=dense"}));
  const auto out_of_reach = [](const ViewRun& view) {
    return links_out_of_reach(view.prepared->job, view.prepared->plan->schedule);
  };
  const Members three{"peer0", "peer1", "peer2", "a", "b"};
  CHECK(out_of_reach(run_of_view(ring, three)).empty());
  const ViewRun dialling = run_of_view(ring, three, true, {"a", "b"});
  CHECK(out_of_reach(dialling).empty());
  CHECK(says(dialling.warning, "they keep the edges among them that they had"));
  check_runs(dialling, 6);
  const ViewRun kept = run_of_view(ring, {"peer0", "a", "b"}, true, {"a", "b"});
  CHECK(out_of_reach(kept).empty());
  CHECK(kept.prepared->plan->schedule.links(0) == std::vector<PeerId>{1, 2});
  CHECK(says(run_of_view(ring, {"a", "b"}, true, {"a", "b"}).warning,
             "falls apart into {a} and {b}, which learn apart from each other"));
}
