// Who shares a machine's cores: what peers tell each other, and what follows for their threads.
#include "gossamer_test/catch.h"
#include "machine.h"
#include "places.h"

using namespace gossamer::node;

TEST_CASE("places spread from neighbour to neighbour until all are known") {
  constexpr Place kHere{7, 1}, kThere{9, 1}, kLimited{7, 2};
  const std::vector<Place> where{kHere, kThere, kHere, kLimited, kHere};
  std::vector<Places> peers;
  for (PeerId p = 0; p < 5; ++p) peers.emplace_back(5, p, where[p]);
  CHECK_FALSE(peers[0].complete());
  // Along a chain, there and back.
  for (std::size_t p = 1; p < 5; ++p) CHECK(peers[p].merge(peers[p - 1]));
  for (std::size_t p = 4; p > 0; --p) CHECK(peers[p - 1].merge(peers[p]));
  for (const Places& p : peers) {
    CHECK(p.complete());
    CHECK(p == peers[0]);
  }
  CHECK_FALSE(peers[2].merge(peers[1]));
  CHECK(peers[0].sharing().machine == 4);
  CHECK(peers[0].sharing().allotment == 3);
  CHECK(peers[3].sharing().allotment == 1);
  CHECK(peers[1].sharing().machine == 1);
}

TEST_CASE("places read back from their bytes, and nothing else does") {
  Places places(300, 4, {5, 6});
  const auto bytes = places.to_bytes();
  CHECK(bytes.size() == 3 * 12);
  REQUIRE(Places::from_bytes(bytes));
  CHECK(*Places::from_bytes(bytes) == places);
  Places others(300, 5, {5, 6});
  CHECK(others.merge(*Places::from_bytes(bytes)));
  CHECK_FALSE(Places::from_bytes(std::span(bytes).first(13)));
  const std::vector<std::byte> huge(12, std::byte{255});
  CHECK_FALSE(Places::from_bytes(huge));
  CHECK_FALSE(others.merge(Places(299, 0, {1, 1})));
}

TEST_CASE("who does not ask where the others are waits for no answer") {
  Places nobody(4, 0, {});
  CHECK_FALSE(nobody.asked());
  CHECK(nobody.complete());
  CHECK_FALSE(nobody.merge(Places(4, 1, {1, 1})));
}

TEST_CASE("a process knows its machine and takes a fair part of its cores") {
  CHECK(this_place().machine != 0);
  CHECK(this_place() == this_place());
  const int all = fair_threads({1, 1});
  CHECK(all >= 1);
  CHECK(fair_threads({static_cast<std::size_t>(2 * all), 1}) <= std::max(1, all));
  CHECK(fair_threads({1000000, 1}) == 1);
  CHECK(fair_threads({1, 1000000}) == 1);
  CHECK(free_memory() > 1 << 20);
}
