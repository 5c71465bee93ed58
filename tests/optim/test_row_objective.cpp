// A model on rows as an objective: its batches by the split, flipped and taught labels, figures.
#include "gossamer/optim/objective.h"
#include "gossamer_test/catch.h"
#include "support.h"

using namespace gossamer::optim;

namespace {

struct Rows {
  Rows()
      : data(load_data({.rows = 96, .test_rows = 40, .features = 6, .classes = 3, .seed = 4})),
        split({"local_shuffle", 5, {8, 8}}, data.train),
        model(make_model({.kind = "softmax", .features = 6, .classes = 3})),
        x(model->buffer_size(), 0.0f),
        g(x.size()) {
    model->initialise(3, x);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = 0.01f * static_cast<float>(i % 7);
  }
  std::unique_ptr<Objective> objective(std::size_t peer = 1, bool prefetch = false) const {
    return make_row_objective({.model = model,
                               .teachers = {model},
                               .train = data.train,
                               .test = data.test,
                               .split = &split,
                               .peer = peer,
                               .batch = 8,
                               .prefetch = prefetch});
  }
  /// By the objective, at that step.
  std::vector<float> gradient(Objective& of, const BatchKey& key) {
    last = of.gradient(x, key, g, {});
    return {g.begin(), g.end()};
  }
  Data data;
  Split split;
  std::shared_ptr<Model> model;
  std::vector<float> x, g;
  StepResult last;
};

/// A batch and the memory that it stands in.
struct PlainBatch {
  PlainBatch(const Rows& rows, std::size_t peer, std::uint64_t step) : numbers(8), x(8 * 6), labels(8) {
    rows.split.sampler(peer)->rows_of(step, numbers);
    rows.data.train->gather(numbers, x);
    for (std::size_t i = 0; i < 8; ++i) labels[i] = rows.data.train->label(numbers[i]);
  }
  Batch batch() const { return {8, 6, x, labels}; }
  std::vector<std::uint32_t> numbers;
  std::vector<float> x;
  std::vector<std::int32_t> labels;
};

}  // namespace

/// Says when it is asked for another block of an evaluation.
class Watched final : public Model {
 public:
  explicit Watched(std::shared_ptr<Model> model) : model_(std::move(model)) { adopt_layers(*model_); }
  void initialise(std::uint64_t seed, std::span<float> x) const override { model_->initialise(seed, x); }
  double gradient(std::span<float> x, const Batch& batch, std::span<float> g,
                  const OnLayer& on_layer) override {
    return model_->gradient(x, batch, g, on_layer);
  }
  Evaluation evaluate(std::span<const float> x, const Batch& batch) override {
    if (on_block) on_block();
    return model_->evaluate(x, batch);
  }
  std::function<void()> on_block{};

 private:
  std::shared_ptr<Model> model_;
};

TEST_CASE("an evaluation that is under way is given up when it is cancelled, and no later one") {
  const Rows rows;
  const Data data = load_data({.rows = 96, .test_rows = 5000, .features = 6, .classes = 3, .seed = 4});
  const auto model = std::make_shared<Watched>(rows.model);
  const auto objective = make_row_objective(
      {.model = model, .train = rows.data.train, .test = data.test, .split = &rows.split, .batch = 8});
  std::size_t blocks = 0;
  model->on_block = [&] {
    if (++blocks == 2) objective->cancel();
  };
  CHECK_THROWS_AS(objective->evaluate(rows.x), GivenUp);
  CHECK(blocks == 2);
  CHECK_FALSE(objective->evaluate(rows.x).empty());
  CHECK(blocks == 2 + 5);
}

TEST_CASE("an objective's batch is the split's for peer and step, from whichever step on") {
  Rows rows;
  for (const bool prefetch : {false, true}) {
    const auto objective = rows.objective(1, prefetch);
    CHECK(objective->buffer_size() == rows.model->buffer_size());
    CHECK(objective->steps_per_epoch() == 6);
    for (const std::uint64_t step : {0, 1, 2, 9, 10, 3}) {
      const auto found = rows.gradient(*objective, {.step = step});
      CHECK(rows.last.rows == 8);
      const double loss = rows.model->gradient(rows.x, PlainBatch(rows, 1, step).batch(), rows.g, {});
      CHECK(found == rows.g);
      CHECK(rows.last.loss == loss);
    }
  }
}

TEST_CASE("flipped labels are the opposite classes") {
  Rows rows;
  const auto found = rows.gradient(*rows.objective(), {.step = 2, .flip_labels = true});
  PlainBatch plain(rows, 1, 2);
  for (auto& label : plain.labels) label = 2 - label;
  rows.model->gradient(rows.x, plain.batch(), rows.g, {});
  CHECK(found == rows.g);
}

TEST_CASE("teachers label a batch by the weighted mean of what they predict") {
  Rows rows;
  std::vector<float> other = rows.x;
  for (float& v : other) v = -2 * v;
  const std::vector<Teacher> teachers{{0.25f, rows.x, 0}, {0.75f, other, 1}};
  const auto found = rows.gradient(*rows.objective(), {.step = 1, .soft_weight = 0.5f, .teachers = teachers});
  const PlainBatch plain(rows, 1, 1);
  std::vector<float> p(8 * 3), q(8 * 3, 0.0f);
  for (const Teacher& t : teachers) {
    rows.model->predict(t.x, plain.batch(), p);
    for (std::size_t i = 0; i < q.size(); ++i) q[i] += t.weight * p[i];
  }
  Batch batch = plain.batch();
  batch.soft_labels = q;
  batch.soft_weight = 0.5f;
  rows.model->gradient(rows.x, batch, rows.g, {});
  CHECK(found == rows.g);
}

TEST_CASE("an evaluation has figures by name") {
  Rows rows;
  const auto figures = rows.objective()->evaluate(rows.x);
  const Evaluation plain = evaluate(*rows.model, rows.x, *rows.data.test);
  CHECK(find_figure(figures, "accuracy") == plain.accuracy());
  CHECK(find_figure(figures, "loss") == plain.loss());
  CHECK_FALSE(find_figure(figures, "auc"));
}

TEST_CASE("an external step is the difference that it makes") {
  const auto optimizer =
      make_external_optimizer([](double place, std::size_t offset, std::span<const float> x,
                                 std::span<const float> g, std::span<float> after) {
        CHECK(place == 7);
        CHECK(offset == 16);
        for (std::size_t i = 0; i < x.size(); ++i) after[i] = x[i] - 0.5f * g[i];
      });
  const std::vector<float> x{1, 2, 3};
  std::vector<float> g{2, 4, -8};
  optimizer->step(7, 16, x, g, g);
  CHECK(g == std::vector<float>{1, 2, -4});
}
