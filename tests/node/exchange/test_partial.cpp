// Rounds that close before all neighbours have been heard.
#include <algorithm>
#include <map>

#include "exchange.h"
#include "gossamer_test/catch.h"
#include "plan.h"
#include "sim_job.h"

using namespace gossamer;
using namespace gossamer::node;
using namespace gossamer::node::test;

namespace {

Settings partial(const std::string& method, const std::string& graph, const std::string& codec = "dense") {
  return {"exchange.method=" + method, "graph.kind=" + graph, "exchange.codec=" + codec, "exchange.backup=1",
          "optimizer.kind=sgd"};
}
const Settings kGossip = partial("dpsgd", "ring");
const Settings kReduce = partial("broadcast", "full");
const Settings kSparse = partial("topk_allgather", "full", "topk:density=0.2");

Job with_straggler(const Settings& settings, double times = 10) {
  Job job = small_job(settings);
  job.sim.slow = {{"peer1", times}};
  return job;
}

/// A host that remembers what it was asked for.
class Recorder final : public ExchangeHost {
 public:
  explicit Recorder(const Settings& settings) : plan_(make_plan(small_job(settings), 0)) {
    plan_.parcels = std::vector<Parcel>{{0, {0, 16}}};
    exchange = make_exchange(*this);
  }
  const Plan& plan() const override { return plan_; }
  void submit(Op op) override { ops.push_back(std::move(op)); }
  void send(PeerId, Message) override {}
  void consumed(PeerId, const Message&) override { ++used; }
  bool can_send(PeerId, ParcelId) const override { return true; }
  void mixed(ParcelId, std::optional<Round> last) override {
    ++closed;
    through = last.value();
  }
  void saw_staleness(Round) override {}
  void count_closed_without() override { ++without; }

  void step(Round round) {
    Gradient gradient{round, {}};
    exchange->begin_round(gradient);
    exchange->on_ready(round, 0);
    exchange->on_encoded({round, 0, 0, 16, payload(1000 + round)});
    exchange->on_parcel_ready(round, 0);
  }
  void hear(PeerId from, Round round) {
    if (exchange->judge(from, round, 0, 0).when != Verdict::When::now) return;  // as the link does
    exchange->on_message(from, {round, 0, 0, 16, payload(100 * from + round), ++sequence_});
  }
  /// How often each payload was added, with what weight in all; a payload is known by its size.
  std::map<std::size_t, std::pair<int, float>> added() const {
    std::map<std::size_t, std::pair<int, float>> sums;
    for (const Op& o : ops)
      if (const auto* add = std::get_if<op::DecodeAdd>(&o)) {
        ++sums[add->payload->size()].first;
        sums[add->payload->size()].second += add->weight;
      }
    return sums;
  }

  std::unique_ptr<Exchange> exchange;
  std::vector<Op> ops;
  int closed = 0, used = 0, without = 0;
  Round through = 0;

 private:
  static Payload payload(std::size_t size) { return std::make_shared<const std::vector<std::byte>>(size); }
  Plan plan_;
  std::uint64_t sequence_ = 0;
};

}  // namespace

TEST_CASE("a round closes when all but b of its messages have come, and late gradients enter once") {
  Recorder host(kReduce);  // peer 0 of 4, every share a quarter
  host.step(0);
  host.hear(1, 0);
  CHECK(host.closed == 0);
  host.hear(2, 0);
  CHECK(host.closed == 1);  // peer 3 is late
  CHECK(host.through == 0);
  host.step(1);
  host.hear(1, 1);
  host.hear(3, 0);
  CHECK(host.closed == 1);  // of round 1 two are wanted
  host.hear(2, 1);
  CHECK(host.closed == 2);
  for (const Round of_three : {1, 2, 3, 4, 5, 6}) host.hear(3, of_three);
  host.hear(2, 2);
  host.hear(1, 3);
  host.hear(1, 3);  // not of this run
  host.step(2);
  CHECK(host.closed == 3);
  // two of three neighbours are in round 3
  CHECK(host.through == 2);
  host.hear(1, 6);
  host.step(3);
  CHECK(host.closed == 4);
  CHECK(host.through == 5);  // 4 and 5 were missed
  const auto added = host.added();
  for (const std::size_t once : {100, 200, 300, 1000, 101, 201, 1001, 301, 302, 202, 103, 303, 304, 305}) {
    INFO(once);
    REQUIRE(added.contains(once));
    CHECK(added.at(once).first == 1);
    CHECK(added.at(once).second == 0.25f);
  }
  CHECK_FALSE(added.contains(306));  // of the round to come
  CHECK_FALSE(added.contains(106));
}

