// Gradients and losses that are not finite, at one peer in one round or in all: the step is skipped and
// counted, and whatever the method, nothing that is not finite gets anywhere.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "checkers.h"
#include "courses.h"
#include "gossamer_test/catch.h"

using namespace gossamer;
using namespace gossamer::node;
using namespace gossamer::node::test;
using gossamer::test::says;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr PeerId kBad = 1;

/// What goes wrong with the steps first … last of peer kBad.
struct Fault {
  float value = kNan;
  std::uint64_t first = 5, last = 5;
  bool loss = false;            ///< the loss alone, in place of a gradient
  std::size_t every_layer = 1;  ///< 2: every other one
};

/// The job's objective, with such a fault.
class Faulty final : public optim::Objective {
 public:
  Faulty(std::unique_ptr<optim::Objective> whole, Fault fault) : whole_(std::move(whole)), fault_(fault) {
    adopt_layers(*whole_);
  }
  void initialise(std::uint64_t seed, std::span<float> x) const override { whole_->initialise(seed, x); }
  optim::StepResult gradient(std::span<float> x, const optim::BatchKey& key, std::span<float> g,
                             const optim::OnLayer& on_layer) override {
    const bool now = key.step >= fault_.first && key.step <= fault_.last;
    auto result = whole_->gradient(x, key, g, [&](std::size_t l) {
      const optim::Layer& layer = layers()[l];
      if (now && !fault_.loss && l % fault_.every_layer == 0) g[layer.offset + layer.size / 2] = fault_.value;
      on_layer(l);
    });
    if (now && fault_.loss) result.loss = static_cast<double>(fault_.value);
    return result;
  }
  optim::Figures evaluate(std::span<const float> x) override { return whole_->evaluate(x); }
  std::size_t classes() const override { return whole_->classes(); }
  std::uint64_t steps_per_epoch() const override { return whole_->steps_per_epoch(); }

 private:
  std::unique_ptr<optim::Objective> whole_;
  Fault fault_;
};

Prepared with_fault(Prepared prepared, const Fault& fault) {
  const auto plain = std::make_shared<const Prepared>(prepared);
  prepared.first_objective = std::make_shared<std::unique_ptr<optim::Objective>>();
  prepared.learner.objective = [plain, fault](std::size_t peer) -> std::unique_ptr<optim::Objective> {
    auto whole = make_objective(*plain, static_cast<PeerId>(peer));
    if (peer != kBad) return whole;
    return std::make_unique<Faulty>(std::move(whole), fault);
  };
  return prepared;
}

struct Outcomes {
  SimResult result;
  std::string broken;  ///< what a checker found
  bool finite = true;  ///< all parameters
};

Outcomes run(const Prepared& prepared) {
  Outcomes out;
  Checkers checkers(prepared);
  Simulation simulation(prepared, {}, &checkers);
  out.result = simulation.run();
  checkers.at_end(out.result);
  if (checkers.first()) out.broken = checkers.first()->checker + ": " + checkers.first()->what;
  for (PeerId p = 0; p < out.result.peers.size(); ++p)
    for (const float x : simulation.parameters(p)) out.finite &= std::isfinite(x);
  return out;
}

void check_skipped(const Prepared& prepared, const Fault& fault, std::uint64_t steps) {
  const Outcomes out = run(with_fault(prepared, fault));
  CHECK(out.broken.empty());
  INFO(out.broken);
  CHECK(out.finite);
  for (PeerId p = 0; p < out.result.peers.size(); ++p) {
    const WorkerResult& r = out.result.peers[p];
    INFO("peer" << p << ": " << r.message);
    CHECK(r.outcome == Outcome::finished);
    CHECK(r.skipped_steps == (p == kBad ? steps : 0));
    CHECK(std::isfinite(r.train_loss));
  }
}

}  // namespace

TEST_CASE(
    "whatever the method and codec, a gradient that is not finite is skipped, counted and sent to nobody") {
  std::size_t runs = 0;
  std::vector<std::string> left_out;
  for (const auto& method : method_table()) {
    const std::size_t before = runs;
    for (const char* staleness : {"0", "1", "unbounded"})
      for (const char* codec : {"dense", "onebit", "qsgd:bits=4", "topk:density=0.2"}) {
        const auto course = sound_course(method.name, codec, staleness);
        if (!course) continue;
        INFO(method.name << " " << codec << " " << staleness << " " << course->graph << " "
                         << course->optimizer);
        check_skipped(course->prepared, {.value = ++runs % 2 ? kNan : kInf}, 1);
      }
    if (runs == before) left_out.emplace_back(method.name);
  }
  CHECK(runs > 50);
  CHECK(left_out == std::vector<std::string>{"ensemble"});  // learns labels: below
}

