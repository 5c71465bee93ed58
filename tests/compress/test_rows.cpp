#include <cmath>
#include <map>
#include <numeric>
#include <random>

#include "gossamer/compress/rows.h"
#include "gossamer_test/catch.h"

using namespace gossamer::compress;

namespace {

using Rows = std::map<std::uint64_t, std::vector<double>>;

void add_to(Rows& rows, std::span<const std::uint64_t> keys, std::span<const float> values, double sign = 1) {
  const std::size_t width = keys.empty() ? 0 : values.size() / keys.size();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    auto& row = rows[keys[i]];
    row.resize(width);
    for (std::size_t k = 0; k < width; ++k) row[k] += sign * static_cast<double>(values[i * width + k]);
  }
}

/// Draws what a step changed: few keys often, many seldom.
struct Draw {
  std::mt19937_64 random;
  std::size_t width;
  std::vector<std::uint64_t> keys;
  std::vector<float> values;

  void step(std::size_t count) {
    std::map<std::uint64_t, int> drawn;
    std::exponential_distribution<double> rank(0.01);
    while (drawn.size() < count) drawn[static_cast<std::uint64_t>(rank(random)) * 0x9E3779B97F4A7C15ull] = 1;
    keys.clear();
    values.clear();
    std::normal_distribution<float> change;
    for (const auto& [key, one] : drawn) {
      keys.push_back(key);
      for (std::size_t k = 0; k < width; ++k) values.push_back(change(random));
    }
  }
};

double largest(const Rows& rows) {
  double most = 0;
  for (const auto& [key, row] : rows)
    for (const double v : row) most = std::max(most, std::abs(v));
  return most;
}

const std::vector<RowsSpec>& row_specs() {
  static const std::vector<RowsSpec> all{
      {.density = 0.1},
      {.codec = "dense", .density = 1},
      {.codec = "fp16", .density = 0.5},
      {.width = 9, .codec = "onebit_scaled", .density = 0.2},
      {.width = 5, .linear = 0, .codec = "qsgd:bits=4", .density = 0.3},
      {.width = 3, .linear = 3, .codec = "intq:bits=8", .density = 1},
      {.density = 0.01, .most_unsent = 16},
      {.density = 1, .most_numbered = 0},
      {.density = 0.3, .most_unsent = 64, .most_numbered = 20},
  };
  return all;
}

}  // namespace

TEST_CASE("Rows that were told of are sent or kept, whatever codec and bounds") {
  for (const RowsSpec& spec : row_specs()) {
    INFO(spec.codec << " density " << spec.density << " width " << spec.width << " unsent "
                    << spec.most_unsent << " numbered " << spec.most_numbered);
    RowSender sender(spec);
    RowReceiver receiver(spec);
    Workspace workspace;
    Draw draw{std::mt19937_64(7), spec.width, {}, {}};
    Rows balance;
    for (std::uint64_t step = 0; step < 59; ++step) {
      draw.step(40);
      sender.add(draw.keys, draw.values);
      add_to(balance, draw.keys, draw.values);
      if (step % 5 == 4) continue;  // a message of two steps
      RowChanges told, got;
      const auto payload = sender.encode({1, 0, 0, step}, workspace, &told);
      REQUIRE(decodes_rows(spec, payload));
      receiver.decode(payload, got);
      REQUIRE(got.keys == told.keys);
      REQUIRE(got.values == told.values);
      REQUIRE(std::is_sorted(got.keys.begin(), got.keys.end()));
      add_to(balance, got.keys, got.values, -1);
      std::size_t unsent = 0;
      Rows left = balance;
      sender.visit([&](std::uint64_t key, std::span<const float> e) {
        ++unsent;
        add_to(left, std::span(&key, 1), e, -1);
      });
      REQUIRE(largest(left) < 1e-4);
      REQUIRE(unsent <= spec.most_unsent);
    }
    CHECK(receiver.unknown() == 0);
    if (spec.density == 1 && spec.codec == "dense") CHECK(largest(balance) < 1e-6);
  }
}

TEST_CASE("Who tells of all rows exactly tells of those that have not changed, too") {
  const std::vector<std::uint64_t> keys{3, 5, 9};
  const std::vector<float> values{0, 1, 0};
  const auto told = [&](const RowsSpec& spec) {
    RowSender sender(spec);
    Workspace workspace;
    RowChanges changes;
    sender.add(keys, values);
    sender.encode({1, 0, 0, 0}, workspace, &changes);
    return changes;
  };
  const RowChanges all = told({.codec = "dense", .density = 1});
  CHECK(all.keys == keys);
  CHECK(all.values == values);
  CHECK(told({.codec = "dense", .density = 0.5}).keys == std::vector<std::uint64_t>{5});
  CHECK(told({.codec = "onebit_scaled", .density = 1}).keys == std::vector<std::uint64_t>{5});
}

