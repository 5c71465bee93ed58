// The checkers of single methods and ways, told of runs that break one rule each: a real replica makes what
// they are told of, and what it is made to do behind their backs is the breach.
#include "checkers.h"
#include "gossamer_test/catch.h"
#include "link.h"
#include "mass.h"
#include "modulo.h"
#include "sim_job.h"
#include "sum_numbers.h"
#include "swarm.h"
#include "tracking.h"

using namespace gossamer;
using namespace gossamer::node;
using namespace gossamer::node::test;

namespace {

constexpr bool kBehind = false;  ///< of run: the checkers are not told

/// The checkers of a job, and replicas of its first two peers.
struct Told {
  explicit Told(const Settings& settings) : prepared(prepare(small_job(settings))), checkers(prepared) {
    for (PeerId p = 0; p < 2; ++p) replicas.push_back(make_replica(prepared, p, make_objective(prepared, p)));
    for (PeerId p = 0; p < prepared.job.peers.size(); ++p) checkers.on_round(p, 0);
  }

  /// Returns the payload that it was answered with, where it was.
  Payload run(PeerId peer, const Op& op, bool told = true) {
    Payload payload;
    replicas[peer].observe(told ? &checkers : nullptr);
    replicas[peer].run(op, [&](const DataEvent& e) {
      if (const auto* encoded = std::get_if<Encoded>(&e)) payload = encoded->payload;
    });
    return payload;
  }
  /// All peers end as they should.
  void finish() {
    SimResult result;
    result.peers.resize(prepared.job.peers.size());
    for (WorkerResult& r : result.peers) {
      r.outcome = Outcome::finished;
      r.rounds = prepared.rounds;
      r.rows = prepared.rounds * prepared.job.batch;
    }
    checkers.at_end(result);
  }
  /// A message goes from one peer to the other and is used. Returns its payload as it comes.
  Payload pass(PeerId from, PeerId to, const Payload& sent, Round round = 0, std::uint32_t tag = 0) {
    const Message m{round, 0, tag, 4, sent, 0},
        came{round,     0, tag, 4, std::make_shared<const std::vector<std::byte>>(sent->begin(), sent->end()),
             ++sequence};
    checkers.on_send(from, to, m);
    checkers.on_message(to, from, came);
    checkers.on_used(to, from, came);
    return came.payload;
  }
  std::string found() const { return checkers.first() ? checkers.first()->checker : ""; }
  Range range() const { return prepared.plan->parcels[0].range; }

  Prepared prepared;
  Checkers checkers;
  std::vector<Replica> replicas;
  std::uint64_t sequence = 0;
};

Message numbered(int number) {
  return {static_cast<Round>(number),
          0,
          0,
          4,
          std::make_shared<const std::vector<std::byte>>(4, static_cast<std::byte>(number)),
          static_cast<std::uint64_t>(number)};
}

const Settings kBestEffort{"exchange.method=push_sum", "exchange.codec=dense", "exchange.staleness=unbounded",
                           "exchange.delivery=best_effort"};
const Settings kPushSum{"peers=2", "exchange.method=push_sum", "exchange.codec=dense"};

}  // namespace

TEST_CASE("under best effort messages may be lost, and none comes after a newer one or twice") {
  for (const auto& [came, expected] :
       std::vector<std::pair<std::vector<int>, std::string>>{{{1, 2, 3}, ""},
                                                             {{1, 3}, ""},
                                                             {{3}, ""},
                                                             {{1, 3, 2}, "links"},
                                                             {{2, 2}, "links"},
                                                             {{4}, "links"}}) {
    Told t(kBestEffort);
    for (int n = 1; n <= 3; ++n) t.checkers.on_send(0, 1, numbered(n));
    for (const int n : came) t.checkers.on_message(1, 0, numbered(n));
    CHECK(t.found() == expected);
  }
}

