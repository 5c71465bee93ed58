// Tables as their users see them: rows pulled and pushed, optimisers, admission, eviction, the byte limit.
#include <cmath>
#include <unordered_map>

#include "gossamer/optim/finite.h"
#include "gossamer/optim/table.h"
#include "random.h"
#include "support.h"

namespace gossamer::optim::test {
namespace {

using Keys = std::vector<std::uint64_t>;
using Floats = std::vector<float>;

Floats pulled(const Table& table, const Keys& keys) {
  Floats weights(keys.size() * table.spec().width, -1);
  table.pull(keys, weights);
  return weights;
}

/// Plain scalar loops of the formulas, in double, one weight.
struct Plain {
  const TableSpec spec;
  double w = 0, z = 0, n = 0, m = 0, v = 0;
  int t = 0;
  void step(double g) {
    const double rate = spec.learning_rate;
    if (spec.optimizer == "sgd") {
      w -= rate * g;
    } else if (spec.optimizer == "adagrad") {
      n += g * g;
      w -= rate * g / (std::sqrt(n) + spec.epsilon);
    } else if (spec.optimizer == "adam") {
      ++t;
      m = spec.beta1 * m + (1 - spec.beta1) * g;
      v = spec.beta2 * v + (1 - spec.beta2) * g * g;
      w -= rate * (m / (1 - std::pow(spec.beta1, t))) /
           (std::sqrt(v / (1 - std::pow(spec.beta2, t))) + spec.epsilon);
    } else {
      const double sigma = (std::sqrt(n + g * g) - std::sqrt(n)) / rate;
      z += g - sigma * w;
      n += g * g;
      w = std::abs(z) <= spec.l1
              ? 0
              : -(z - (z > 0 ? spec.l1 : -spec.l1)) / ((spec.beta + std::sqrt(n)) / rate + spec.l2);
    }
  }
};

/// Pushes batches of drifting keys, one in four of them a constant one, and checks the limit at each.
TableStatistics drift(Table& table, std::uint64_t steps, std::size_t batch) {
  Keys keys(batch);
  Floats gradients(batch * table.spec().width, 0.5f);
  for (std::uint64_t t = 0; t < steps; ++t) {
    for (std::size_t i = 0; i < batch; ++i)
      keys[i] = i % 4 == 0 ? bits(9, i) : bits(8, t * batch / 2 + below(t, i, batch * 4));
    table.push(keys, gradients);
    const TableStatistics s = table.statistics();
    REQUIRE(s.bytes <= table.spec().memory);
    REQUIRE(s.peak_bytes <= table.spec().memory);
  }
  return table.statistics();
}

}  // namespace

TEST_CASE("every row optimiser takes the steps of its formula") {
  for (const RowOptimizerInfo& info : row_optimizer_table())
    for (const std::size_t width : {std::size_t{1}, std::size_t{3}, std::size_t{9}}) {
      TableSpec spec{.width = width, .linear = width, .optimizer = info.name, .l1 = 0.3, .l2 = 0.1};
      const auto table = make_table(spec);
      const std::size_t rows = 200;
      Keys keys(rows);
      for (std::size_t i = 0; i < rows; ++i) keys[i] = i * i;
      std::vector<Plain> plain(rows * width, Plain{spec});
      Floats gradients(rows * width);
      for (std::uint64_t t = 0; t < 30; ++t) {
        for (std::size_t i = 0; i < gradients.size(); ++i) {
          gradients[i] = static_cast<float>(normal(t, i));
          plain[i].step(static_cast<double>(gradients[i]));
        }
        table->push(keys, gradients);
      }
      const Floats weights = pulled(*table, keys);
      double worst = 0;
      for (std::size_t i = 0; i < weights.size(); ++i)
        worst = std::max(worst, std::abs(static_cast<double>(weights[i]) - plain[i].w));
      CAPTURE(info.name, width);
      CHECK(worst < 2e-5);
    }
}

TEST_CASE("a row takes adam's steps however many it has had") {
  const TableSpec spec{.width = 1, .linear = 1, .optimizer = "adam"};
  const auto table = make_table(spec);
  Plain plain{spec};
  double worst = 0;
  for (std::uint64_t t = 0; t < 2500; ++t) {
    const auto g = static_cast<float>(normal(t, 0));
    table->push(Keys{7}, Floats{g});
    plain.step(static_cast<double>(g));
    worst = std::max(worst, std::abs(static_cast<double>(pulled(*table, {7})[0]) - plain.w));
  }
  CHECK(worst < 1e-4);
}

TEST_CASE("a missing row gives its first weights and is not made") {
  const TableSpec spec{.width = 5, .linear = 2, .optimizer = "adagrad", .initial_scale = 0.1};
  const auto table = make_table(spec);
  Keys keys(1000);
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = i;
  std::vector<std::uint32_t> versions(keys.size(), 9);
  Floats weights(keys.size() * 5);
  CHECK(table->pull(keys, weights, versions) == 0);
  CHECK(table->statistics().rows == 0);
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    CHECK(weights[5 * i] + weights[5 * i + 1] == 0);
    for (std::size_t k = 2; k < 5; ++k) {
      const auto w = static_cast<double>(weights[5 * i + k]);
      sum += w, squares += w * w;
    }
    CHECK(versions[i] == 0);
  }
  CHECK(std::abs(sum / 3000) < 0.01);
  CHECK(squares / 3000 == Approx(0.01).epsilon(0.1));
  table->push(keys, Floats(weights.size(), 0.0f));
  CHECK(pulled(*table, keys) == weights);  // the row starts as it was said to
  CHECK(table->pull(keys, weights, versions) == 1000);
  CHECK(versions == std::vector<std::uint32_t>(1000, 1));
  CHECK(pulled(*make_table(spec), {3, 4}) == pulled(*table, {3, 4}));
  TableSpec other = spec;
  other.seed = 2;
  CHECK(pulled(*make_table(other), {3, 4}) != pulled(*table, {3, 4}));
}