TEST_CASE("Columns in which no row has changed are told in a few bytes, and are read") {
  constexpr std::size_t kRows = 3000;
  for (RowsSpec spec : row_specs()) {
    spec.width = 64;
    spec.linear = 1;
    spec.density = 1;
    INFO(spec.codec);
    std::vector<std::uint64_t> keys(kRows);
    std::iota(keys.begin(), keys.end(), 1);
    std::vector<float> values(kRows * spec.width);
    for (std::size_t row = 0; row < kRows; ++row) values[row * spec.width] = row % 2 ? 1.0f : -1.0f;
    RowSender sender(spec);
    RowReceiver receiver(spec);
    Workspace workspace;
    RowChanges told, got;
    sender.add(keys, values);
    const auto payload = sender.encode({1, 0, 0, 0}, workspace, &told);
    REQUIRE(decodes_rows(spec, payload));
    receiver.decode(payload, got);
    CHECK(told.keys == keys);
    CHECK(got.values == told.values);
  }
}

TEST_CASE("A short payload of zeros without end is refused before it takes memory") {
  const RowsSpec spec{.width = 4096, .density = 1};
  // one part of 2^17 rows under keys 0, 1, 2 …: 16 KiB that would be 2 GiB of floats
  std::vector<std::byte> payload{std::byte{1},    std::byte{0x80}, std::byte{0x80},
                                 std::byte{8},    std::byte{0},    std::byte{0x80},
                                 std::byte{0x80}, std::byte{8},    std::byte{1}};
  payload.resize(payload.size() + 8);
  payload.resize(payload.size() + (1U << 17) / 8, std::byte{0xFF});
  payload.back() = std::byte{0x7F};
  CHECK_FALSE(decodes_rows(spec, payload));
  RowChanges changes;
  CHECK_THROWS_WITH(RowReceiver(spec).decode(payload, changes), "payload claims more rows than it can hold");
}

TEST_CASE("The threshold follows the density, and rows that come often are known by number") {
  const RowsSpec spec{.density = 0.05};
  RowSender sender(spec);
  Workspace workspace;
  Draw draw{std::mt19937_64(3), 1, {}, {}};
  for (std::uint64_t step = 0; step < 400; ++step) {
    draw.step(200);
    sender.add(draw.keys, draw.values);
    sender.encode({1, 0, 0, step}, workspace);
  }
  const RowCounters& c = sender.counters();
  CHECK(c.touched == 400 * 200);
  CHECK(static_cast<double>(c.sent) / static_cast<double>(c.touched) > 0.045);
  CHECK(static_cast<double>(c.sent) / static_cast<double>(c.touched) < 0.055);
  CHECK(c.introduced < c.sent / 2);
  CHECK(c.flushed == 0);
}

TEST_CASE("A key that was never sent waits until its row has changed by more than those that were") {
  constexpr std::size_t kHalf = 10;
  RowSender sender({.codec = "dense", .density = 0.5});
  Workspace workspace;
  std::vector<std::uint64_t> keys(2 * kHalf);
  std::iota(keys.begin(), keys.end(), 0);
  const std::vector<std::uint64_t> known(keys.begin(), keys.begin() + kHalf);
  const std::vector<std::uint64_t> others(keys.begin() + kHalf, keys.end());
  /// What is sent where the first half changes by so much, and the second.
  auto sent = [&, step = 0](float first, float second) mutable {
    std::vector<float> values(2 * kHalf, first);
    std::fill(values.begin() + kHalf, values.end(), second);
    sender.add(keys, values);
    RowChanges told;
    sender.encode({1, 0, 0, static_cast<std::uint64_t>(step++)}, workspace, &told);
    return told.keys;
  };
  CHECK(sent(2, 1) == known);        // τ = 2/1.2, as half are to go
  CHECK(sent(1.8f, 0.8f) == known);  // both halves hold 1.8
  CHECK(sent(0.5f, 0.3f) == others);
}

TEST_CASE("Rows that changed by far more than the others go exactly, and spoil none of them") {
  const RowsSpec spec{.codec = "onebit", .density = 1};
  constexpr std::size_t kOthers = 99;
  std::mt19937_64 random(2);
  std::uniform_real_distribution<float> change(1, 1.5f);
  std::vector<std::uint64_t> keys;
  std::vector<float> values;
  for (std::size_t i = 0; i < kOthers; ++i) {
    keys.push_back(i);
    values.push_back(change(random) * (random() % 2 ? 1.0f : -1.0f));
  }
  for (const float outlier : {-1000.25f, 40.5f}) {
    keys.push_back(keys.size());
    values.push_back(outlier);
  }
  RowSender sender(spec);
  Workspace workspace;
  RowChanges told;
  sender.add(keys, values);
  const std::size_t bytes = sender.encode({1, 0, 0, 0}, workspace, &told).size();
  REQUIRE(told.keys == keys);
  CHECK(std::equal(values.begin() + kOthers, values.end(), told.values.begin() + kOthers));
  for (std::size_t i = 0; i < kOthers; ++i) CHECK(std::abs(told.values[i] - values[i]) < 0.51f);
  CHECK(sender.counters().sent == keys.size());
  CHECK(sender.counters().flushed == 0);

  // What goes exactly is few rows, however they are spread.
  RowSender of_spread(spec);
  std::exponential_distribution<float> decades(0.2f);
  for (float& v : values) v = std::exp(decades(random));
  of_spread.add(keys, values);
  CHECK(of_spread.encode({1, 0, 0, 0}, workspace).size() < bytes + keys.size() / 16 * sizeof(float) + 16);
}

