#include <cmath>
#include <limits>

#include "support.h"

namespace gossamer::optim::test {
namespace {

double loss_at(Model& objective, std::span<float> x, const Batch& batch) {
  return objective.evaluate(x, batch).loss();
}

}  // namespace

TEST_CASE("gradients agree with central differences") {
  const Data data = blobs(64, 6, 3, 5);
  const OwnedBatch owned(*data.train, 9);
  for (const NamedHelp& row : model_table()) {
    INFO(row.name);
    const auto objective = objective_for(row.name, *data.train);
    Buffer x(*objective), g(*objective);
    objective->initialise(11, x.span());  // a seed whose units all stand clear of their kink
    const double loss = objective->gradient(x.span(), owned.batch, g.span(), {});
    CHECK(loss == Approx(loss_at(*objective, x.span(), owned.batch)).epsilon(1e-6));
    for (const Layer& layer : objective->layers())
      for (std::size_t i = layer.offset; i < layer.offset + layer.size; ++i) {
        const float saved = x[i], high = saved + 0.004f, low = saved - 0.004f;
        x[i] = high;
        const double above = loss_at(*objective, x.span(), owned.batch);
        x[i] = low;
        const double below = loss_at(*objective, x.span(), owned.batch);
        x[i] = saved;
        const double slope = (above - below) / (static_cast<double>(high) - static_cast<double>(low));
        INFO(layer.name << " parameter " << i - layer.offset);
        CHECK(std::abs(slope - static_cast<double>(g[i])) < 5e-5 * (1 + std::abs(slope)));
      }
  }
}

TEST_CASE("softmax and an mlp without hidden layers are the same model") {
  const Data data = blobs(64, 6, 19);
  const OwnedBatch owned(*data.train, 40);
  const auto softmax = objective_for("softmax", *data.train), mlp = objective_for("mlp", *data.train, {});
  REQUIRE(softmax->buffer_size() == mlp->buffer_size());
  Buffer x(*softmax), a(*softmax), b(*softmax);
  softmax->initialise(1, x.span());
  for (std::size_t i = 0; i < 19; ++i) x[6 * 19 + i] = 0.1f * static_cast<float>(i);
  CHECK(softmax->gradient(x.span(), owned.batch, a.span(), {}) ==
        Approx(mlp->gradient(x.span(), owned.batch, b.span(), {})).epsilon(1e-6));
  for (std::size_t i = 0; i < softmax->buffer_size(); ++i) CHECK(a[i] == Approx(b[i]).margin(1e-6));
  const Evaluation ea = softmax->evaluate(x.span(), owned.batch), eb = mlp->evaluate(x.span(), owned.batch);
  CHECK(ea.correct == eb.correct);
  CHECK(ea.rows == 40);
}

TEST_CASE("layers lie one after the other at multiples of 64 bytes") {
  const Data data = blobs(64, 6, 3);
  const auto mlp = objective_for("mlp", *data.train, {5, 4});
  REQUIRE(mlp->layers().size() == 3);
  const Layer &first = mlp->layers()[0], &last = mlp->layers()[2];
  CHECK(first.name == "fc1");
  CHECK(first.size == 35);
  CHECK(first.tensors[0].name == "fc1.weight");
  CHECK(first.tensors[0].shape == std::vector<std::size_t>{6, 5});
  CHECK(first.tensors[1].name == "fc1.bias");
  CHECK(first.tensors[1].offset == 30);
  CHECK(mlp->layers()[1].offset == 48);
  CHECK(last.offset == 80);
  CHECK(mlp->buffer_size() == 96);
  CHECK(mlp->parameters() == 35 + 24 + 15);
  for (const NamedHelp& row : model_table()) {
    const auto objective = objective_for(row.name, *data.train);
    for (const Layer& layer : objective->layers()) CHECK(layer.offset % 16 == 0);
  }
}

TEST_CASE("layers are reported last first and their parameters are then free") {
  const Data data = blobs(64, 6, 3);
  const OwnedBatch owned(*data.train, 8);
  for (const NamedHelp& row : model_table()) {
    INFO(row.name);
    const auto objective = objective_for(row.name, *data.train);
    Buffer x(*objective), expected(*objective), g(*objective);
    objective->initialise(3, x.span());
    objective->gradient(x.span(), owned.batch, expected.span(), {});
    std::vector<std::size_t> order;
    std::fill(g.span().begin(), g.span().end(), 7.0f);  // must be overwritten, padding too
    objective->gradient(x.span(), owned.batch, g.span(), [&](std::size_t l) {
      order.push_back(l);
      const Layer& layer = objective->layers()[l];
      for (std::size_t i = layer.offset; i < layer.offset + layer.size; ++i) {
        CHECK(g[i] == expected[i]);
        x[i] = std::numeric_limits<float>::quiet_NaN();
      }
    });
    CHECK(bit_hash(g.span()) == bit_hash(expected.span()));
    REQUIRE(order.size() == objective->layers().size());
    for (std::size_t i = 0; i < order.size(); ++i) CHECK(order[i] == order.size() - 1 - i);
  }
}

TEST_CASE("initial parameters depend on the seed alone and padding is zero") {
  const Data data = blobs(64, 6, 3);
  for (const NamedHelp& row : model_table()) {
    INFO(row.name);
    const auto objective = objective_for(row.name, *data.train);
    Buffer a(*objective), b(*objective), c(*objective);
    std::fill(a.span().begin(), a.span().end(), 7.0f);
    objective->initialise(3, a.span());
    objective->initialise(3, b.span());
    objective->initialise(4, c.span());
    CHECK(bit_hash(a.span()) == bit_hash(b.span()));
    CHECK(bit_hash(a.span()) != bit_hash(c.span()));
    const Layer& last = objective->layers().back();
    for (std::size_t i = last.offset + last.size; i < objective->buffer_size(); ++i) CHECK(a[i] == 0.0f);
  }
}

TEST_CASE("initial weights of the mlp have the He and Glorot deviations") {
  const auto mlp = make_model({"mlp", {200}, 300, 100});
  Buffer x(*mlp);
  mlp->initialise(1, x.span());
  const auto deviation = [&](const Layer& layer) {
    double square = 0;
    const std::size_t n = layer.tensors[0].shape[0] * layer.tensors[0].shape[1];
    for (std::size_t i = 0; i < n; ++i)
      square += static_cast<double>(x[layer.offset + i] * x[layer.offset + i]);
    return std::sqrt(square / static_cast<double>(n));
  };
  CHECK(deviation(mlp->layers()[0]) == Approx(std::sqrt(2.0 / 300)).epsilon(0.02));
  CHECK(deviation(mlp->layers()[1]) == Approx(std::sqrt(2.0 / 300)).epsilon(0.02));
}

TEST_CASE("bits of the models with own loops are the same from every compiler") {
  const Data data = blobs(256, 20, 5);
  const auto bits_after_training = [&](const char* kind) {
    const auto objective = objective_for(kind, *data.train);
    Buffer x(*objective);
    objective->initialise(1, x.span());
    train(*objective, x.span(),
          {.kind = "adam", .learning_rate = 0.01, .schedule = "cosine", .total_steps = 40}, data.train, 32,
          40);
    return bit_hash(x.span());
  };
  CHECK(bits_after_training("softmax") == 0xa97e1f73ce5f6bdc);
  CHECK(bits_after_training("quadratic") == 0xa2e94da07fcfcf75);
  const auto mlp =
      objective_for("mlp", *data.train);  // its products are OpenBLAS's, its initial parameters are ours
  Buffer x(*mlp);
  mlp->initialise(1, x.span());
  CHECK(bit_hash(x.span()) == 0xcffe6190d0380dca);
}

TEST_CASE("whole-set evaluation is the sum over its rows") {
  const Data data = blobs(2500, 6, 3);
  for (const NamedHelp& row : model_table()) {
    const auto objective = objective_for(row.name, *data.train);
    Buffer x(*objective);
    objective->initialise(1, x.span());
    const OwnedBatch all(*data.train, 2500);
    const Evaluation whole = evaluate(*objective, x.span(), *data.train);
    const Evaluation once = objective->evaluate(x.span(), all.batch);
    CHECK(whole.rows == 2500);
    CHECK(whole.correct == once.correct);
    CHECK(whole.loss() == Approx(once.loss()));
    CHECK(whole.has_accuracy == (std::string(row.name) != "quadratic"));
  }
}

TEST_CASE("a diverged model has a loss that is not finite") {
  const Data data = blobs(64, 6, 3);
  const OwnedBatch owned(*data.train, 8);
  for (const NamedHelp& row : model_table()) {
    const auto objective = objective_for(row.name, *data.train);
    Buffer x(*objective), g(*objective);
    objective->initialise(3, x.span());
    x[0] = std::numeric_limits<float>::quiet_NaN();
    CHECK_FALSE(std::isfinite(objective->gradient(x.span(), owned.batch, g.span(), {})));
  }
}

TEST_CASE("wrong model specifications are refused with advice") {
  const auto mpl = [] { make_model({"mpl", {}, 4, 2}); };
  CHECK(message_of(mpl).find("expected one of softmax, ") != std::string::npos);
  CHECK(offers(mpl, "mpl", "mlp"));
  CHECK_THROWS_AS(make_model({"mlp", {3, 0}, 4, 2}), OptimError);
  CHECK_THROWS_AS(make_model({"mlp", {3}, 4, 0}), OptimError);
  CHECK_THROWS_AS(make_model({"softmax", {}, 0, 2}), OptimError);
  CHECK_THROWS_AS(make_model({"quadratic", {}, 0, 0}), OptimError);
}

}  // namespace gossamer::optim::test