TEST_CASE("ftrl rows start at weights other than 0, too") {
  const TableSpec spec{.width = 4, .linear = 0, .l1 = 0.2, .l2 = 0.1, .initial_scale = 0.1};
  const auto table = make_table(spec);
  const Floats before = pulled(*table, {7});
  table->push(Keys{7}, Floats(4, 0.0f));
  const Floats after = pulled(*table, {7});
  for (std::size_t i = 0; i < 4; ++i) CHECK(after[i] == Approx(before[i]));
}

TEST_CASE("no finite gradient leaves a row with numbers that are none") {
  for (const RowOptimizerInfo& info : row_optimizer_table())
    for (const std::size_t width : {1, 5}) {
      const auto table = make_table({.width = width, .optimizer = info.name, .learning_rate = 2});
      CAPTURE(info.name, width);
      for (const float g : {1.0f, 1e19f, -3e38f, 3e38f, 3e38f, -1e30f, 2e19f})
        table->push(Keys{7}, Floats(width, g));
      const Floats before = pulled(*table, {7});
      CHECK(all_finite(before));
      table->visit([](const TableRow& row) { CHECK(all_finite(row.weights)); });
      table->push(Keys{7}, Floats(width, 0.5f));
      CHECK(all_finite(pulled(*table, {7})));
    }
}

TEST_CASE("gradients of a key that occurs more than once are summed in the order of the call") {
  const TableSpec spec{.width = 2, .optimizer = "adagrad"};
  const auto table = make_table(spec), other = make_table(spec);
  table->push(Keys{5, 6, 5, 5}, Floats{1, 2, 3, 4, 5, 6, 7, 8});
  other->push(Keys{6, 5}, Floats{3, 4, 13, 16});
  CHECK(pulled(*table, {5, 6}) == pulled(*other, {5, 6}));
  std::vector<std::uint32_t> versions(1);
  Floats weights(2);
  table->pull(Keys{5}, weights, versions);
  CHECK(versions[0] == 1);
  table->push({}, {});
  CHECK(table->pull({}, {}) == 0);
}

