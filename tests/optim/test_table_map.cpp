// What a table is made of: the quotient map against std::unordered_map, the slab, the filter, the order of a
// batch.
#include <cmath>
#include <unordered_map>

#include "batch_order.h"
#include "map_cases.h"
#include "quotient_map.h"
#include "random.h"
#include "sightings.h"
#include "slab.h"
#include "support.h"

namespace gossamer::optim::test {
namespace {

using Model = std::unordered_map<std::uint64_t, std::uint64_t>;

/// A quotient map of values of 8 bytes beside the model of what it should hold.
struct Checked {
  explicit Checked(unsigned key_bits, Budget& budget, std::size_t value_bytes = sizeof(std::uint64_t))
      : map(key_bits, value_bytes, budget) {}
  bool insert(std::uint64_t r, std::uint64_t value) {
    std::byte* at = map.find(r);
    if (!at) {
      while (!(at = map.insert(r)))
        if (!map.grow()) return false;
    }
    std::memcpy(at, &value, sizeof value);
    model[r] = value;
    return true;
  }
  void erase(std::uint64_t r) {
    std::byte* const at = map.find(r);
    REQUIRE((at != nullptr) == (model.erase(r) == 1));
    if (at) map.erase(at);
  }
  void check() const {
    REQUIRE(map.size() == model.size());
    std::uint64_t wrong = 0, seen = 0, last = 0;
    for (const auto& [r, value] : model) {
      const std::byte* const at = map.find(r);
      wrong += at == nullptr || std::memcmp(at, &value, sizeof value) != 0;
      wrong += map.find_near(map.guess(r), r) != at;
      const std::uint64_t other = r ^ 1;
      wrong += map.find_near(map.guess(other), other) != map.find(other);
    }
    map.each(0, [&](std::uint64_t r, const std::byte* at) {
      const auto it = model.find(r);
      wrong += it == model.end() || std::memcmp(at, &it->second, sizeof it->second) != 0;
      wrong += seen > 0 && r <= last;
      last = r;
      ++seen;
      return true;
    });
    CHECK(wrong == 0);
    CHECK(seen == model.size());
  }
  /// Mean of how many slots lie between where numbers are looked for first and where they are.
  double missed_by() const {
    double slots = 0;
    for (const auto& [r, value] : model) slots += std::abs(static_cast<double>(map.find(r) - map.guess(r)));
    return slots / static_cast<double>(map.slot_bytes() * model.size());
  }
  QuotientMap map;
  Model model;
};

void insert_find_erase(unsigned key_bits, std::uint64_t seed, std::size_t operations, std::uint64_t spread,
                       std::size_t value_bytes) {
  Budget budget(0);
  {
    Checked checked(key_bits, budget, value_bytes);
    const std::uint64_t key = make_key(seed, Use::draw), last = (std::uint64_t{1} << key_bits) - 1;
    const auto number = [&](std::uint64_t i) { return mix(bits(key, i) % spread) & last; };
    for (std::size_t i = 0; i < operations; ++i) {
      const std::uint64_t r = number(i), what = bits(key + 1, i) % 8;
      if (what < 5) {
        REQUIRE(checked.insert(r, i));
      } else if (what < 7) {
        checked.erase(r);
      } else {
        REQUIRE((checked.map.find(r) != nullptr) == (checked.model.count(r) == 1));
      }
    }
    for (const std::uint64_t r : {std::uint64_t{0}, last, last - 1, std::uint64_t{1}})
      REQUIRE(checked.insert(r, r));
    checked.check();
    checked.map.retain([&](std::uint64_t r, const std::byte*) {
      if (r % 3 != 0) return true;
      checked.model.erase(r);
      return false;
    });
    checked.check();
    checked.map.shrink();
    checked.check();
    const Model all = checked.model;
    for (const auto& [r, value] : all) checked.erase(r);
    checked.check();
    REQUIRE(checked.insert(7, 7));
    checked.check();
    CHECK(budget.used() == checked.map.bytes());
  }
  CHECK(budget.used() == 0);
}

}  // namespace

TEST_CASE("a quotient map holds what std::unordered_map holds") {
  for (const unsigned key_bits : {24U, 40U, 48U, 56U, 62U})
    for (const std::uint64_t spread : {std::uint64_t{50}, std::uint64_t{3000}, std::uint64_t{100000}})
      for (const std::size_t value_bytes : {std::size_t{8}, std::size_t{24}})
        insert_find_erase(key_bits, key_bits + spread, 30000, spread, value_bytes);
}

TEST_CASE("a quotient map stores fewer bytes of a number the more there are") {
  Budget budget(0);
  Checked checked(48, budget);
  std::size_t widest = 0;
  double worst = 0;
  for (std::uint64_t i = 0; i < 200000; ++i) {
    REQUIRE(checked.insert(mix(i) >> 16, i));
    widest = std::max(widest, checked.map.slot_bytes());
    if (i > 20000)
      worst = std::max(worst, static_cast<double>(checked.map.bytes()) / static_cast<double>(i + 1));
  }
  CHECK(widest == 15);
  CHECK(checked.map.slot_bytes() == 13);
  CHECK(worst < (14 + 1 / 8.0) * 1.17);  // an eighth: the groups' bytes
  checked.check();
}

TEST_CASE("a quotient map of wide slots guesses where numbers stand") {
  Budget budget(0);
  Checked checked(48, budget, 24);
  for (std::uint64_t i = 0; i < 100000; ++i) REQUIRE(checked.insert(mix(i) >> 16, i));
  CHECK(checked.missed_by() < 2);
  for (std::uint64_t i = 0; i < 100000; i += 2) checked.erase(mix(i) >> 16);
  for (std::uint64_t i = 300000; i < 350000; ++i) REQUIRE(checked.insert(mix(i) >> 16, i));
  CHECK(checked.missed_by() < 2);
  checked.check();
}

TEST_CASE("a quotient map takes numbers that stand close together, up to as many as may") {
  Budget budget(0);
  Checked checked(58, budget);
  SECTION("runs of neighbours") { take_runs_of_neighbours(checked); }
  SECTION("one run only: it says that there is no room, and what it has stays right") {
    take_one_run(checked);
  }
  SECTION("the last home") {
    const std::uint64_t last = (std::uint64_t{1} << 58) - 1;
    std::uint64_t held = 0;
    while (held < 100 && checked.insert(last - held, held)) ++held;
    CHECK(held >= 30);
    checked.check();
  }
}

TEST_CASE("a quotient map resumes at any number") {
  Budget budget(0);
  Checked checked(50, budget);
  for (std::uint64_t i = 0; i < 5000; ++i) REQUIRE(checked.insert(mix(i) >> 14, i));
  for (std::uint64_t i = 0; i < 200; ++i) {
    const std::uint64_t first = mix(i + (i % 2) * 100000) >> 14;
    std::uint64_t expected = ~std::uint64_t{0}, found = expected;
    for (const auto& [r, value] : checked.model)
      if (r >= first) expected = std::min(expected, r);
    checked.map.each(first, [&](std::uint64_t r, const std::byte*) {
      found = r;
      return false;
    });
    CHECK(found == expected);
  }
}

TEST_CASE("a quotient map without room in its budget stays as it is") {
  Budget budget(std::size_t{1} << 18);
  Checked checked(58, budget);
  fill_the_budget(checked, budget, 5000, [&](std::uint64_t gone) { checked.erase(gone); });
}

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
