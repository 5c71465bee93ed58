// Sparse models with their table and stream as objectives: what they learn of planted clicks, and their
// figures.
#include "gossamer/optim/click_objective.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <fstream>
#include <numeric>

#include "gossamer/optim/planted_clicks.h"
#include "gossamer_test/catch.h"
#include "rate_features.h"
#include "support.h"

using namespace gossamer::optim;
using gossamer::optim::test::message_of, gossamer::optim::test::TemporaryDirectory,
    gossamer::optim::test::write_plain;

namespace {

constexpr std::uint64_t kTrain = 40000, kTest = 10000;

PlantedSpec planted(std::uint64_t first, std::uint64_t samples, std::size_t peer = 0, std::size_t peers = 1) {
  return {.samples = samples,
          .first = first,
          .fields = 6,
          .keys = 100,
          .linear = 0.6,
          .pairs = 0.1,
          .peer = peer,
          .peers = peers};
}

ClickParts parts_of(const char* kind, std::size_t peer = 0, std::size_t peers = 1) {
  ClickParts parts;
  parts.model.kind = kind;
  parts.model.fields = 6;
  parts.model.factors = 4;
  parts.model.hidden = {8};
  parts.table.optimizer = "adagrad";
  parts.table.learning_rate = 0.05;
  parts.train = [=](std::uint64_t) { return open_planted(planted(0, kTrain, peer, peers)); };
  parts.test = [] { return open_planted(planted(kTrain, kTest)); };
  parts.steps_per_epoch = kTrain / 64 / peers;
  return parts;
}

/// After an epoch; dense parameters by plain SGD.
Figures learned(Objective& objective, std::uint64_t epochs = 1) {
  std::vector<float> x(objective.buffer_size()), g(x.size());
  objective.initialise(1, x);
  for (std::uint64_t step = 0; step < epochs * objective.steps_per_epoch(); ++step) {
    objective.gradient(x, {.step = step}, g, {});
    for (std::size_t i = 0; i < x.size(); ++i) x[i] -= 0.1f * g[i];
  }
  return objective.evaluate(x);
}

/// One sample a batch, whose values are this number of the step's.
class Values final : public SampleStream {
 public:
  explicit Values(std::vector<float> of_step) : of_step_(std::move(of_step)) {}
  bool next(std::size_t, bool bias, SparseBatch& batch) override {
    batch.clear(bias);
    if (step_ == of_step_.size()) return false;
    const std::array<std::uint64_t, 2> keys{7, 8};
    const std::array<std::uint32_t, 2> fields{0, 1};
    const std::array<float, 2> values{of_step_[step_], of_step_[step_]};
    batch.add({keys, fields, values, 1, step_, step_});
    ++step_;
    return true;
  }
  StreamCounters counters() const override { return {}; }
  void share_anew(const SampleStreamSpec&) override {}

 private:
  std::vector<float> of_step_;
  std::size_t step_ = 0;
};

std::vector<float> weights_of(const Table& table) {
  std::vector<float> all;
  for (const std::uint64_t key : {7u, 8u}) {
    std::vector<float> row(table.spec().width);
    table.pull(std::array{key}, row);
    all.insert(all.end(), row.begin(), row.end());
  }
  return all;
}

std::vector<std::byte> saved_by(const ClickObjective& objective) {
  std::vector<std::byte> saved;
  objective.save([&](std::span<const std::byte> b) { saved.insert(saved.end(), b.begin(), b.end()); });
  return saved;
}
void restore(ClickObjective& objective, std::span<const std::byte> saved) {
  objective.restore([&](std::span<std::byte> to) {
    const std::size_t n = std::min(to.size(), saved.size());
    std::copy_n(saved.begin(), n, to.begin());
    saved = saved.subspan(n);
    return n;
  });
}

}  // namespace

TEST_CASE("every sparse model learns planted clicks out of its table") {
  const double best = PlantedClicks(planted(kTrain, kTest)).best_auc(kTrain, kTrain + kTest);
  for (const auto& row : sparse_model_table()) {
    INFO(row.name);
    const auto objective = make_click_objective(parts_of(row.name));
    const Figures before = objective->evaluate(std::vector<float>(objective->buffer_size()));
    CHECK_FALSE(find_figure(before, "recent_auc"));  // of no sample
    CHECK_FALSE(find_figure(before, "progressive_loss"));
    const Figures figures = learned(*objective);
    CHECK(*find_figure(figures, "auc") > 0.5 + 0.75 * (best - 0.5));
    CHECK(*find_figure(figures, "auc") <= best + 0.01);
    CHECK(*find_figure(figures, "loss") < 0.69);
    CHECK(*find_figure(figures, "progressive_auc") < best + 0.01);
    CHECK(objective->progressive().total().samples() == kTrain / 64 * 64);
    CHECK(objective->table().statistics().rows <= 6 * 100 + 1);
    CHECK(objective->layers().empty() == !row.has_dense);
  }
}