TEST_CASE("with a backup rounds may be skipped, and no more neighbours are left out than it says") {
  const Settings job{"exchange.method=dpsgd", "exchange.codec=dense", "exchange.backup=1"};
  const auto hear = [](Told& t, PeerId from, int round) {
    t.checkers.on_send(from, 0, numbered(round));
    t.checkers.on_message(0, from, numbered(round));
  };
  for (const bool heard : {false, true}) {
    Told t(job);
    t.checkers.on_round(0, 3);
    if (heard) hear(t, 1, 3);
    t.checkers.on_mixed(0, 3, 0);
    CHECK(t.found() == (heard ? "" : "rounds"));
  }
  Told back(job);
  back.checkers.on_round(0, 3);
  back.checkers.on_round(0, 2);
  CHECK(back.found() == "rounds");
  Told late(job + Settings{"exchange.staleness=2"});
  late.checkers.on_round(0, 3);
  hear(late, 1, 3);
  late.checkers.on_mixed(0, 3, 0);
  CHECK(late.found() == "rounds");
}

TEST_CASE("mass that goes, comes or is taken twice breaks the rule of mass") {
  for (const std::string wrong : {"", "step", "twice", "unsent"}) {
    Told t(kPushSum);
    const Range r = t.range();
    const op::Push push{r, 0, 0, {{1, 0.5f}}, 0};
    t.run(0, op::Combine{r, kGradient, 0, {{0.1f, kParameters}}}, kBehind);
    if (wrong == "step") t.run(0, op::Extended{push}, kBehind);
    t.run(0, op::Extended{push});
    Payload sent = t.run(1, op::Extended{push});
    if (wrong == "unsent") sent = t.run(1, op::Extended{push}, kBehind);
    const Payload came = t.pass(1, 0, sent);
    t.run(0, op::Extended{op::Absorb{r, 0, 2, came}});
    if (wrong == "twice") t.run(0, op::Extended{op::Absorb{r, 0, 2, came}});
    t.run(0, op::Extended{op::Ratio{r, 0}});
    INFO(wrong);
    CHECK(t.found() == (wrong.empty() ? "" : "mass"));
  }
}

TEST_CASE("trackers that do not sum to the gradients break the rule of tracking") {
  for (const bool sound : {true, false}) {
    const Prepared prepared =
        prepare(small_job({"peers=2", "exchange.method=gradient_tracking", "exchange.codec=dense"}));
    const Invariants invariants = invariants_of(prepared);
    Findings findings;
    const auto checker = check_tracking(invariants, prepared, findings);
    REQUIRE(checker);
    const Range r = prepared.plan->parcels[0].range;
    for (PeerId p = 0; p < 2; ++p) {
      Replica replica = make_replica(prepared, p, make_objective(prepared, p));
      const auto run = [&](const op::Combine& o) { replica.run(o, [](const DataEvent&) {}); };
      const float given = p == 0 ? 0.25f : -0.25f, kept = sound ? 1.0f : 0.5f;
      run({r, kTrackedSlot, 0, {{1.0f, kParameters}}});
      run({r, kTrackerSlot, 0, {{(1 + given) * kept, kParameters}}});  // one gives what the other takes
      run({r, kTrackerMixed[0].second, 0, {}});
      replica.observe(checker.get());
      run({r, kTrackerSlot, 1, kTrackerMixed});
    }
    CHECK(findings.first().has_value() == !sound);
    if (!sound) CHECK(findings.first()->checker == "tracking");
  }
}

TEST_CASE("an average of which one side takes nothing, or another share, breaks the rule of pairs") {
  for (const auto& [wrong, expected] : std::vector<std::pair<std::string, std::string>>{{"", ""},
                                                                                        {"one side", "pairs"},
                                                                                        {"twice", "applied"},
                                                                                        {"share", "pairs"},
                                                                                        {"unasked", "pairs"},
                                                                                        {"moved", "pairs"}}) {
    Told t({"peers=2", "exchange.method=pairwise", "exchange.codec=dense", "exchange.staleness=unbounded"});
    const Range r = t.range();
    t.run(1, op::Combine{r, kGradient, 0, {{0.1f, kParameters}}}, kBehind);
    t.run(1, op::Combine{r, 2, 1, {{-1.0f, kGradient}}});
    if (wrong == "moved") t.run(1, op::Combine{r, 2, 1, {{-1.0f, kGradient}}}, kBehind);
    const Payload request = t.run(0, op::encode_exactly(r, 2, 0, 0, 0));
    const Payload asked = wrong == "unasked" ? request : t.pass(0, 1, request);
    const float half = wrong == "share" ? 0.25f : 0.5f;
    t.run(1, op::Combine{r, 3, 0, {{-half, 2}}});
    t.run(1, op::DecodeAdd{r, 3, half, asked});
    op::Encode answer = op::encode_exactly(r, 3, 0, 0, 1);
    answer.apply_to = 2;
    const Payload taken = t.pass(1, 0, t.run(1, answer), 0, 1);
    if (wrong != "one side") t.run(0, op::DecodeAdd{r, 2, -1.0f, taken});
    if (wrong == "twice") t.run(0, op::DecodeAdd{r, 2, -1.0f, taken});
    t.finish();
    INFO(wrong);
    CHECK(t.found() == expected);
  }
}

