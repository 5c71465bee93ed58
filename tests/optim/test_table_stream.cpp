// Saving and loading tables, and many threads at one table.
#include <atomic>
#include <thread>

#include "gossamer/optim/table.h"
#include "random.h"
#include "support.h"

namespace gossamer::optim::test {
namespace {

using Bytes = std::vector<std::byte>;

ByteSink into(Bytes& bytes) {
  return [&bytes](std::span<const std::byte> part) { bytes.insert(bytes.end(), part.begin(), part.end()); };
}

/// Gives at most `most` bytes at a time.
ByteSource from(const Bytes& bytes, std::size_t most = 1000) {
  return [&bytes, most, at = std::size_t{0}](std::span<std::byte> to) mutable {
    const std::size_t n = std::min({to.size(), most, bytes.size() - at});
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), n, to.begin());
    at += n;
    return n;
  };
}

std::unique_ptr<Table> filled(const TableSpec& spec, std::size_t rows, std::uint64_t steps) {
  auto table = make_table(spec);
  std::vector<std::uint64_t> keys(rows);
  std::vector<float> gradients(rows * spec.width);
  for (std::uint64_t t = 0; t < steps; ++t) {
    for (std::size_t i = 0; i < rows; ++i) keys[i] = bits(1, i * (t + 1));
    for (std::size_t i = 0; i < gradients.size(); ++i) gradients[i] = static_cast<float>(normal(t, i));
    table->push(keys, gradients);
    if (spec.statistics) table->observe(keys, std::vector<float>(rows, 1.0f));
  }
  return table;
}

struct Row {
  std::vector<float> weights;
  std::uint32_t version;
  float shows, clicks;
  bool operator==(const Row&) const = default;
};

std::map<std::uint64_t, Row> rows_of(const Table& table) {
  std::map<std::uint64_t, Row> rows;
  table.visit([&](const TableRow& row) {
    rows[row.key] = {{row.weights.begin(), row.weights.end()}, row.version, row.shows, row.clicks};
  });
  return rows;
}

Bytes saved(const Table& table) {
  Bytes bytes;
  table.save(into(bytes));
  return bytes;
}

}  // namespace

TEST_CASE("rows that are loaded under other numbers of ftrl keep their weights") {
  const TableSpec saved{.width = 3, .learning_rate = 0.1, .l1 = 0.05};
  const auto table = make_table(saved);
  for (int step = 1; step < 20; ++step)
    for (std::uint64_t key = 0; key < 30; ++key)
      table->push(std::array{key},
                  std::array{0.01f * static_cast<float>(key), -0.3f / static_cast<float>(step), 1.0f});
  TableSpec other = saved;
  other.learning_rate = 0.02;
  other.beta = 0.5;
  other.l1 = 0.2;
  other.l2 = 0.1;
  Bytes bytes;
  table->save(into(bytes));
  const auto loaded = load_table(other, from(bytes));
  std::vector<std::uint64_t> keys(30);
  std::iota(keys.begin(), keys.end(), 0);
  std::vector<float> before(90), after(90);
  table->pull(keys, before);
  loaded->pull(keys, after);
  std::size_t zeros = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    zeros += before[i] == 0;
    CHECK(after[i] == Approx(before[i]).epsilon(1e-4));
  }
  CHECK(zeros > 0);
  CHECK(zeros < 60);
}

TEST_CASE("a saved table comes back, and goes on as the first would have") {
  for (const RowOptimizerInfo& info : row_optimizer_table())
    for (const std::size_t width : {std::size_t{1}, std::size_t{20}}) {
      TableSpec spec{.width = width, .optimizer = info.name, .initial_scale = 0.1, .statistics = true};
      const auto table = filled(spec, 3000, 3);
      const Bytes bytes = saved(*table);
      const auto back = load_table(spec, from(bytes));
      CHECK(rows_of(*back) == rows_of(*table));
      CHECK(back->statistics().steps == 3);
      const std::vector<std::uint64_t> keys{bits(1, 5), bits(1, 6), 77};
      const std::vector<float> gradients(3 * width, 0.3f);
      table->push(keys, gradients);
      back->push(keys, gradients);
      CHECK(rows_of(*back) == rows_of(*table));
    }
}

TEST_CASE("a large table is loaded whole, again and again, and as lean as it was") {
  const TableSpec spec{.optimizer = "sgd", .versions = false, .shards = 4};
  auto table = filled(spec, 200000, 1);
  const auto rows = rows_of(*table);
  const std::size_t bytes = table->statistics().bytes;
  for (int round = 0; round < 3; ++round) {
    const Bytes stream = saved(*table);
    table = load_table(spec, from(stream));
    CHECK(table->statistics().no_room == 0);
    CHECK(table->statistics().peak_bytes < bytes * 5 / 4 + bytes / 4);
    CHECK(rows_of(*table) == rows);
  }
}