TEST_CASE("add changes weights past the optimiser") {
  for (const RowOptimizerInfo& info : row_optimizer_table()) {
    const auto table = make_table({.width = 2, .optimizer = info.name, .l1 = 0.1});
    table->push(Keys{1}, Floats{-1, 0});
    const Floats before = pulled(*table, {1});
    table->add(Keys{1, 2, 1}, Floats{0.25f, -0.25f, 1, 0, 0.25f, 0});
    const Floats after = pulled(*table, {1, 2});
    CAPTURE(info.name);
    CHECK(after[0] == Approx(before[0] + 0.5f));
    CHECK(after[1] == Approx(before[1] - 0.25f));
    CHECK(after[2] == Approx(1));
    CHECK(after[3] == 0);
    CHECK(table->statistics().steps == 1);
  }
}

TEST_CASE("a key gets a row after so many sightings") {
  const auto table = make_table({.admit_after = 3});
  const Keys keys{1, 2, 2, 3, 3, 3};
  table->push(keys, Floats(6, 1.0f));
  CHECK(table->statistics().rows == 1);
  CHECK(table->statistics().waiting == 2);
  table->push(keys, Floats(6, 1.0f));
  CHECK(table->statistics().rows == 2);
  table->push(keys, Floats(6, 1.0f));
  CHECK(table->statistics().rows == 3);
  CHECK(table->statistics().admitted == 3);
}

TEST_CASE("rows go when untouched for long, and sooner when all their weights are 0") {
  const auto table = make_table({.l1 = 10, .evict_after = 80, .evict_zeros_after = 40, .shards = 4});
  Keys zeros, used;
  for (std::uint64_t i = 0; i < 100; ++i) zeros.push_back(i), used.push_back(1000 + i);
  table->push(zeros, Floats(100, 1.0f));
  table->push(used, Floats(100, 100.0f));
  std::uint64_t zeros_gone = 0, used_gone = 0;
  for (std::uint64_t t = 3; t <= 100; ++t) {
    table->push(Keys{5000}, Floats{100});
    const TableStatistics s = table->statistics();
    if (zeros_gone == 0 && s.evicted_zero == 100) zeros_gone = t;
    if (used_gone == 0 && s.evicted_old == 100) used_gone = t;
    if (t < 41) CHECK(s.evicted_zero == 0);
    if (t < 82) CHECK(s.evicted_old == 0);
  }
  CHECK((zeros_gone >= 41 && zeros_gone <= 50));
  CHECK((used_gone >= 82 && used_gone <= 92));
  CHECK(table->statistics().rows == 1);
  CHECK(pulled(*table, {5000})[0] != 0);
  const auto other = make_table({.evict_after = 1000000, .shards = 4});
  other->push(zeros, Floats(100, 1.0f));
  CHECK(other->evict() == 0);
}

TEST_CASE("the byte limit holds while keys drift") {
  for (const std::size_t width : {std::size_t{1}, std::size_t{16}})
    for (const std::size_t memory : {std::size_t{1} << 18, std::size_t{3} << 20}) {
      const TableSpec spec{.width = width, .optimizer = "adagrad", .memory = memory};
      const auto table = make_table(spec);
      const TableStatistics s = drift(*table, 200, memory / 400);
      CAPTURE(width, memory, s.rows, s.bytes, s.evicted_full, s.waiting, s.no_room, s.tightened);
      CHECK(s.tightened >= 1);
      CHECK(s.admit_after >= 2);
      CHECK(s.evicted_full > 0);
      CHECK(s.rows * s.row_bytes > memory / 3);
      CHECK(s.rows == s.admitted - s.evicted_full);
      std::vector<std::uint64_t> constant;
      for (std::size_t i = 0; i < memory / 400; i += 4) constant.push_back(bits(9, i));
      Floats weights(constant.size() * width);
      CHECK(table->pull(constant, weights) > constant.size() * 95 / 100);  // what is used stays
    }
}