TEST_CASE("partial gossip weighs what came by what came, the newest of each") {
  Recorder host(kGossip);  // peer 0 of a ring of 4: neighbours 1 and 3, a third each
  host.step(0);
  host.hear(3, 0);
  CHECK(host.added().at(300).second == Approx(0.5));
  const auto own = std::find_if(host.ops.begin(), host.ops.end(),
                                [](const Op& o) { return std::holds_alternative<op::Combine>(o); });
  CHECK(std::get<op::Combine>(*own).keep == Approx(0.5));
  host.step(1);
  for (const Round late : {0, 1}) host.hear(1, late);
  CHECK(host.closed == 2);
  CHECK(host.added().at(101).second == Approx(0.5));
  CHECK_FALSE(host.added().contains(100));
  CHECK(host.used == 3);
}

TEST_CASE("an overdue round closes with what has come, and goes on where those are that came") {
  const Settings by_time{"exchange.backup=0", "run.straggler=without", "exchange.staleness=8"};
  Recorder host(kGossip + by_time);  // peer 0 of a ring of 4: neighbours 1 and 3, a third each
  host.step(0);
  host.hear(3, 0);
  CHECK(host.closed == 0);
  host.exchange->on_overdue();
  CHECK(host.closed == 1);
  CHECK(host.without == 1);
  CHECK(host.added().at(300).second == Approx(0.5));
  host.step(1);
  host.exchange->on_overdue();  // nobody has come
  CHECK(host.closed == 2);
  CHECK(host.through == 1);
  CHECK(host.added().size() == 1);
  host.hear(1, 0);
  for (const Round r : {1, 2, 3, 4, 5}) host.hear(3, r);
  host.step(2);
  CHECK(host.closed == 2);
  host.exchange->on_overdue();
  CHECK(host.closed == 3);
  CHECK(host.through == 4);  // its neighbour is in round 5
  CHECK(host.added().at(100).second == Approx(1.0 / 3));
  CHECK(host.added().at(304).second == Approx(1.0 / 3));
  CHECK(host.without == 3);
  host.step(5);
  host.exchange->on_overdue();
  CHECK(host.closed == 4);
  host.step(6);
  for (const PeerId p : {1U, 3U}) host.hear(p, 6);
  CHECK(host.closed == 5);  // all in time
  CHECK(host.without == 4);
}

TEST_CASE("an overdue round waits for who is further behind than the bound") {
  Recorder host(kReduce + Settings{"exchange.backup=0", "run.straggler=without", "exchange.staleness=2"});
  for (const Round r : {0, 1}) {
    host.step(r);
    host.hear(1, r), host.hear(2, r);
    host.exchange->on_overdue();
    CHECK(host.closed == static_cast<int>(r) + 1);
  }
  host.step(2);
  host.hear(1, 2), host.hear(2, 2);
  host.exchange->on_overdue();
  CHECK(host.closed == 2);
  host.hear(3, 0);
  CHECK(host.closed == 3);
  CHECK(host.added().at(300).first == 1);
}