TEST_CASE("one layer, the first step or two running: skipped whatever else the job has") {
  const std::vector<Settings> jobs{
      {"exchange.method=dpsgd", "exchange.codec=dense", "optimizer.kind=adam"},
      {"exchange.method=dpsgd", "exchange.codec=dense", "exchange.overlap=true"},
      {"exchange.method=choco", "exchange.codec=onebit_scaled", "exchange.overlap=true"},
      {"exchange.method=moniqua", "exchange.codec=dense", "exchange.overlap=true"},
      {"exchange.method=dpsgd", "exchange.codec=dense", "optimizer.kind=quasi_global"},
      {"exchange.method=allreduce", "graph.kind=full", "exchange.codec=onebit", "optimizer.kind=adam",
       "exchange.dense_rounds=9"},
      {"exchange.method=allreduce", "graph.kind=full", "exchange.codec=topk:density=0.1",
       "exchange.momentum_correction=0.9", "exchange.clip=1"},
      {"exchange.method=broadcast", "graph.kind=full", "exchange.codec=dense", "exchange.backup=1"},
      {"exchange.method=broadcast", "graph.kind=full", "exchange.codec=dense", "exchange.send_momentum=0.5",
       "exchange.aggregate=median:f=1"},
      {"exchange.method=diloco", "graph.kind=full", "exchange.codec=qsgd:bits=4", "exchange.local_steps=6"},
      {"exchange.method=ensemble", "graph.kind=full", "exchange.codec=dense", "exchange.local_steps=5",
       "exchange.distill_steps=3"},
      {"exchange.method=push_sum", "graph.kind=one_peer_exponential", "exchange.codec=dense"},
      // layers of several parcels, of which one is not finite
      {"exchange.method=dpsgd", "exchange.codec=dense", "optimizer.kind=adam", "exchange.parcel=16"},
      {"exchange.method=choco", "exchange.codec=onebit_scaled", "exchange.parcel=16"},
      {"exchange.method=allreduce", "graph.kind=full", "exchange.codec=dense", "exchange.parcel=16"},
      {"exchange.method=allreduce", "graph.kind=full", "exchange.codec=topk:density=0.1", "exchange.clip=1",
       "exchange.momentum_correction=0.9", "exchange.parcel=16"},
  };
  for (const Settings& job : jobs) {
    INFO(fmt::format("{}", fmt::join(job, " ")));
    const Prepared prepared = prepare(
        small_job(job + Settings{"model.kind=mlp", "model.hidden=[8]", "optimizer.learning_rate=0.02"}));
    check_skipped(prepared, {.every_layer = 2}, 1);
    check_skipped(prepared, {.first = 0, .last = 1}, 2);
    check_skipped(prepared, {.value = kInf, .loss = true}, 1);
  }
}

TEST_CASE("a peer whose steps stay without a finite gradient diverges after run.skip_limit of them") {
  const Settings job{"exchange.method=dpsgd", "exchange.codec=dense"};
  const Fault for_good{.first = 4, .last = 1000};
  const Outcomes three = run(with_fault(prepare(small_job(job)), for_good));
  const WorkerResult& bad = three.result.peers[kBad];
  CHECK(bad.outcome == node::Outcome::failed);
  INFO(bad.message);
  CHECK(says(bad.message,
             "the run diverged in round 6: the loss or gradient was not finite in 3 steps running"));
  CHECK(says(bad.message, "lower optimizer.learning_rate"));
  CHECK(bad.skipped_steps == 3);
  CHECK(says(three.result.peers[0].message, "peer1 diverged"));

  check_skipped(prepare(small_job(job + Settings{"run.skip_limit=0"})), for_good, 16);
  check_skipped(prepare(small_job(job + Settings{"run.skip_limit=3"})), {.first = 4, .last = 5}, 2);
}

TEST_CASE("what was skipped, and how often running, is part of what a peer saves") {
  const Prepared prepared = with_fault(prepare(small_job({"exchange.method=dpsgd", "exchange.codec=dense"})),
                                       {.first = 4, .last = 1000});
  Simulation first(prepared, {}), second(prepared, {});
  second.restore(first.save_after(6));
  const SimResult result = second.run();
  CHECK(result.peers[kBad].skipped_steps == 3);
  CHECK(says(result.peers[kBad].message, "in 3 steps running"));
}
