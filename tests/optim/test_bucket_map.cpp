// The bucket map against std::map: what it holds, in which order, in how many bytes.
#include <array>
#include <cstring>
#include <map>
#include <tuple>

#include "bucket_map.h"
#include "random.h"
#include "support.h"

namespace gossamer::optim::test {
namespace {

/// A bucket map beside the model of what it should hold.
struct Checked {
  Checked(unsigned key_bits, Budget& budget, std::size_t value_bytes = 4)
      : map(key_bits, value_bytes, budget), bytes(value_bytes) {}
  bool insert(std::uint64_t r, std::uint32_t value) {
    std::byte* at = map.find(r);
    REQUIRE((at != nullptr) == (model.count(r) == 1));
    while (!at && !(at = map.insert(r)))
      if (!map.grow()) return false;
    model[r] = {value, ~value, value * 3};
    std::memcpy(at, model[r].data(), bytes);
    return true;
  }
  const std::byte* find_in_parts(std::uint64_t r) const {
    bool away = false;
    const BucketMap::Home home = map.seek(r);
    const std::byte* const found = map.find_home(home, away);
    return away ? map.find_away(home) : found;
  }
  void check() const {
    REQUIRE(map.size() == model.size());
    std::uint64_t wrong = 0;
    for (const auto& [r, value] : model) {
      const std::byte* const at = map.find(r);
      wrong += at == nullptr || std::memcmp(at, value.data(), bytes) != 0;
      wrong += find_in_parts(r) != at;
      const std::uint64_t another = r ^ 1;
      wrong += (map.find(another) != nullptr) != (model.count(another) == 1);
      wrong += find_in_parts(another) != map.find(another);
    }
    auto expected = model.begin();
    map.each(0, [&](std::uint64_t r, const std::byte* at) {
      wrong += expected == model.end() || r != expected->first ||
               std::memcmp(at, expected->second.data(), bytes) != 0;
      if (expected != model.end()) ++expected;
      return true;
    });
    CHECK(expected == model.end());
    CHECK(wrong == 0);
  }
  template <class Keep>
  void retain(const Keep& keep) {
    auto expected = model.begin();
    std::uint64_t wrong = 0;
    map.retain([&](std::uint64_t r, const std::byte*) {
      wrong += r != expected->first;
      const bool stays = keep(r);
      expected = stays ? std::next(expected) : model.erase(expected);
      return stays;
    });
    CHECK(wrong == 0);
    CHECK(expected == model.end());
  }
  BucketMap map;
  std::size_t bytes;  ///< of a value
  std::map<std::uint64_t, std::array<std::uint32_t, 3>> model;
};

void insert_and_retain(unsigned key_bits, std::uint64_t spread, std::size_t value_bytes) {
  Budget budget(0);
  {
    Checked checked(key_bits, budget, value_bytes);
    const std::uint64_t key = make_key(key_bits + spread, Use::draw),
                        last = (std::uint64_t{1} << key_bits) - 1;
    for (std::uint32_t i = 0; i < 40000; ++i) {
      REQUIRE(checked.insert(mix(bits(key, i) % spread) & last, i));
      if (i % 10000 == 9999) checked.retain([&](std::uint64_t r) { return mix(r + i) % 4 != 0; });
    }
    for (const std::uint64_t r : {std::uint64_t{0}, last, last - 1, std::uint64_t{1}})
      REQUIRE(checked.insert(r, 5));
    checked.check();
    checked.retain([](std::uint64_t r) { return r % 3 == 0; });
    checked.check();
    checked.map.shrink();
    checked.check();
    checked.retain([](std::uint64_t) { return false; });
    checked.map.shrink();
    checked.check();
    REQUIRE(checked.insert(7, 7));
    checked.check();
    CHECK(budget.used() == checked.map.bytes());
  }
  CHECK(budget.used() == 0);
}

struct BytesAnEntry {
  double fewest, most;  ///< of the moments from 20 000 entries on
};
BytesAnEntry fill_by_chance(Checked& checked, unsigned key_bits, std::uint32_t entries) {
  BytesAnEntry found{1e9, 0};
  for (std::uint32_t i = 0; i < entries; ++i) {
    REQUIRE(checked.insert(mix(i) >> (64 - key_bits), i));
    if (i < 20000) continue;
    const double bytes = static_cast<double>(checked.map.bytes()) / (i + 1.0);
    found = {std::min(found.fewest, bytes), std::max(found.most, bytes)};
  }
  return found;
}

}  // namespace

TEST_CASE("a bucket map holds what std::map holds, in its order") {
  for (const unsigned key_bits : {24U, 40U, 48U, 56U, 62U})
    for (const std::uint64_t spread : {std::uint64_t{50}, std::uint64_t{3000}, std::uint64_t{1} << 40})
      for (const std::size_t value_bytes : {4U, 8U, 12U}) insert_and_retain(key_bits, spread, value_bytes);
}

TEST_CASE("a bucket map tells numbers apart that lie beside the borders of its buckets") {
  for (const unsigned key_bits : {24U, 45U, 60U, 62U}) {
    CAPTURE(key_bits);
    Budget budget(0);
    Checked checked(key_bits, budget);
    const std::uint64_t all = std::uint64_t{1} << key_bits;
    for (const std::uint64_t buckets : {64, 128, 256, 512, 768}) {  // that it has while it grows
      const std::uint64_t step = (all - 1) / buckets + 1;
      for (std::uint64_t border = step; border < all; border += step)
        for (const std::uint64_t r : {border - 1, border, std::min(border + 1, all - 1)})
          REQUIRE(checked.insert(r, static_cast<std::uint32_t>(buckets)));
    }
    checked.check();
  }
}

TEST_CASE("a bucket map has more slots to a line the more lines there are") {
  Budget budget(0);
  Checked checked(48, budget);  // as 2^60 with 4096 times as many
  const auto [fewest, most] = fill_by_chance(checked, 48, 300000);
  CHECK(most < 13.2);
  CHECK(fewest < 10.5);
  checked.check();
}

TEST_CASE("a bucket map's lines are nearly full whatever its values' size") {
  for (const auto& [value_bytes, least, at_most] :
       {std::tuple{8U, 18.0, 20.7}, std::tuple{12U, 20.7, 24.8}}) {
    Budget budget(0);
    Checked checked(56, budget, value_bytes);
    const auto [fewest, most] = fill_by_chance(checked, 56, 100000);
    CAPTURE(value_bytes);
    CHECK(most < at_most);
    CHECK(fewest > least);
    checked.check();
  }
}

TEST_CASE("a bucket map takes numbers that stand close together, up to as many as may") {
  Budget budget(0);
  Checked checked(58, budget);
  SECTION("runs of neighbours") {
    for (std::uint64_t run = 0; run < 500; ++run)
      for (std::uint32_t i = 0; i < 100; ++i) REQUIRE(checked.insert((mix(run) >> 6) / 200 * 200 + i, i));
    checked.check();
  }
  SECTION("one run only: it says that there is no room, and what it has stays right") {
    std::uint32_t held = 0;
    while (held < 100000 && checked.insert(held, held)) ++held;
    CHECK(held >= 200);
    CHECK(held < 100000);
    checked.check();
    CHECK(checked.map.bytes() < std::size_t{1} << 20);
    CHECK(checked.insert(std::uint64_t{1} << 57, 1));
    checked.check();
  }
}

TEST_CASE("a bucket map resumes at any number") {
  Budget budget(0);
  Checked checked(50, budget);
  for (std::uint32_t i = 0; i < 20000; ++i) REQUIRE(checked.insert(mix(i) >> 14, i));
  for (std::uint64_t i = 0; i < 200; ++i) {
    const std::uint64_t first = mix(i + (i % 2) * 100000) >> 14;
    const auto expected = checked.model.lower_bound(first);
    std::uint64_t found = ~std::uint64_t{0};
    checked.map.each(first, [&](std::uint64_t r, const std::byte*) {
      found = r;
      return false;
    });
    CHECK(found == (expected == checked.model.end() ? ~std::uint64_t{0} : expected->first));
  }
}

TEST_CASE("a bucket map without room in its budget stays as it is") {
  for (const std::size_t value_bytes : {4U, 8U, 12U}) {
    Budget budget(std::size_t{1} << 18);
    Checked checked(58, budget, value_bytes);
    const auto least = static_cast<std::uint32_t>(64000 / (4 + value_bytes));
    std::uint32_t n = 0;
    while (checked.insert(mix(n) >> 6, n)) {
      ++n;
      REQUIRE(budget.used() <= budget.limit());
    }
    CHECK(n > least);
    CHECK(budget.peak() <= budget.limit());
    checked.check();
    checked.retain([&](std::uint64_t r) { return r != mix(0) >> 6; });
    CHECK(checked.insert(mix(n) >> 6, n));
    checked.check();
  }
}

}  // namespace gossamer::optim::test