TEST_CASE("residues that are read wrongly, of another bound or weight, break the rule of residues") {
  for (const std::string wrong : {"", "sum", "bound", "weight", "unsent"}) {
    Told t({"peers=2", "exchange.method=moniqua", "exchange.codec=dense"});
    const Range r = t.range();
    t.run(1, op::Combine{r, kParameters, 0.9f, {}}, kBehind);
    for (PeerId p = 0; p < 2; ++p) t.run(p, op::Combine{r, 3, 0, {}});
    const Payload sent = t.run(1, op::Extended{op::ModuloEncode{r, kParameters, 2, 0, 0, 0, 0}});
    t.run(0, op::Extended{op::ModuloEncode{r, kParameters, 2, 0, 0, 0, 0}});
    const Payload came = t.pass(1, 0, sent);
    if (wrong == "sum") t.run(0, op::Combine{r, 3, 1, {{0.5f, 2}}}, kBehind);
    const std::uint64_t doublings = wrong == "bound" ? 1 : 0;
    t.run(0, op::Extended{op::ModuloDecodeAdd{r, kParameters, 2, 3, wrong == "weight" ? 0.25f : 0.5f,
                                              doublings, wrong == "unsent" ? sent : came, 0, 0}});
    t.checkers.on_mixed(0, 0, 0);
    INFO(wrong);
    CHECK(t.found() == (wrong.empty() ? "" : "residues"));
  }
}

TEST_CASE(
    "an outer step that is taken twice, without a neighbour or by another offer breaks the rule of outer "
    "steps") {
  for (const std::string wrong : {"", "twice", "early", "offer", "elsewhere"}) {
    Told t({"peers=2", "graph.kind=full", "exchange.method=diloco", "exchange.codec=dense",
            "exchange.local_steps=1"});
    const Range r = t.range();
    const auto rate = static_cast<float>(t.prepared.plan->outer_rate),
               decay = static_cast<float>(t.prepared.plan->outer_momentum);
    std::vector<Payload> offers;
    for (PeerId p = 0; p < 2; ++p) {
      t.run(p, op::Combine{r, kGradient, 0, {{0.1f, kParameters}}}, kBehind);
      t.run(p, op::Combine{r, kParameters, 1, {{-1.0f, kGradient}}});
      op::Encode offer = op::encode_exactly(r, 2, 0, 0);
      if (wrong != "offer") offer.minus = kParameters;
      offers.push_back(t.run(p, offer));
    }
    if (wrong != "early") offers[1] = t.pass(1, 0, offers[1]);
    t.run(0, op::Combine{r, kGradient, 0, {}});
    for (const Payload& offer : offers) t.run(0, op::DecodeAdd{r, kGradient, 0.5f, offer});
    for (int steps = wrong == "twice" ? 2 : 1; steps > 0; --steps) {
      t.run(0, op::Combine{r, 3, 0, {{1.0f, kGradient}}});
      t.run(0, op::Combine{r, 2, 1, {{-rate, kGradient}, {-rate * decay, 3}}});
    }
    t.run(0, op::Combine{r, kParameters, wrong == "elsewhere" ? 0.01f : 0.0f, {{1.0f, 2}}});
    INFO(wrong);
    CHECK(t.found() == (wrong.empty() ? "" : "outer"));
  }
}

