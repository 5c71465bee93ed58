#include "support.h"

namespace gossamer::optim::test {

TEST_CASE("every optimiser learns the blobs") {
  const Data data = blobs(2048, 16, 4);
  for (const char* kind : {"softmax", "mlp"})
    for (const NamedHelp& row : optimizer_table()) {
      INFO(kind << " with " << row.name);
      const auto objective = objective_for(kind, *data.train, {32});
      Buffer x(*objective);
      objective->initialise(1, x.span());
      const double rate = std::string(row.name) == "adam" ? 0.01 : 0.05;
      train(*objective, x.span(), {.kind = row.name, .learning_rate = rate, .total_steps = 200}, data.train,
            64, 200);
      CHECK(evaluate(*objective, x.span(), *data.test).accuracy() >= 0.95);
    }
}

TEST_CASE("the quadratic converges to the mean of the data") {
  const Data data = blobs(600, 8, 3);
  const auto objective = objective_for("quadratic", *data.train);
  Buffer x(*objective);
  objective->initialise(1, x.span());
  train(*objective, x.span(), {.kind = "sgd", .learning_rate = 1}, data.train, 600, 300);  // whole gradients
  const OwnedBatch all(*data.train, 600);
  for (std::size_t k = 0; k < 8; ++k) {
    double mean = 0;
    for (std::size_t r = 0; r < 600; ++r) mean += static_cast<double>(all.x[r * 8 + k]) / 600;
    CHECK(static_cast<double>(x[k]) == Approx(mean).margin(1e-5));
  }
  CHECK_FALSE(evaluate(*objective, x.span(), *data.test).has_accuracy);
}

TEST_CASE("an mlp learns Fashion-MNIST in one epoch") {
  const std::string path = "/usr/share/datasets/fashion-mnist";
  if (!std::filesystem::exists(path)) GOSSAMER_SKIP("no /usr/share/datasets/fashion-mnist");
  const Data data = load_data({.format = "idx", .path = path});
  const auto objective = objective_for("mlp", *data.train, {64});
  Buffer x(*objective);
  objective->initialise(1, x.span());
  train(*objective, x.span(), {.kind = "momentum", .learning_rate = 0.05}, data.train, 64, 60000 / 64);
  CHECK(evaluate(*objective, x.span(), *data.test).accuracy() > 0.75);
}

}  // namespace gossamer::optim::test