TEST_CASE("A row that goes exactly where there is no room for the unsent counts once") {
  const RowsSpec spec{.density = 0.5, .most_unsent = 16};
  RowSender sender(spec);
  Workspace workspace;
  std::vector<std::uint64_t> keys;
  std::vector<float> values;
  for (std::uint64_t i = 0; i < 40; ++i) {
    keys.push_back(i);
    values.push_back(i < 2 ? 100.0f : 1.0f + static_cast<float>(i) / 64);
  }
  sender.add(keys, values);
  RowChanges told;
  sender.encode({1, 0, 0, 0}, workspace, &told);
  CHECK(told.values[0] == 100.0f);
  CHECK(told.values[1] == 100.0f);
  CHECK(sender.counters().sent + sender.counters().flushed == told.keys.size());
}

TEST_CASE("A sender and its receiver go on where they were saved") {
  for (const RowsSpec& spec : row_specs()) {
    INFO(spec.codec << " density " << spec.density);
    RowSender sender(spec);
    RowReceiver receiver(spec);
    Workspace workspace;
    Draw draw{std::mt19937_64(11), spec.width, {}, {}};
    RowChanges changes;
    for (std::uint64_t step = 0; step < 20; ++step) {
      draw.step(30);
      sender.add(draw.keys, draw.values);
      if (step < 19) receiver.decode(sender.encode({1, 0, 0, step}, workspace), changes);
    }
    RowSender other(spec);
    RowReceiver second(spec);
    other.restore(sender.save());
    second.restore(receiver.save());
    for (std::uint64_t step = 20; step < 40; ++step) {
      const auto a = sender.encode({1, 0, 0, step}, workspace), b = other.encode({1, 0, 0, step}, workspace);
      REQUIRE(a == b);
      RowChanges of_second;
      receiver.decode(a, changes);
      second.decode(b, of_second);
      REQUIRE(changes.values == of_second.values);
      draw.step(30);
      sender.add(draw.keys, draw.values);
      other.add(draw.keys, draw.values);
    }
    CHECK(other.counters().bytes == sender.counters().bytes);

    const auto saved = sender.save();
    for (std::size_t cut = 0; cut < saved.size(); cut += 7)
      CHECK_THROWS_AS(other.restore(std::span(saved).first(cut)), StateError);
  }
}

TEST_CASE("Payloads of rows that nobody wrote are refused or harmless") {
  const RowsSpec spec{.width = 2, .density = 1};
  RowSender sender(spec);
  RowReceiver receiver(spec);
  Workspace workspace;
  Draw draw{std::mt19937_64(5), 2, {}, {}};
  RowChanges changes;
  for (std::uint64_t step = 0; step < 3; ++step) {
    draw.step(50);
    sender.add(draw.keys, draw.values);
    const auto payload = sender.encode({1, 0, 0, step}, workspace);
    for (std::size_t cut = 0; cut < payload.size(); ++cut)
      REQUIRE_FALSE(decodes_rows(spec, std::span(payload).first(cut)));
    std::mt19937_64 random(step);
    for (int trial = 0; trial < 3000; ++trial) {
      auto bad = payload;
      for (int k = 0; k < 3; ++k) bad[random() % bad.size()] = static_cast<std::byte>(random());
      RowReceiver victim = receiver;
      if (!decodes_rows(spec, bad)) continue;
      victim.decode(bad, changes);
      for (const float v : changes.values) REQUIRE(std::isfinite(v));
    }
    receiver.decode(payload, changes);
  }
  // What goes under a number that was never given is left out.
  RowReceiver late(spec);
  draw.step(50);
  sender.add(draw.keys, draw.values);
  late.decode(sender.encode({1, 0, 0, 9}, workspace), changes);
  CHECK(late.unknown() > 0);
}

TEST_CASE("What rows cannot be sent by is named") {
  CHECK_THROWS_AS(RowSender({.codec = "topk:density=0.1"}), CodecError);
  CHECK_THROWS_AS(RowSender({.codec = "sign_vote"}), CodecError);
  CHECK_THROWS_AS(RowSender({.codec = "no_such"}), CodecError);
  CHECK_THROWS_AS(RowSender({.density = 0}), CodecError);
  CHECK_THROWS_AS(RowSender({.density = 1.5}), CodecError);
  CHECK_THROWS_AS(RowSender({.width = 0}), CodecError);
  CHECK_THROWS_AS(RowSender({.width = 2, .linear = 3}), CodecError);
  CHECK_THROWS_AS(RowSender({.most_unsent = 3}), CodecError);
  RowSender sender({.width = 1});
  const std::uint64_t key = 1;
  const float bad = NAN;
  CHECK_THROWS_AS(sender.add(std::span(&key, 1), std::span(&bad, 1)), EncodeError);
}