TEST_CASE("a gradient that waits for a command's samples looks up, and waits for none once it is to hurry") {
  ClickParts parts = parts_of("wide_deep");
  parts.train = [](std::uint64_t) {
    return open_samples({.command = "echo '1 2:1'; exec sleep 60", .shuffle = false});
  };
  const auto objective = make_click_objective(std::move(parts));
  std::vector<float> x(objective->buffer_size()), g(x.size(), 7.0f);
  objective->initialise(1, x);
  std::size_t looks = 0, layers = 0;
  const std::function<void()> idle = [&] {
    if (++looks == 3) objective->hurry();
  };
  const StepResult step = objective->gradient(x, {.idle = &idle}, g, [&](std::size_t) { ++layers; });
  CHECK(looks >= 3);
  CHECK(step.left_out);
  CHECK(step.rows == 0);
  CHECK(layers == objective->layers().size());
  CHECK(std::all_of(g.begin(), g.end(), [](float v) { return std::isnan(v); }));
  CHECK(objective->keyed_rows()->changes().keys.empty());
}

TEST_CASE("once it is to hurry a gradient takes the batches that are there, also after it found none") {
  ClickParts parts = parts_of("lr");
  parts.table.admit_after = 3;  // counting takes no steps
  parts.table.statistics = true;
  parts.train = [](std::uint64_t) {
    return open_samples(
        {.command = "echo '1 2:1'; sleep 0.3; printf '1 3:1\\n0 4:1\\n0 5:1\\n'; exec sleep 60",
         .shuffle = false});
  };
  parts.batch = 2;
  const auto objective = make_click_objective(std::move(parts));
  objective->hurry();
  const std::function<void()> idle = [] {};
  std::vector<std::size_t> rows;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  for (std::size_t all = 0; all < 4 && std::chrono::steady_clock::now() < end; all += rows.back())
    rows.push_back(objective->gradient({}, {.idle = &idle}, {}, {}).rows);
  std::erase(rows, 0);
  CHECK(rows == std::vector<std::size_t>{2, 2});
  CHECK(objective->counters().samples == 4);
  CHECK(objective->table().statistics().steps == 2);
}

TEST_CASE("test data without a sample are an error, and their bad lines are counted") {
  const TemporaryDirectory dir;
  const auto tested = [&](const std::string& text) {
    write_plain(dir.file("test"), text);
    ClickParts parts = parts_of("lr");
    parts.test = [&] { return open_samples({.path = dir.file("test"), .threads = 0, .shuffle = false}); };
    return make_click_objective(std::move(parts))->evaluate({});
  };
  CHECK(find_figure(tested("1 2:1\n0 x\n"), "bad_test_lines") == std::optional(1.0));
  CHECK_FALSE(find_figure(tested("1 2:1\n0 3:1\n"), "bad_test_lines"));
  for (const char* text : {"", "\n\n", "1 1:nan\n"})
    CHECK(message_of([&] { tested(text); }).find("found no samples in the test data") != std::string::npos);
  CHECK(message_of([&] { tested("1 1:nan\n"); }).find("test:1:5: found") != std::string::npos);
}

TEST_CASE("the AUC of test data is exact, however near their predictions are") {
  ClickParts parts = parts_of("lr");
  parts.table.optimizer = "sgd";
  parts.table.learning_rate = 1e-4;
  const auto objective = make_click_objective(std::move(parts));
  CHECK(*find_figure(learned(*objective), "auc") > 0.6);
}

TEST_CASE("a stream that ends begins its next epoch, and one without samples is named") {
  ClickParts parts = parts_of("lr");
  std::vector<std::uint64_t> epochs;
  parts.train = [&](std::uint64_t epoch) {
    epochs.push_back(epoch);
    return open_planted(planted(0, 100));
  };
  parts.test = {};
  const auto objective = make_click_objective(parts);
  std::vector<std::size_t> rows;
  for (std::uint64_t step = 0; step < 5; ++step)
    rows.push_back(objective->gradient({}, {.step = step}, {}, {}).rows);
  CHECK(rows == std::vector<std::size_t>{64, 36, 64, 36, 64});
  CHECK(epochs == std::vector<std::uint64_t>{0, 1, 2});
  CHECK_FALSE(find_figure(objective->evaluate({}), "auc"));
  parts.train = [](std::uint64_t) { return open_planted(planted(0, 1, 3, 1000)); };
  CHECK_THROWS_AS(make_click_objective(parts)->gradient({}, {}, {}, {}), OptimError);
}

