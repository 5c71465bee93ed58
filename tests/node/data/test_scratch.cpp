#include "gossamer_test/catch.h"
#include "replica.h"
#include "sim_job.h"

using namespace gossamer::node;
using namespace gossamer::node::test;

TEST_CASE("a scratch slot takes memory when it is first written, is zero before, and stands in no state") {
  const Prepared prepared = prepare(small_job({}));
  constexpr Slot kScratch = 3;
  const Range whole{0, prepared.initial.size()};
  const auto replica = [&] {
    return make_replica(prepared, 0, make_objective(prepared, 0), 1, {}, Buffers{.slots = 1, .scratch = 1});
  };
  Replica first = replica(), second = replica();
  CHECK(first.slot(kScratch).empty());
  CHECK_FALSE(first.save({}).contains("data/slot3"));
  first.run(op::Combine{whole, kScratch, 1, {{1.0f, kParameters}}}, [](const DataEvent&) {});
  CHECK(Run::same_bits(first.slot(kScratch), prepared.initial));
  State state = first.save({});
  CHECK(state.contains("data/slot2"));
  CHECK_FALSE(state.contains("data/slot3"));
  state["data/slot3"] = state["data/slot2"];  // as it was saved once
  second.restore(state, Kept::all);
  CHECK(second.slot(kScratch).empty());
}
