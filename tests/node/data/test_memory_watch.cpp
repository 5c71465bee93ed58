// When a peer warns of its memory.
#include "config_files.h"
#include "gossamer_test/catch.h"
#include "memory_watch.h"

using namespace gossamer::node;
using gossamer::test::says;

namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

}  // namespace

TEST_CASE("a peer above run.memory warns once, with figures and advice") {
  MemoryWatch watch(2 * kGiB);
  CHECK(watch.due(0));
  CHECK_FALSE(watch.look(0, {2 * kGiB, 50 * kGiB, 64 * kGiB}));
  CHECK_FALSE(watch.due(4.9));
  CHECK(watch.due(5));
  const auto warning = watch.look(5, {3 * kGiB, 50 * kGiB, 64 * kGiB});
  REQUIRE(warning);
  CHECK(says(*warning, "takes 3.22 GB of memory, and run.memory is 2.15 GB"));
  CHECK(says(*warning, "optimizer.batch"));
  CHECK_FALSE(watch.due(100));
}

TEST_CASE("a peer warns before the machine has none left, whatever run.memory is") {
  for (const std::uint64_t limit : {std::uint64_t{0}, 40 * kGiB}) {
    MemoryWatch watch(limit);
    CHECK_FALSE(watch.look(0, {8 * kGiB, 4 * kGiB, 64 * kGiB}));
    const auto warning = watch.look(5, {8 * kGiB, 3 * kGiB, 64 * kGiB});
    REQUIRE(warning);
    CHECK(says(*warning, "3.22 GB of memory are left of 68.7 GB"));
  }
}

TEST_CASE("memory in use is told by the system") {
  const MemoryUse use = memory_use();
  CHECK(use.resident > 1000000);
  CHECK(use.available > 0);
  CHECK(use.total >= use.available);
}