TEST_CASE("bad lines are those of the text, however often it is read") {
  const TemporaryDirectory dir;
  write_plain(dir.file("train"), "1 2:1\n0 x\n0 3:1\n");
  ClickParts parts = parts_of("lr");
  parts.train = [&](std::uint64_t) { return open_samples({.path = dir.file("train"), .threads = 0}); };
  parts.test = {};
  const auto objective = make_click_objective(std::move(parts));
  for (std::uint64_t step = 0; step < 4; ++step) objective->gradient({}, {.step = step}, {}, {});
  CHECK(*find_figure(objective->evaluate({}), "bad_lines") == 1);
}

TEST_CASE("rows whose gradients are not finite are left as they are, by whomever they are pushed") {
  for (const bool by_caller : {false, true}) {
    ClickParts parts = parts_of("fm");
    parts.train = [](std::uint64_t) { return std::make_unique<Values>(std::vector<float>{1, 3e38f, 1}); };
    const auto objective = make_click_objective(parts);
    KeyedRows& rows = *objective->keyed_rows();
    if (by_caller) rows.leave_to_caller();
    const auto step = [&](std::uint64_t number) {
      const StepResult result = objective->gradient({}, {.step = number}, {}, {});
      const auto [keys, gradients] = rows.changes();
      if (by_caller) rows.table().push(keys, gradients);
      return result;
    };
    const auto before = weights_of(rows.table());
    CHECK_FALSE(step(0).left_out);
    const auto learned = weights_of(rows.table());
    CHECK(learned != before);
    CHECK(step(1).left_out);
    CHECK(rows.changes().keys.empty());
    CHECK(weights_of(rows.table()) == learned);
    CHECK_FALSE(step(2).left_out);
    CHECK(weights_of(rows.table()) != learned);
    CHECK(objective->progressive().total().samples() == 2);
    CHECK(std::isfinite(objective->progressive().total().log_loss()));
  }
}

TEST_CASE("click rates of keys so far are features where the table counts them") {
  ClickParts parts = parts_of("lr");
  // a rate that barely learns by weight: what it predicts comes from the counts
  parts.table.optimizer = "sgd";
  parts.table.learning_rate = 0.0005;
  const auto plain = make_click_objective(parts);
  parts.table.statistics = true;
  const auto counting = make_click_objective(parts);
  const double without = *find_figure(learned(*plain), "auc"), with = *find_figure(learned(*counting), "auc");
  CHECK(with > without + 0.01);
  // one row a field more, but for the keys
  CHECK(counting->table().statistics().rows == plain->table().statistics().rows + 6);
}

TEST_CASE("each field of a sample has a rate, however high its number") {
  constexpr std::uint32_t kHighest = 1U << 24;
  const auto table = make_table({.statistics = true});
  SparseBatch samples, with_rates;
  samples.clear(false);
  const std::array<std::uint64_t, 3> keys{5, 6, 7};
  const std::array<std::uint32_t, 3> fields{kHighest, 3, kHighest};
  const std::array<float, 3> values{1, 1, 1};
  for (std::uint64_t s = 0; s < 200; ++s) samples.add({keys, fields, values, 1, s, s});
  table->push(samples.keys(), std::vector<float>(keys.size(), 0.0f));
  RateFeatures rates;
  rates.observe(*table, samples);
  rates.add(*table, samples, with_rates);
  CHECK(with_rates.entries() == 5 * 200);
  CHECK(with_rates.keys()[3] == rate_key(3));
  CHECK(with_rates.keys()[4] == rate_key(kHighest));
  CHECK(with_rates.fields()[4] == kHighest);
  CHECK(with_rates.values()[3] == with_rates.values()[4]);
}

TEST_CASE("rates are compared with that of all samples by models without an intercept, too") {
  for (const char* kind : {"lr", "dnn"}) {
    ClickParts parts = parts_of(kind);
    parts.table.statistics = true;
    const auto objective = make_click_objective(std::move(parts));
    learned(*objective);
    std::vector<float> all(1), never(1);
    objective->table().click_rates(std::span(&kBiasKey, 1), all);
    const std::uint64_t unknown = 123456789;
    objective->table().click_rates(std::span(&unknown, 1), never);
    INFO(kind);
    CHECK(std::abs(all[0] - never[0]) > 0.05f);
  }
}

