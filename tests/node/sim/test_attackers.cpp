// Whole runs with attackers among the peers: what the mean does, and what the rules bear.
#include "attack.h"
#include "attackers.h"
#include "gossamer/optim/data.h"
#include "gossamer_test/catch.h"
#include "sim_job.h"

using namespace gossamer;
using namespace gossamer::node;
using namespace gossamer::node::test;

namespace {

struct Outcomes {
  double least = 1;       ///< accuracy of the worst honest peer; 0 where the run did not end
  bool identical = true;  ///< the honest peers, to the bit
};

Outcomes train(const std::string& method, const std::string& rule, const std::string& attackers,
               const Settings& more = {}) {
  Run run(small_job(Settings{"exchange.method=" + method, "exchange.aggregate=" + rule,
                             "exchange.codec=dense", "peers=8", "data.rows=2048", "data.test_rows=512",
                             "data.separation=1.2", "optimizer.kind=sgd", "optimizer.schedule=cosine",
                             "run.rounds=80", "exchange.parcel=16", "sim.attackers=[" + attackers + "]"} +
                    more));
  run.go();
  if (!run.all(node::Outcome::finished)) return {0, false};
  Outcomes out;
  const auto objective = make_model(run.prepared);
  std::optional<PeerId> first;
  for (PeerId p = 0; p < 8; ++p) {
    if (!honest(run.prepared.job, p)) continue;
    if (!first) first = p;
    const AlignedFloats x(run.simulation.parameters(p).begin(), run.simulation.parameters(p).end());
    out.least = std::min(out.least, optim::evaluate(*objective, x, *run.prepared.data.test).accuracy());
    out.identical &= Run::same_bits(run.simulation.parameters(p), run.simulation.parameters(*first));
  }
  return out;
}

const char* const kFlip = "\"peer2=sign_flip:10\", \"peer5=sign_flip:10\"";
const char* const kNoise = "\"peer2=noise:100\", \"peer5=noise:100\"";

}  // namespace

TEST_CASE("two attackers of eight ruin the mean gradient; rules bear them, and honest peers stay identical") {
  const Settings full{"graph.kind=full"};
  const double clean = train("broadcast", "weighted", "", full).least;
  REQUIRE(clean > 0.9);
  for (const char* attack : {kFlip, kNoise}) {
    INFO(attack);
    CHECK(train("broadcast", "weighted", attack, full).least < clean - 0.2);
    for (const char* rule : {"median:f=2", "trimmed_mean:f=2", "krum:f=2", "multi_krum:f=2",
                             "geometric_median:f=2", "centered_clip:f=2", "nnm+trimmed_mean:f=2"}) {
      INFO(rule);
      const Outcomes got = train("broadcast", rule, attack, full);
      CHECK(got.least > clean - 0.03);
      CHECK(got.identical);
    }
  }
}

TEST_CASE("attackers that hide or learn wrong labels do little harm under a rule") {
  const Settings full{"graph.kind=full"};
  const double clean = train("broadcast", "weighted", "", full).least;
  for (const char* attack : {"zero", "label_flip", "alie:1.5"})
    for (const char* rule : {"median:f=2", "nnm+trimmed_mean:f=2", "centered_clip:f=2"}) {
      INFO(attack << " " << rule);
      const std::string two = std::string("\"peer2=") + attack + "\", \"peer5=" + attack + "\"";
      CHECK(train("broadcast", rule, two, full).least > clean - 0.03);
    }
}

TEST_CASE("attackers whose messages hold no numbers do no harm under any rule") {
  const Settings full{"graph.kind=full"};
  const double clean = train("broadcast", "weighted", "", full).least;
  for (const char* rule : {"median:f=2", "trimmed_mean:f=2", "krum:f=2", "multi_krum:f=2",
                           "geometric_median:f=2", "centered_clip:f=2", "nnm+krum:f=2"}) {
    INFO(rule);
    const Outcomes got = train("broadcast", rule, "\"peer2=nan\", \"peer5=nan\"", full);
    CHECK(got.least > clean - 0.03);
    CHECK(got.identical);
  }
}

TEST_CASE("in gossip each neighbourhood bears its attacker") {
  const std::string flip = "\"peer2=sign_flip:10\"", noise = "\"peer2=noise:100\"";
  for (const Settings& graph :
       {Settings{"graph.kind=ring"}, Settings{"graph.kind=random_regular", "graph.degree=4"}}) {
    const double clean = train("dpsgd", "weighted", "", graph).least;
    REQUIRE(clean > 0.9);
    for (const std::string& attack : {flip, noise}) {
      INFO(graph[0] << " " << attack);
      CHECK(train("dpsgd", "weighted", attack, graph).least < clean - 0.2);
      for (const char* rule : {"trimmed_mean:f=1", "self_clip:f=1", "centered_clip:f=1"}) {
        INFO(rule);
        CHECK(train("dpsgd", rule, attack, graph).least > clean - 0.05);
      }
    }
  }
}
