// Steps that are taken between two layers of the gradient that they are taken by.
#include "gossamer_test/catch.h"
#include "own.h"
#include "replica.h"
#include "sim_job.h"

using namespace gossamer::node;
using namespace gossamer::node::test;

namespace {

struct Stepping {
  Stepping()
      : prepared(prepare(small_job({}))),
        replica(make_replica(prepared, 0, make_objective(prepared, 0), 1, {},
                             Buffers{.slots = 0, .keeps_gradient = true})) {}
  /// Once, as soon as the only layer's gradient stands, where it steps.
  GradientDone compute(Round round, bool steps) {
    const op::Update update{{0, prepared.initial.size()}, round, static_cast<double>(round)};
    GradientDone done{};
    replica.run(
        Gradient{round, {{}}},
        [&](const DataEvent& e) {
          if (const auto* d = std::get_if<GradientDone>(&e)) done = *d;
        },
        [&] {
          if (steps) replica.run(op::Step{update}, [](const DataEvent&) {});
        });
    return done;
  }

  Prepared prepared;
  Replica replica;
};

}  // namespace

TEST_CASE("a gradient by which a step was taken while it was told goes along to no other view") {
  Stepping stands, stepped, next;
  const GradientDone first = stands.compute(0, false);
  const State state = stands.replica.save_for_next_view({});
  REQUIRE(has_own_gradient(state));
  CHECK(stepped.compute(0, true).loss == first.loss);
  CHECK_FALSE(has_own_gradient(stepped.replica.save_for_next_view({})));

  next.replica.restore(state, Kept::learned);
  REQUIRE(next.replica.has_gradient());
  const GradientDone taken_up = next.compute(0, true);
  CHECK(taken_up.rows == 0);
  CHECK(taken_up.loss == first.loss);
  CHECK(Run::same_bits(next.replica.parameters(), stepped.replica.parameters()));
  CHECK_FALSE(has_own_gradient(next.replica.save_for_next_view({})));
}