TEST_CASE("a straggler does not set the pace of a run with a backup") {
  for (const Settings& method : {kGossip, kReduce, kSparse}) {
    const Settings settings = method + Settings{"run.rounds=200"};
    Run even(small_job(settings + Settings{"exchange.backup=0"})), late(with_straggler(settings)),
        waiting(with_straggler(settings + Settings{"exchange.backup=0"}));
    even.go();
    waiting.go();
    REQUIRE(late.go().all(Outcome::finished));
    const auto rate = [](const Run& run, PeerId p) {
      return static_cast<double>(run.result.peers[p].rounds) / run.result.peers[p].seconds;
    };
    INFO(method[0]);
    for (const PeerId p : {0U, 2U, 3U}) {
      CHECK(rate(late, p) > 0.9 * rate(even, p));
      CHECK(rate(late, p) > 7 * rate(waiting, p));
    }
    CHECK(late.result.virtual_seconds < 1.3 * even.result.virtual_seconds);  // the straggler goes along
    CHECK(late.result.peers[1].rows < late.result.peers[0].rows / 8);
  }
}

TEST_CASE("runs with a backup are the same for the same seed, whatever the network does") {
  for (const Settings& method : {kGossip, kReduce, kSparse}) {
    const Job job = with_straggler(
        method + Settings{"run.rounds=60", "sim.loss=0.1", "sim.duplicate=0.1", "sim.reorder=0.2",
                          "sim.jitter=0.004", "sim.step_jitter=0.9", "exchange.parcel=16"},
        4);
    CHECK(digest_of(job, {5, {}}) == digest_of(job, {5, {}}));
    CHECK(digest_of(job, {5, {}}) != digest_of(job, {6, {}}));
  }
}

TEST_CASE("a backup with a bound waits for who is too late") {
  const Settings settings = kGossip + Settings{"run.rounds=100", "exchange.staleness=3"};
  Run run(with_straggler(settings));
  REQUIRE(run.go().all(Outcome::finished));
  std::uint64_t most = 0;
  for (const auto& p : run.result.peers) most = std::max(most, p.staleness_max);
  CHECK(most <= 3);
  CHECK(most > 0);
  Run free(with_straggler(kGossip + Settings{"run.rounds=100"}));
  CHECK(run.result.peers[3].seconds > 1.5 * free.go().result.peers[3].seconds);
}

TEST_CASE("models are as good with a straggler that nobody waits for") {
  const Settings job{"model.kind=mlp", "data.separation=0.7",         "data.rows=2048", "data.test_rows=512",
                     "peers=6",        "optimizer.learning_rate=0.1", "run.rounds=400"};
  const auto loss = [](const Job& of) {
    Run run(of);
    REQUIRE(run.go().all(Outcome::finished));
    double worst = 0;
    for (PeerId p = 0; p < 6; ++p)
      worst = std::max(worst, optim::evaluate(*make_model(run.prepared), run.simulation.parameters(p),
                                              *run.prepared.data.test)
                                  .loss());
    return worst;
  };
  for (const Settings& method : {kGossip, kReduce, kSparse}) {
    const double waiting = loss(small_job(method + job + Settings{"exchange.backup=0"}));
    INFO(method[0] << ", without a straggler " << waiting);
    CHECK(waiting < 0.6);
    CHECK(loss(with_straggler(method + job)) < 1.1 * waiting);
  }
}

TEST_CASE("peers of a partial full reduce stay together") {
  // Everyone's gradients enter everywhere; what differs is under way.
  for (const char* optimizer : {"sgd", "momentum", "nesterov"}) {
    Job job = small_job(kReduce + Settings{std::string("optimizer.kind=") + optimizer, "run.rounds=300",
                                           "optimizer.learning_rate=0.02", "sim.step_jitter=0.9"});
    Run run(job);
    REQUIRE(run.go().all(Outcome::finished));
    const double way = largest_difference(run.simulation.parameters(0), run.prepared.initial);
    for (PeerId p = 1; p < 4; ++p) {
      INFO(optimizer << " " << way);
      CHECK(largest_difference(run.simulation.parameters(p), run.simulation.parameters(0)) < 0.1 * way);
    }
  }
}
