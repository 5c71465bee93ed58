// Rows pulled to learn: places that a pull found serve the push only while they hold.
#include <thread>

#include "gossamer/optim/table.h"
#include "random.h"
#include "support.h"

namespace gossamer::optim::test {
namespace {

using Keys = std::vector<std::uint64_t>;
using Floats = std::vector<float>;

/// `size` different keys, some of which come again in other rounds, and the bias among them.
Keys different_keys(std::uint64_t round, std::size_t size) {
  Keys keys;
  for (std::size_t i = 0; i < size; ++i) keys.push_back(bits(5, below(round, i, 20) * size + i));
  keys.push_back(~std::uint64_t{0});
  return keys;
}

Floats gradients_of(std::uint64_t round, std::size_t n) {
  Floats gradients(n);
  for (std::size_t i = 0; i < n; ++i) gradients[i] = static_cast<float>(normal(round, i));
  return gradients;
}

/// Another learner's rows come, and old ones go, between pull and push.
void disturb(Table& table, std::uint64_t round) {
  const Keys keys = different_keys(round + 1000, 50);
  table.push(keys, gradients_of(round + 1, keys.size() * table.spec().width));
  if (round % 6 == 0) table.evict();
}

Floats pulled(const Table& table, const Keys& keys) {
  Floats weights(keys.size() * table.spec().width);
  table.pull(keys, weights);
  return weights;
}

}  // namespace

TEST_CASE("rows that are pulled to learn and pushed learn what pull and push would have taught them") {
  std::vector<TableSpec> specs{{.width = 3, .optimizer = "adam"},
                               {.width = 20, .optimizer = "adagrad"},
                               {.admit_after = 2},
                               {.width = 30, .optimizer = "sgd", .evict_after = 12},
                               {.evict_after = 12, .evict_zeros_after = 3}};
  for (const RowOptimizerInfo& optimizer : row_optimizer_table())  // rows of one weight learn together
    for (const bool versions : {false, true})
      for (const std::uint64_t evict_after : {0U, 12U})
        specs.push_back({.optimizer = optimizer.name, .evict_after = evict_after, .versions = versions});
  for (TableSpec spec : specs) {
    spec.initial_scale = 0.1;
    const auto plain = make_table(spec), table = make_table(spec);
    PulledRows rows;
    for (std::uint64_t round = 0; round < 40; ++round) {
      const Keys keys = different_keys(round, 700);
      const Floats gradients = gradients_of(round, keys.size() * spec.width);
      const Floats expected = pulled(*plain, keys);
      Floats found(expected.size());
      const std::size_t there = table->pull_to_learn(keys, found, rows);
      REQUIRE((found == expected));
      CHECK(there == plain->pull(keys, found));
      if (round % 3 == 0) disturb(*plain, round), disturb(*table, round);
      plain->push(keys, gradients);
      table->push_pulled(rows, gradients);
      INFO(spec.width << spec.optimizer << (spec.versions ? " with versions" : "") << " round " << round);
      REQUIRE((pulled(*table, keys) == pulled(*plain, keys)));
      CHECK(table->statistics().rows == plain->statistics().rows);
      CHECK(table->statistics().waiting == plain->statistics().waiting);
    }
  }
}

TEST_CASE("pulled rows under a byte limit stay under it") {
  for (const std::size_t width : {std::size_t{1}, std::size_t{40}}) {
    const auto table = make_table({.width = width, .memory = 1 << 18});
    PulledRows rows;
    for (std::uint64_t round = 0; round < 60; ++round) {
      const Keys keys = different_keys(round / 20 * 7777 + round, 3000);
      Floats weights(keys.size() * width);
      table->pull_to_learn(keys, weights, rows);
      table->push_pulled(rows, weights);
      REQUIRE(table->statistics().peak_bytes <= std::size_t{1} << 18);
    }
    CHECK(table->statistics().rows > 0);
    CHECK(table->statistics().steps == 60);
  }
}

TEST_CASE("threads that learn from the rows that they pulled lose none of each other's steps") {
  const auto table = make_table({.optimizer = "sgd", .learning_rate = 1});
  constexpr std::size_t kThreads = 3, kRounds = 60;
  {
    std::vector<std::jthread> threads;
    for (std::size_t thread = 0; thread < kThreads; ++thread)
      threads.emplace_back([&] {
        PulledRows rows;
        for (std::uint64_t round = 0; round < kRounds; ++round) {
          Keys keys(500);
          for (std::size_t i = 0; i < keys.size(); ++i)
            keys[i] = i * (1 + round / 30);  // rows come meanwhile
          Floats weights(keys.size());
          table->pull_to_learn(keys, weights, rows);
          table->push_pulled(rows, Floats(keys.size(), -1.0f));
        }
      });
  }
  CHECK(pulled(*table, {0, 2, 1}) == Floats{180, 180, 90});
}

}  // namespace gossamer::optim::test
