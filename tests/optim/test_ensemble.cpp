// Soft labels, and several models that predict together.
#include "gossamer/optim/ensemble.h"

#include <algorithm>
#include <cmath>

#include "support.h"

namespace gossamer::optim::test {
namespace {

constexpr const char* kClassifiers[] = {"softmax", "mlp"};

/// Probabilities that differ from row to row and sum to 1.
std::vector<float> some_soft_labels(std::size_t rows, std::size_t classes) {
  std::vector<float> q(rows * classes);
  for (std::size_t r = 0; r < rows; ++r) {
    float sum = 0;
    for (std::size_t j = 0; j < classes; ++j)
      sum += q[r * classes + j] = static_cast<float>(1 + (3 * r + 5 * j) % 7);
    for (std::size_t j = 0; j < classes; ++j) q[r * classes + j] /= sum;
  }
  return q;
}

}  // namespace

TEST_CASE("gradients against soft labels agree with central differences") {
  const Data data = blobs(64, 6, 3, 5);
  OwnedBatch owned(*data.train, 9);
  const std::vector<float> q = some_soft_labels(9, 3);
  owned.batch.soft_labels = q;
  for (const char* kind : kClassifiers)
    for (const float weight : {0.3f, 1.0f}) {
      INFO(kind << " at weight " << weight);
      owned.batch.soft_weight = weight;
      const auto objective = objective_for(kind, *data.train);
      Buffer x(*objective), g(*objective), unused(*objective);
      objective->initialise(11, x.span());  // a seed whose units all stand clear of their kink
      objective->gradient(x.span(), owned.batch, g.span(), {});
      const auto loss = [&] { return objective->gradient(x.span(), owned.batch, unused.span(), {}); };
      for (const Layer& layer : objective->layers())
        for (std::size_t i = layer.offset; i < layer.offset + layer.size; ++i) {
          const float saved = x[i], high = saved + 0.004f, low = saved - 0.004f;
          x[i] = high;
          const double above = loss();
          x[i] = low;
          const double below = loss();
          x[i] = saved;
          const double slope = (above - below) / (static_cast<double>(high) - static_cast<double>(low));
          INFO(layer.name << " parameter " << i - layer.offset);
          CHECK(std::abs(slope - static_cast<double>(g[i])) < 5e-5 * (1 + std::abs(slope)));
        }
    }
}

TEST_CASE("soft labels at weight 0, or those of the class itself, change nothing") {
  const Data data = blobs(64, 6, 3, 5);
  OwnedBatch owned(*data.train, 9);
  std::vector<float> hard(9 * 3, 0.0f);
  for (std::size_t r = 0; r < 9; ++r) hard[r * 3 + static_cast<std::size_t>(owned.labels[r])] = 1;
  std::vector<float> other = some_soft_labels(9, 3);
  for (const char* kind : kClassifiers) {
    const auto objective = objective_for(kind, *data.train);
    Buffer x(*objective), plain(*objective), soft(*objective);
    objective->initialise(11, x.span());
    owned.batch.soft_labels = {};
    const double loss = objective->gradient(x.span(), owned.batch, plain.span(), {});
    for (const auto& [q, weight] : {std::pair{&other, 0.0f}, std::pair{&hard, 0.7f}}) {
      owned.batch.soft_labels = *q;
      owned.batch.soft_weight = weight;
      CHECK(objective->gradient(x.span(), owned.batch, soft.span(), {}) == Approx(loss).epsilon(1e-6));
      for (std::size_t i = 0; i < objective->buffer_size(); ++i)
        CHECK(soft[i] == Approx(plain[i]).margin(1e-7));
    }
  }
}

TEST_CASE("a model's own probabilities as labels leave it where it is") {
  const Data data = blobs(64, 6, 3, 5);
  OwnedBatch owned(*data.train, 9);
  for (const char* kind : kClassifiers) {
    const auto objective = objective_for(kind, *data.train);
    Buffer x(*objective), g(*objective);
    objective->initialise(11, x.span());
    std::vector<float> p(9 * objective->classes());
    objective->predict(x.span(), owned.batch, p);
    for (std::size_t r = 0; r < 9; ++r) {
      float sum = 0;
      for (std::size_t j = 0; j < 3; ++j) sum += p[r * 3 + j];
      CHECK(sum == Approx(1).epsilon(1e-6));
    }
    owned.batch.soft_labels = p;
    owned.batch.soft_weight = 1;
    objective->gradient(x.span(), owned.batch, g.span(), {});
    for (const float v : g.span()) CHECK(std::abs(v) < 1e-6f);
  }
}

TEST_CASE("probabilities are those that the loss is of, and a model without classes has none") {
  const Data data = blobs(64, 6, 3, 5);
  const OwnedBatch owned(*data.train, 9);
  for (const char* kind : kClassifiers) {
    const auto objective = objective_for(kind, *data.train);
    Buffer x(*objective);
    objective->initialise(11, x.span());
    std::vector<float> p(9 * 3);
    objective->predict(x.span(), owned.batch, p);
    double loss = 0;
    for (std::size_t r = 0; r < 9; ++r)
      loss -= std::log(p[r * 3 + static_cast<std::size_t>(owned.labels[r])]);
    CHECK(loss == Approx(objective->evaluate(x.span(), owned.batch).loss_sum).epsilon(1e-5));
  }
  const auto quadratic = objective_for("quadratic", *data.train);
  CHECK(quadratic->classes() == 0);
  CHECK(message_of([&] { quadratic->predict({}, owned.batch, {}); }).find("no classes") != std::string::npos);
}

TEST_CASE("the majority wins; ties go to the larger mean probability, then to the lower class") {
  using Votes = std::vector<std::size_t>;
  const std::vector<float> mean{0.2f, 0.5f, 0.3f}, level{0.25f, 0.25f, 0.25f, 0.25f};
  CHECK(vote(Votes{2, 2, 1}, mean) == 2);
  CHECK(vote(Votes{0}, mean) == 0);
  CHECK(vote(Votes{0, 2}, mean) == 2);
  CHECK(vote(Votes{2, 1, 2, 1, 0}, mean) == 1);
  CHECK(vote(Votes{0, 2, 1}, mean) == 1);
  CHECK(vote(Votes{3, 1}, level) == 1);
  CHECK(vote(Votes{3, 2, 3, 2, 0}, level) == 2);
}

TEST_CASE("an ensemble of one is that model, of different models at least as good as their mean") {
  const Data data = blobs(2000, 6, 4, 3);
  const auto wide = objective_for("mlp", *data.train, {9, 5}),
             narrow = objective_for("mlp", *data.train, {4}), flat = objective_for("softmax", *data.train);
  std::vector<Buffer> x;
  std::vector<Member> members;
  std::vector<Evaluation> own;
  for (const auto* o : {&wide, &narrow, &flat}) {
    x.emplace_back(**o);
    (*o)->initialise(7, x.back().span());
    train(**o, x.back().span(), {.kind = "sgd", .learning_rate = 0.1, .total_steps = 60}, data.train, 16, 60);
    members.push_back({o->get(), x.back().span()});
    own.push_back(evaluate(**o, x.back().span(), *data.test));
    const EnsembleEvaluation one = evaluate_ensemble(std::span(&members.back(), 1), *data.test);
    CHECK(one.mean_output.correct == own.back().correct);
    CHECK(one.voted == own.back().correct);
    CHECK(one.mean_output.loss() == Approx(own.back().loss()).epsilon(1e-4));
  }
  const EnsembleEvaluation all = evaluate_ensemble(members, *data.test);
  CHECK(all.mean_output.rows == data.test->rows());
  // −ln is convex: the loss of the mean output is at most the mean loss (Jensen).
  CHECK(all.mean_output.loss() <= (own[0].loss() + own[1].loss() + own[2].loss()) / 3);
  CHECK(all.mean_output.accuracy() >= (own[0].accuracy() + own[1].accuracy() + own[2].accuracy()) / 3);
  CHECK(all.vote_accuracy() > 0.5);
}

TEST_CASE("an ensemble needs classifiers of the same classes") {
  const Data three = blobs(64, 6, 3), four = blobs(64, 6, 4);
  const auto a = objective_for("mlp", *three.train), b = objective_for("mlp", *four.train),
             c = objective_for("quadratic", *three.train);
  Buffer xa(*a), xb(*b), xc(*c);
  const std::vector<Member> unlike{{a.get(), xa.span()}, {b.get(), xb.span()}}, none{{c.get(), xc.span()}};
  CHECK(message_of([&] { evaluate_ensemble(unlike, *three.test); }).find("3 and 4 classes") !=
        std::string::npos);
  CHECK_THROWS_AS(evaluate_ensemble(none, *three.test), OptimError);
}

}  // namespace gossamer::optim::test