TEST_CASE("a table is loaded with other limits, other shards and other eviction than it was saved with") {
  const TableSpec spec{.width = 2};
  const auto table = filled(spec, 3000, 2);
  TableSpec other = spec;
  other.shards = 4;
  other.seed = 5;
  other.evict_after = 10;
  const Bytes bytes = saved(*table);
  const auto back = load_table(other, from(bytes));
  CHECK(rows_of(*back) == rows_of(*table));
  const Bytes again = saved(*back);
  CHECK(rows_of(*load_table(spec, from(again))) == rows_of(*table));
  other.memory = std::size_t{1} << 18;
  const auto large = saved(*filled(spec, 50000, 1));
  const TableStatistics s = load_table(other, from(large))->statistics();
  CHECK(s.peak_bytes <= other.memory);
  CHECK(s.rows > 3000);
  CHECK(s.no_room + s.evicted_full + s.rows == 50000);
}

TEST_CASE("every truncation and every changed byte of a saved table is refused") {
  const TableSpec spec{.width = 2};
  const Bytes bytes = saved(*filled(spec, 40, 2));
  REQUIRE(load_table(spec, from(bytes))->statistics().rows > 40);
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    const Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n));
    const std::string message = message_of([&] { load_table(spec, from(cut)); });
    REQUIRE(message.find("truncated") != std::string::npos);
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    Bytes changed = bytes;
    changed[i] ^= std::byte{static_cast<unsigned char>(1U << (i % 8))};
    REQUIRE_FALSE(message_of([&] { load_table(spec, from(changed)); }).empty());
  }
}

TEST_CASE("a saved table of another shape is refused with both shapes") {
  const Bytes bytes = saved(*filled({.width = 2}, 10, 1));
  CHECK(message_of([&] {
          load_table({.width = 3}, from(bytes));
        }).find("found rows of 2 weights for ftrl, expected 3") != std::string::npos);
  CHECK_THROWS_AS(load_table({.width = 2, .optimizer = "sgd"}, from(bytes)), OptimError);
  CHECK_THROWS_AS(load_table({.width = 2, .versions = false}, from(bytes)), OptimError);
  CHECK_THROWS_AS(load_table({.width = 2, .statistics = true}, from(bytes)), OptimError);
}

TEST_CASE("threads push, pull, save and evict at once, and nothing is lost") {
  const std::size_t keys = 5000, threads = 4, rounds = 60;
  const TableSpec spec{.width = 3, .linear = 3, .optimizer = "sgd", .learning_rate = 1, .shards = 8};
  const auto table = make_table(spec);
  std::atomic<bool> done{false};
  std::atomic<std::size_t> torn{0};
  std::vector<std::thread> running;
  for (std::size_t thread = 0; thread < threads; ++thread)
    running.emplace_back([&, thread] {
      std::vector<std::uint64_t> mine(keys / 2);
      const std::vector<float> gradients(mine.size() * 3, -1.0f);
      for (std::size_t round = 0; round < rounds; ++round) {
        for (std::size_t i = 0; i < mine.size(); ++i)
          mine[i] = bits(1, (2 * i + (thread + round) % 2) % keys);
        table->push(mine, gradients);
      }
    });
  running.emplace_back([&] {
    std::vector<std::uint64_t> all(keys);
    for (std::size_t i = 0; i < keys; ++i) all[i] = bits(1, i);
    std::vector<float> weights(keys * 3);
    while (!done) {
      table->pull(all, weights);
      for (std::size_t i = 0; i < keys; ++i)
        torn += weights[3 * i] != weights[3 * i + 1] || weights[3 * i] != weights[3 * i + 2];
      table->evict();
    }
  });
  running.emplace_back([&] {
    while (!done) {
      const Bytes bytes = saved(*table);
      load_table(spec, from(bytes))->visit([&](const TableRow& row) {
        torn += row.weights[0] != row.weights[1] || row.weights[0] != static_cast<float>(row.version);
      });
    }
  });
  for (std::size_t thread = 0; thread < threads; ++thread) running[thread].join();
  done = true;
  for (std::size_t thread = threads; thread < running.size(); ++thread) running[thread].join();
  CHECK(torn == 0);
  const auto rows = rows_of(*table);
  CHECK(rows.size() == keys);
  std::size_t wrong = 0;
  for (const auto& [key, row] : rows) wrong += row.version != threads * rounds / 2;
  CHECK(wrong == 0);
}

TEST_CASE("threads under a byte limit stay under it") {
  const TableSpec spec{.width = 20, .optimizer = "adagrad", .memory = std::size_t{1} << 20};
  const auto table = make_table(spec);
  std::vector<std::thread> running;
  for (std::uint64_t thread = 0; thread < 3; ++thread)
    running.emplace_back([&, thread] {
      std::vector<std::uint64_t> keys(300);
      const std::vector<float> gradients(keys.size() * 20, 1.0f);
      for (std::uint64_t round = 0; round < 100; ++round) {
        for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = bits(thread, round * 100 + i);
        table->push(keys, gradients);
      }
    });
  for (std::thread& thread : running) thread.join();
  const TableStatistics s = table->statistics();
  CHECK(s.peak_bytes <= spec.memory);
  CHECK(s.evicted_full > 0);
  CHECK(s.steps == 300);
  CHECK(s.rows == s.admitted - s.evicted_full);
}

}  // namespace gossamer::optim::test