TEST_CASE("samples of a text that has grown since it was saved are learned from each once") {
  const TemporaryDirectory dir;
  std::size_t name = 0;
  for (const bool shuffle : {false, true}) {
    const std::string path = dir.file(std::to_string(name++));
    const auto append = [&](std::size_t lines) {
      std::ofstream file(path, std::ios::app);
      for (std::size_t i = 0; i < lines; ++i) file << (i % 3 ? "0 5:1\n" : "1 7:1\n");
    };
    append(100);
    ClickParts parts = parts_of("lr");
    parts.follows = true;
    parts.train = [&](std::uint64_t) {
      return open_samples(
          {.path = path, .follow = true, .patience_s = 0.01, .threads = 0, .shuffle = shuffle});
    };
    std::size_t learned = 0;
    // looks at nothing now and then, as a peer without samples does
    const auto go_on = [&](ClickObjective& objective, std::size_t until) {
      std::size_t idle = 0;
      const std::function<void()> look = [&] {
        if (++idle == 5) objective.hurry();
      };
      while (learned < until && idle < 5) learned += objective.gradient({}, {.idle = &look}, {}, {}).rows;
      if (idle < 5) objective.gradient({}, {.idle = &look}, {}, {});
    };
    const auto first = make_click_objective(parts);
    go_on(*first, 100);
    CHECK(learned == 100);
    const std::vector<std::byte> saved = saved_by(*first);
    append(900);
    const auto second = make_click_objective(parts);
    restore(*second, saved);
    go_on(*second, 1000);
    CHECK(learned == 1000);
    // one that joins has begun to read before it has the state of another
    parts.course = std::make_shared<DataCourse>();
    parts.share_anew = [](SampleStream&) {};
    const auto alone = make_click_objective(parts), joined = make_click_objective(parts);
    restore(*joined, saved);
    go_on(*joined, 1900);
    CHECK(learned == 1900);
    const auto later = make_click_objective(parts);
    restore(*later, saved);  // as a view begins
    append(10);
    go_on(*later, 1910);
    CHECK(learned == 1910);
  }
}

TEST_CASE("samples of a followed text that are drawn from many are learned from each once") {
  const TemporaryDirectory dir;
  const std::string path = dir.file("train");
  std::size_t lines = 0, learned = 0;
  const auto append = [&](std::size_t count) {
    std::ofstream file(path, std::ios::app);
    for (const std::size_t end = lines + count; lines < end; ++lines) file << "1 " << lines << ":1\n";
  };
  ClickParts parts = parts_of("lr");
  parts.follows = true;
  parts.table.optimizer = "adam";  // counts updates
  parts.train = [&](std::uint64_t) {
    return open_samples({.path = path, .follow = true, .patience_s = 0.01, .threads = 0});
  };
  std::vector<std::byte> saved;
  append(300);
  std::unique_ptr<ClickObjective> objective = make_click_objective(parts);
  // some are left; all are drawn, and others come; some of these are left; and so again
  for (const std::size_t until : {128, 300, 428, 492, 800}) {
    if (learned == 300) append(500);
    while (learned < until) learned += objective->gradient({}, {}, {}, {}).rows;
    REQUIRE(learned == until);
    saved = saved_by(*objective);
    if (until == 428) continue;  // it goes on itself
    objective = make_click_objective(parts);
    restore(*objective, saved);
  }
  std::vector<std::uint64_t> keys(800);
  std::iota(keys.begin(), keys.end(), 0);
  std::vector<float> weights(keys.size());
  std::vector<std::uint32_t> versions(keys.size());
  CHECK(objective->table().pull(keys, weights, versions) == keys.size());
  CHECK(std::ranges::count(versions, 1u) == 800);
  saved[0] = std::byte{0};  // as an earlier version began
  CHECK(message_of([&] { restore(*objective, saved); }).find("an earlier version saved") !=
        std::string::npos);
}

TEST_CASE("counts go on where they were saved") {
  for (const bool statistics : {false, true}) {
    ClickParts parts = parts_of("fm");
    parts.table.statistics = statistics;
    const auto first = make_click_objective(parts), second = make_click_objective(parts);
    std::vector<float> x, g;
    for (std::uint64_t step = 0; step < 50; ++step) first->gradient(x, {.step = step}, g, {});
    restore(*second, saved_by(*first));
    for (std::uint64_t step = 50; step < 80; ++step)
      CHECK(first->gradient(x, {.step = step}, g, {}).loss ==
            second->gradient(x, {.step = step}, g, {}).loss);
  }
}