TEST_CASE("labels by models that weigh less than one, or were added up, break the rule of weights") {
  for (const std::string wrong : {"", "weigh", "added"}) {
    Told t({"peers=2", "exchange.method=ensemble", "exchange.codec=dense", "exchange.local_steps=1",
            "exchange.distill_steps=1"});
    for (const Parcel& p : t.prepared.plan->parcels) {
      if (wrong != "added") t.run(0, op::Combine{p.range, 3, 0, {}});
      t.run(0, op::DecodeAdd{p.range, 3, 1.0f, t.run(0, op::encode_exactly(p.range, kParameters, 0, 0))});
    }
    t.checkers.on_gradient(0, {1, {}, {0.5f, {{0.5f, 2}, {wrong == "weigh" ? 0.25f : 0.5f, 3}}}});
    INFO(wrong);
    CHECK(t.found() == (wrong.empty() ? "" : "weights"));
  }
}

TEST_CASE("a rule's vectors weigh one together and are used once") {
  for (const std::string wrong : {"", "weights", "applied"}) {
    Told t({"peers=2", "graph.kind=full", "exchange.method=broadcast", "exchange.codec=dense",
            "exchange.aggregate=median"});
    const Range r = t.range();
    t.checkers.on_gradient(0, {0, {}});
    t.checkers.on_gradient(1, {0, {}});
    const Payload own = t.run(0, op::encode_exactly(r, kGradient, 0, 0)),
                  came = t.pass(1, 0, t.run(1, op::encode_exactly(r, kGradient, 0, 0)));
    const op::Aggregate rule{{r}, kGradient, {{own}, {came}}, {0.5f, wrong == "weights" ? 0.25f : 0.5f}, 0};
    t.run(0, rule);
    if (wrong == "applied") t.run(0, rule);
    t.run(0, op::Update{r, 0, 0});
    INFO(wrong);
    CHECK(t.found() == wrong);
  }
}

TEST_CASE("a step takes in the shares of all gradients that came, and of averages what they hold") {
  for (const bool wrong : {false, true}) {
    Told t({"peers=2", "graph.kind=full", "exchange.method=broadcast", "exchange.codec=dense",
            "exchange.send_momentum=0.5"});
    const Range r = t.range();
    t.checkers.on_gradient(0, {0, {}});
    t.run(0, op::Combine{r, 2, 0, {{wrong ? 1.0f : 0.5f, kGradient}}});
    t.run(0, op::Combine{r, kGradient, 0, {{1.0f, 2}}});
    t.run(0, op::Update{r, 0, 0});
    CHECK(t.found() == (wrong ? "weights" : ""));
  }
  for (const bool wrong : {false, true}) {
    Told t({"graph.kind=full", "exchange.method=broadcast", "exchange.codec=dense", "exchange.backup=1"});
    const Range r = t.range();
    t.checkers.on_gradient(0, {0, {}});
    t.checkers.on_gradient(1, {0, {}});
    const Payload own = t.run(0, op::encode_exactly(r, kGradient, 0, 0)),
                  came = t.pass(1, 0, t.run(1, op::encode_exactly(r, kGradient, 0, 0)));
    t.run(0, op::Combine{r, kGradient, 0, {}});
    t.run(0, op::DecodeAdd{r, kGradient, 0.25f, own});
    if (!wrong) t.run(0, op::DecodeAdd{r, kGradient, 0.25f, came});
    t.run(0, op::Update{r, 0, 0});
    CHECK(t.found() == (wrong ? "weights" : ""));
  }
}

TEST_CASE("an all-reduce that goes another way over fast links is compared with one of its own way") {
  SwarmCase c;
  c.seed = 1;
  c.job = small_job({"peers=9", "graph.kind=full", "exchange.method=allreduce", "exchange.codec=dense",
                     "exchange.parcel=80", "run.rounds=5", "sim.latency=0.024", "sim.bandwidth=800mbit"});
  c.job.links = {{5, 7, 2e6, 0.173}};
  const SwarmOutcome o = run_case(c);
  CHECK(o.counts.at("compared with a calm network") == 1);
  CHECK_FALSE(o.violation);
}
