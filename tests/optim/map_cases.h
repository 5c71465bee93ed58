#pragma once
// What holds of both maps that a table is made of, whatever stands beside the numbers. Checked: a map of
// numbers of 58 bits and the model of what it should hold, with insert(r, value) and check().
#include <cstddef>
#include <cstdint>

#include "gossamer_test/catch.h"
#include "random.h"

namespace gossamer::optim::test {

template <class Checked>
void take_runs_of_neighbours(Checked& checked) {
  for (std::uint64_t run = 0; run < 500; ++run)
    for (std::uint32_t i = 0; i < 100; ++i) REQUIRE(checked.insert((mix(run) >> 6) / 200 * 200 + i, i));
  checked.check();
}

/// One run only: it says that there is no room, and what it has stays right.
template <class Checked>
void take_one_run(Checked& checked) {
  std::uint32_t held = 0;
  while (held < 100000 && checked.insert(held, held)) ++held;
  CHECK(held >= 200);
  CHECK(held < 100000);
  checked.check();
  CHECK(checked.map.bytes() < std::size_t{1} << 20);
  CHECK(checked.insert(std::uint64_t{1} << 57, 1));
  checked.check();
}

/// remove_one(r): takes a number out of map and model.
template <class Checked, class Budget, class Remove>
void fill_the_budget(Checked& checked, const Budget& budget, std::uint32_t least, const Remove& remove_one) {
  std::uint32_t n = 0;
  while (checked.insert(mix(n) >> 6, n)) {
    ++n;
    REQUIRE(budget.used() <= budget.limit());
  }
  CHECK(n > least);
  CHECK(budget.peak() <= budget.limit());
  checked.check();
  remove_one(mix(0) >> 6);
  CHECK(checked.insert(mix(n) >> 6, n));
  checked.check();
}

}  // namespace gossamer::optim::test
