// The checkers of single methods and ways, told of runs that break one rule each: a real replica makes what
// they are told of, and what it is made to do behind their backs is the breach.
#include "checkers.h"
#include "gossamer_test/catch.h"
#include "link.h"
#include "push_sum.h"
#include "sim_job.h"
#include "swarm.h"

using namespace gossamer;
using namespace gossamer::node;
using namespace gossamer::node::test;

namespace {

constexpr bool kBehind = false;  ///< of run: the checkers are not told

/// The checkers of a job, and replicas of its first two peers.
struct Told {
  explicit Told(const Settings& settings, Buffers buffers = {})
      : prepared(prepare(small_job(settings))), checkers(prepared) {
    for (PeerId p = 0; p < 2; ++p)
      replicas.push_back(make_replica(prepared, p, make_objective(prepared), buffers, false));
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
  void fresh(PeerId peer) { checkers.on_gradient(peer, {0, {}}); }
  /// A message goes from one peer to the other and is used. Returns its payload as it comes.
  Payload pass(PeerId from, PeerId to, const Payload& sent, Round round = 0, std::uint32_t tag = 0) {
    const Message m{round, 0, tag, 4, sent, 0},
        came{round, 0, tag, 4, std::make_shared<const std::vector<std::byte>>(*sent), ++sequence};
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
  return {static_cast<Round>(number), 0, 0, 4,
          std::make_shared<const std::vector<std::byte>>(4, static_cast<std::byte>(number)),
          static_cast<std::uint64_t>(number)};
}

const Settings kBestEffort{"exchange.method=push_sum", "exchange.codec=dense", "exchange.staleness=unbounded",
                           "exchange.delivery=best_effort"};
const Settings kPushSum{"peers=2", "exchange.method=push_sum", "exchange.codec=dense"};

}  // namespace

TEST_CASE("under best effort messages may be lost, and none comes after a newer one or twice") {
  for (const auto& [came, expected] : std::vector<std::pair<std::vector<int>, std::string>>{
           {{1, 2, 3}, ""}, {{1, 3}, ""}, {{3}, ""}, {{1, 3, 2}, "links"}, {{2, 2}, "links"}, {{4}, "links"}}) {
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
  for (const std::string wrong : {"", "step", "twice", "unsent", "ratio"}) {
    Told t(kPushSum, {0, 3});
    const Range r = t.range();
    const op::Push push{r, 0, 0, {{1, 0.5f}}, 0};
    t.fresh(0);
    const Payload first = t.pass(1, 0, t.run(1, push));
    t.run(0, push, wrong != "step");
    if (wrong == "step") t.run(0, push);
    t.run(0, op::Absorb{r, 0, 2, first}, wrong != "unsent");
    if (wrong == "twice") t.run(0, op::Absorb{r, 0, 2, first});
    if (wrong == "unsent") t.run(0, op::Absorb{r, 0, 2, t.run(0, push, kBehind)});
    t.run(0, op::Ratio{r, 0});
    if (wrong == "ratio") t.run(0, op::Push{r, 0, 0, {{1, 0.25f}}, 0}, kBehind);
    if (wrong == "ratio") t.run(0, op::Ratio{r, 0});
    INFO(wrong);
    if (wrong == "ratio")  // held and weight fall alike
      CHECK(t.found().empty());
    else
      CHECK(t.found() == (wrong.empty() ? "" : "mass"));
  }
}

TEST_CASE("an average of which one side takes nothing, or another share, breaks the rule of pairs") {
  for (const std::string wrong : {"", "one side", "twice", "share", "unasked"}) {
    Told t({"peers=2", "exchange.method=pairwise", "exchange.codec=dense", "exchange.staleness=unbounded"}, {2, 0});
    const Range r = t.range();
    t.run(1, op::Combine{r, 2, 1.01f, {}}, kBehind);  // so that they differ; the checkers take x as it is told
    t.checkers.on_op(1, op::DecodeAdd{r, 9, 0, nullptr}, t.replicas[1]);
    const float half = wrong == "share" ? 0.25f : 0.5f;
    t.fresh(0);
    const Payload request = t.run(0, op::encode_exactly(r, 2, 0, 0, 0));
    Payload asked = request;
    if (wrong != "unasked") asked = t.pass(0, 1, request);
    t.run(1, op::Combine{r, 3, 0, {{-half, 2}}}, kBehind);
    t.run(1, op::DecodeAdd{r, 3, half, asked}, kBehind);
    t.run(1, op::Encode{.range = r, .src = 3, .minus = {}, .apply_to = 2, .exact = true, .round = 0, .parcel = 0,
                        .tag = 1});
    CHECK(wrong == "");
  }
}
