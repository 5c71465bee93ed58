// The command that mixes, with what it may take along: the own step, and what is told of the result.
#include "gossamer/compress/threads.h"
#include "gossamer_test/catch.h"
#include "replica.h"
#include "sim_job.h"

using namespace gossamer;
using namespace gossamer::node;
using namespace gossamer::node::test;

namespace {

constexpr Slot kSum = 2, kEstimate = 3;
constexpr std::size_t kParcels = 2;  ///< of any of the models here, at most

/// A replica with what CHOCO keeps, and what it posted.
struct Mixing {
  explicit Mixing(const std::string& codec, const std::string& optimizer, const Settings& model = {})
      : prepared(prepare(small_job(model + Settings{"exchange.codec=" + codec, "optimizer.kind=" + optimizer,
                                                    "optimizer.weight_decay=0.01"}))),
        replica(make_replica(prepared, 0, make_objective(prepared, 0), 1, {}, Buffers{.slots = 2})),
        whole{0, prepared.initial.size()} {}

  void run(const Op& op) {
    replica.run(op, [this](DataEvent e) { posted.push_back(std::move(e)); });
  }
  /// None of its commands reads it yet.
  void compute(Round round, bool idle) {
    replica.run(
        Gradient{.round = round, .on_ready = std::vector<std::vector<Op>>(kParcels), .idle = idle},
        [](const DataEvent&) {}, [] {});
  }
  op::Encode told(Round round) const {
    return {.range = whole,
            .src = kParameters,
            .minus = kEstimate,
            .apply_to = kEstimate,
            .round = round,
            .parcel = 0};
  }
  const Payload& last() const { return std::get<Encoded>(posted.back()).payload; }

  Prepared prepared;
  Replica replica;
  Range whole;
  std::vector<DataEvent> posted;
};

/// Of both kinds of replica, after each of some rounds.
void check_alike(Mixing& fused, Mixing& simple) {
  for (Mixing* m : {&fused, &simple}) {
    m->run(op::Combine{m->whole, kEstimate, 0.5f, {}});
    m->run(m->told(0));
  }
  for (Round round = 0; round < 4; ++round) {
    const Payload told = fused.last();
    REQUIRE(told == simple.last());
    const op::Mix mix{.range = fused.whole,
                      .dst = kSum,
                      .payloads = {{0.5f, told}, {-0.25f, told}, {0.125f, told}},
                      .then = {fused.whole, kParameters, 1, {{0.3f, kSum}}},
                      .step = op::Update{fused.whole, round, static_cast<double>(round)},
                      .encode = fused.told(round + 1)};
    CHECK(op::may_answer(mix));
    for (Mixing* m : {&fused, &simple}) m->compute(round, false);
    fused.run(mix);
    for (const Op& o : op::in_simple_ones(mix)) simple.run(o);
    for (const Slot s : {kParameters, kSum, kEstimate})
      CHECK(Run::same_bits(fused.replica.slot(s), simple.replica.slot(s)));
  }
  CHECK(fused.posted.size() == 5);
  const State left = fused.replica.save({}), expected = simple.replica.save({});
  for (const auto& [name, value] : expected) CHECK(left.at(name) == value);
}

}  // namespace

TEST_CASE("a mix with its own step and what is told next leaves what the commands by themselves leave") {
  const std::vector<std::string> codecs{"onebit_scaled", "onebit_scaled:bucket=96", "qsgd:bits=4,norm=max",
                                        "topk:density=0.2"};
  for (const std::size_t threads : {1u, 2u})
    for (const std::string& codec : codecs) {
      for (const std::string optimizer : {"sgd", "momentum", "adam", "quasi_global"}) {
        if (!codec.starts_with("qsgd") && optimizer == "quasi_global") continue;  // is refused
        INFO(codec << ", " << optimizer << ", threads " << threads);
        Mixing fused(codec, optimizer), simple(codec, optimizer);
        fused.replica.use_threads(threads);
        check_alike(fused, simple);
      }
      INFO(codec << ", large, threads " << threads);  // of several slices
      const Settings large{"model.kind=mlp", "model.hidden=[10000]", "exchange.parcel=1048576"};
      Mixing fused(codec, "momentum", large), simple(codec, "momentum", large);
      REQUIRE(fused.whole.size > 2 * compress::kSlice);
      fused.replica.use_threads(threads);
      check_alike(fused, simple);
    }
}

TEST_CASE("a mix takes no step by a gradient that was not finite, or was none") {
  for (const bool simple : {false, true})
    for (const bool idle : {false, true}) {
      INFO((simple ? "simple" : "fused") << (idle ? ", idle" : ", not finite"));
      Mixing m("onebit_scaled", "momentum");
      Observer observer;  // for whom commands are taken apart
      if (simple) m.replica.observe(&observer);
      const auto mix = [&](Round round) {
        const op::Mix all{.range = m.whole,
                          .dst = kSum,
                          .payloads = {},
                          .then = {m.whole, kParameters, 1, {}},
                          .step = op::Update{m.whole, round, static_cast<double>(round)}};
        CHECK_FALSE(op::may_answer(all));
        m.run(all);
      };
      m.compute(0, false);
      mix(0);
      CHECK_FALSE(Run::same_bits(m.replica.parameters(), m.prepared.initial));
      if (!idle)
        for (int i = 0; i < 2; ++i) m.run(op::Combine{m.whole, kParameters, 1e30f, {}});
      const State before = m.replica.save({});
      m.compute(1, idle);
      mix(1);
      const State after = m.replica.save({});
      for (const auto& [name, value] : before)
        if (name.starts_with("data/optimizer/") || name == "data/slot0") CHECK(after.at(name) == value);
    }
}
