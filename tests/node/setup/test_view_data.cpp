// What the peers of a view learn, and from what.
#include "gossamer/optim/click_objective.h"
#include "view_lab.h"

using namespace gossamer;
using namespace gossamer::node;
using namespace gossamer::node::test;

TEST_CASE("peers keep the shapes of their models") {
  Job job = small_job({"peers=5", "model.kind=mlp", "exchange.method=ensemble", "exchange.codec=dense",
                       "exchange.local_steps=3", "exchange.distill_steps=2"});
  job.peers[1].hidden = {4};
  job.peers[3].hidden = {6, 5};
  const Prepared base = prepare(job);
  const ViewRun view = run_of_view(base, named({0, 3, 4}));
  REQUIRE_FALSE(view.prepared->homogeneous());
  CHECK(view.prepared->layers_of(1).size() == base.layers_of(3).size());
  CHECK(view.prepared->initial_of(1).data() == base.initial_of(3).data());
  CHECK(view.prepared->codecs_of(0) == view.prepared->codecs_of(2));
  check_runs(view, 8);
  const ViewRun alike = run_of_view(base, named({0, 2, 4}));
  CHECK(alike.prepared->homogeneous());
  check_runs(alike, 8);
}

TEST_CASE("sparse samples are dealt to those that are there, and rows go among them") {
  for (const char* graph : {"ring", "hypercube"}) {
    const Prepared base = prepare(
        small_job({"peers=8", std::string("graph.kind=") + graph, "model.kind=lr", "data.format=planted",
                   "data.rows=4000", "data.test_rows=400", "data.keys=50", "data.fields=4",
                   "optimizer.batch=8", "exchange.codec=dense", "exchange.method=dpsgd", "run.rounds=0",
                   "run.epochs=1", "table.codec=dense", "table.density=1"}));
    const Members members = named({0, 2, 3, 6, 7});
    const ViewRun view = run_of_view(base, members);
    check_view(base, members, view);
    CHECK(base.rounds == 4000 / 64);
    CHECK(view.prepared->rounds == 4000 / 40);
    REQUIRE(view.prepared->rows);
    Run run(*view.prepared);
    run.go();
    CHECK(run.all(Outcome::finished));
    std::vector<std::size_t> rows;
    for (PeerId p = 0; p < 5; ++p)
      rows.push_back(run.simulation.objective(p).keyed_rows()->table().statistics().rows);
    CHECK(rows.front() > 100);
    CHECK(rows == std::vector<std::size_t>(5, rows.front()));
    const ViewRun alone = run_of_view(base, {"peer3"});
    CHECK_FALSE(alone.prepared->rows);
    Run by_itself(*alone.prepared);
    by_itself.go();
    CHECK(by_itself.all(Outcome::finished));
    CHECK(by_itself.result.peers[0].rows == 4000);
  }
}

TEST_CASE("a program's models are asked for by the job's numbers, and those that were made are kept") {
  const Prepared own = prepare(small_job({"peers=5"}));
  std::vector<std::size_t> asked, optimizers;
  Learner learner;
  learner.objective = [&](std::size_t peer) {
    asked.push_back(peer);
    return make_objective(own, static_cast<PeerId>(peer));
  };
  learner.optimizer = [&](std::size_t peer) {
    optimizers.push_back(peer);
    return optim::make_optimizer(own.job.optimizer, own.initial.size());
  };
  const Prepared base = prepare(small_job({"peers=5", "run.rounds=0"}), learner, 3);
  CHECK(asked == std::vector<std::size_t>{3});
  const ViewRun view = run_of_view(base, named({1, 3, 4})), without = run_of_view(base, named({0, 1}));
  CHECK(view.prepared->rounds_per_epoch == base.rounds_per_epoch);
  Replica replica = make_replica(*view.prepared, 1, make_objective(*view.prepared, 1));
  CHECK(asked.size() == 1);
  CHECK(optimizers == std::vector<std::size_t>{3});
  make_objective(*view.prepared, 1);
  make_objective(*view.prepared, 2);
  make_objective(*without.prepared, 0);
  CHECK(asked == std::vector<std::size_t>{3, 3, 4, 0});
}
