// Asynchronous CHOCO on links that cannot keep up: a link that is left out for some rounds must not be mixed
// meanwhile.
#include "gossamer_test/catch.h"
#include "sim_job.h"

using namespace gossamer::node;
using namespace gossamer::node::test;

TEST_CASE("a hub of half the speed of its leaves stays with them") {
  for (const char* codec : {"dense", "onebit_scaled", "qsgd:bits=4"}) {
    INFO(codec);
    Run run(small_job({"graph.kind=star", "peers=8", "exchange.staleness=unbounded",
                       std::string("exchange.codec=") + codec, "sim.slow=[\"peer0=2\"]", "sim.step_time=1ms",
                       "run.rounds=400", "optimizer.learning_rate=0.05"}));
    run.go();
    REQUIRE(run.all(Outcome::finished));
    for (PeerId leaf = 1; leaf < 8; ++leaf)
      CHECK(relative_difference(run.parameters(leaf), run.parameters(0)) < 0.2);
  }
}
