// What a table is made of beside its map: the slab, the pool of pages, the filter, the order of a batch.
#include <cstring>

#include "batch_order.h"
#include "random.h"
#include "sightings.h"
#include "slab.h"
#include "support.h"

namespace gossamer::optim::test {

TEST_CASE("a slab's rows stay apart and are used again") {
  Budget budget(std::size_t{1} << 23);
  for (const std::size_t row_bytes :
       {std::size_t{4}, std::size_t{52}, std::size_t{20000}, std::size_t{50000}}) {
    PagePool pool(budget);
    Slab slab(row_bytes, pool);
    std::vector<std::uint32_t> rows;
    while (slab.reserve()) {
      rows.push_back(slab.take());
      std::memset(slab.row(rows.back()), static_cast<int>(rows.size() % 251), row_bytes);
    }
    CHECK(rows.size() * row_bytes > budget.limit() / 10 * 8);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < rows.size(); ++i)
      for (const std::size_t at : {std::size_t{0}, row_bytes - 1})
        wrong += static_cast<std::size_t>(slab.row(rows[i])[at]) != (i + 1) % 251;
    CHECK(wrong == 0);
    slab.free(rows[1]);
    slab.free(rows[0]);
    REQUIRE(slab.reserve());
    CHECK(slab.take() == rows[0]);
    CHECK(slab.take() == rows[1]);
    CHECK_FALSE(slab.reserve());
  }
  CHECK(budget.used() == 0);
}

TEST_CASE("a pool's pieces stay apart, in huge pages too, and use up its budget") {
  Budget budget(std::size_t{1} << 26);
  {
    PagePool pool(budget);
    std::vector<std::pair<std::byte*, std::size_t>> pieces;
    std::size_t zeroed = 0, taken = 0;
    for (std::size_t i = 0;; ++i) {
      const std::size_t bytes = i % 100 == 99 ? std::size_t{3} << 20 : Pages::kPage << (i % 5);
      std::byte* const at = pool.take(bytes);
      if (!at && bytes == Pages::kPage) break;
      if (!at) continue;
      zeroed += at[0] == std::byte{0} && at[bytes - 1] == std::byte{0};
      std::memset(at, static_cast<int>(pieces.size() % 251), bytes);
      pieces.push_back({at, bytes});
      taken += bytes;
    }
    CHECK(zeroed == pieces.size());
    std::size_t whole = 0;
    for (std::size_t i = 0; i < pieces.size(); ++i)
      for (const std::size_t at : {std::size_t{0}, pieces[i].second - 1})
        whole += static_cast<std::size_t>(pieces[i].first[at]) == i % 251;
    CHECK(whole == 2 * pieces.size());
    CHECK(budget.used() <= budget.limit());
    CHECK(taken > budget.limit() / 16 * 15);
  }
  CHECK(budget.used() == 0);
}

TEST_CASE("sightings are never counted too low while none are forgotten, and seldom too high") {
  std::vector<std::uint8_t> memory(1U << 14);
  Sightings sightings(memory);
  std::size_t low = 0, high = 0;
  for (std::uint64_t key = 0; key < 1500; ++key)
    for (unsigned n = 1; n <= 1 + key % 5; ++n) {
      const unsigned seen = sightings.see(mix(key), 1);
      low += seen < n;
      high += seen > n;
    }
  CHECK(low == 0);
  CHECK(high < 100);
  CHECK(sightings.see(mix(7), 1000) == Sightings::kMost);
  for (std::uint64_t key = 0; key < 100000; ++key) sightings.see(mix(key + 10000), 1);
  CHECK(sightings.see(mix(7), 1) < 8);  // it was long ago
  CHECK(Sightings({}).see(1, 1) == Sightings::kMost);
}

TEST_CASE("unmix inverts mix") {
  for (std::uint64_t i = 0; i < 1000; ++i) {
    CHECK(unmix(mix(i)) == i);
    CHECK(mix(unmix(~i)) == ~i);
  }
}

TEST_CASE("a batch is brought into the order of its mixed keys") {
  BatchOrder order;
  for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{100}, std::size_t{200000}}) {
    std::vector<std::uint64_t> keys(n);
    for (std::size_t i = 0; i < n; ++i) keys[i] = bits(3, i) % (n / 2 + 1);
    const auto whole = order.sort(keys, 5, 6);
    REQUIRE(whole.size() == n);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < n; ++i) {
      wrong += whole[i].mixed != mix(keys[whole[i].index] ^ 5);
      if (i == 0) continue;
      wrong += whole[i - 1].mixed > whole[i].mixed;
      wrong += whole[i - 1].mixed == whole[i].mixed && whole[i - 1].index >= whole[i].index;
    }
    CHECK(wrong == 0);
  }
}

}  // namespace gossamer::optim::test