TEST_CASE("what a limit has no room for is dropped and counted") {
  const auto table = make_table({.memory = std::size_t{1} << 18, .shards = 4});
  Keys keys(200000);
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = i;
  table->push(keys, Floats(keys.size(), 1.0f));  // in one step nothing is old enough to go
  const TableStatistics s = table->statistics();
  CHECK(s.peak_bytes <= std::size_t{1} << 18);
  CHECK(s.no_room + s.waiting + s.rows == keys.size());
  CHECK(s.rows > 5000);
  CHECK(s.tightened > 0);
}

TEST_CASE("rows keep decayed shows and clicks") {
  const auto table = make_table({.statistics = true, .decay = 0.5, .prior_clicks = 1, .prior_others = 3});
  table->push(Keys{1, 2}, Floats{1, 1});
  table->observe(Keys{1, 3, 1, 2}, Floats{1, 1, 0, 1});
  Floats rates(3);
  table->click_rates(Keys{1, 2, 3}, rates);
  CHECK(rates[0] == Approx((0.5 + 1) / (1.5 + 4)));
  CHECK(rates[1] == Approx(2.0 / 5));
  CHECK(rates[2] == Approx(0.25));
  CHECK_THROWS_AS(make_table({})->observe(Keys{1}, Floats{1}), OptimError);
}

TEST_CASE("rows that are observed are not old") {
  const auto table = make_table({.evict_after = 40, .statistics = true});
  table->push(Keys{1, 2}, Floats{1, 1});
  for (int t = 0; t < 200; ++t) {
    table->push(Keys{3}, Floats{1});
    table->observe(Keys{1}, Floats{1});
  }
  Floats row(1);
  CHECK(table->pull(Keys{1}, row) == 1);
  CHECK(table->pull(Keys{2}, row) == 0);
}

TEST_CASE("a table beside std::unordered_map over random pushes and all sorts of keys") {
  const auto table = make_table({.optimizer = "sgd", .learning_rate = 1, .shards = 8});
  std::unordered_map<std::uint64_t, float> model;
  for (std::uint64_t t = 0; t < 300; ++t) {
    Keys keys;
    Floats gradients;
    for (std::uint64_t i = 0; i < 400; ++i) {
      const std::uint64_t draw = bits(t, i);
      const std::uint64_t key = i % 5 == 0   ? draw % 5000
                                : i % 5 == 1 ? draw << 50
                                : i % 5 == 2 ? ~(draw % 300)
                                : i % 5 == 3 ? 0xABCD'0000'0000'0000ULL | draw % 4096
                                             : unmix(draw % 1000 << 20);
      keys.push_back(key);
      gradients.push_back(static_cast<float>(draw >> 60));
      model[key] -= gradients.back();
    }
    table->push(keys, gradients);
  }
  CHECK(table->statistics().rows == model.size());
  Keys keys;
  for (const auto& [key, weight] : model) keys.push_back(key);
  const Floats weights = pulled(*table, keys);
  std::size_t wrong = 0, seen = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) wrong += weights[i] != model[keys[i]];
  table->visit([&](const TableRow& row) {
    ++seen;
    const auto it = model.find(row.key);
    wrong += it == model.end() || row.weights.size() != 1 || row.weights[0] != it->second;
  });
  CHECK(wrong == 0);
  CHECK(seen == model.size());
}

TEST_CASE("a table's settings are checked") {
  CHECK(offers([] { make_table({.optimizer = "ftrll"}); }, "ftrll", "ftrl"));
  for (const TableSpec& bad :
       {TableSpec{.width = 0}, TableSpec{.linear = 2}, TableSpec{.learning_rate = 0}, TableSpec{.beta = 0},
        TableSpec{.memory = 1000}, TableSpec{.admit_after = 16}, TableSpec{.shards = 3},
        TableSpec{.decay = 0}, TableSpec{.memory = 1 << 20, .filter_bytes = 1 << 20}})
    CHECK_THROWS_AS(make_table(bad), OptimError);
  CHECK(message_of([] { make_table({.admit_after = 16}); }).find("admit_after") != std::string::npos);
}

}  // namespace gossamer::optim::test
