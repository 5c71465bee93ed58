#include <cmath>
#include <functional>

#include "gossamer/optim/large_vector.h"
#include "support.h"

namespace gossamer::optim::test {
namespace {

/// The steps of one parameter x = 2 that stays where it is, for the gradients given.
std::vector<double> steps_of(const OptimizerSpec& spec, const std::vector<float>& gradients) {
  const auto optimizer = make_optimizer(spec, 16);
  const float x = 2;
  std::vector<double> steps;
  for (std::size_t t = 0; t < gradients.size(); ++t) {
    float u = 0;
    optimizer->step(static_cast<double>(t), 5, {&x, 1}, {&gradients[t], 1}, {&u, 1});
    steps.push_back(static_cast<double>(u));
  }
  return steps;
}

}  // namespace

TEST_CASE("optimisers take the steps of their formulas") {
  OptimizerSpec spec{.kind = "sgd", .learning_rate = 0.1, .momentum = 0.5, .weight_decay = 0.25};
  const std::vector<float> g{1, -3};
  SECTION("sgd adds the weight decay to the gradient") {
    const auto u = steps_of(spec, g);
    CHECK(u[0] == Approx(0.1 * 1.5));
    CHECK(u[1] == Approx(0.1 * -2.5));
  }
  SECTION("momentum") {
    spec.kind = "momentum";
    const auto u = steps_of(spec, g);
    CHECK(u[0] == Approx(0.1 * 1.5));
    CHECK(u[1] == Approx(0.1 * (0.5 * 1.5 - 2.5)));
  }
  SECTION("nesterov") {
    spec.kind = "nesterov";
    const auto u = steps_of(spec, g);
    CHECK(u[0] == Approx(0.1 * (1.5 + 0.5 * 1.5)));
    CHECK(u[1] == Approx(0.1 * (-2.5 + 0.5 * (0.5 * 1.5 - 2.5))));
  }
  SECTION("quasi-global momentum follows what the parameters did") {
    spec.kind = "quasi_global";
    const auto optimizer = make_optimizer(spec, 16);
    float u = 0, x = 2;
    optimizer->step(0, 5, {&x, 1}, {&g[0], 1}, {&u, 1});
    CHECK(u == Approx(0.1 * 1.5));
    x = 1.5f;  // not x - u: neighbours had their say
    optimizer->step(1, 5, {&x, 1}, {&g[1], 1}, {&u, 1});
    CHECK(u == Approx(0.1 * (0.5 * (0.5 * (2 - 1.5) / 0.1) - 3 + 0.25 * 1.5)));
  }
  SECTION("quasi-global momentum of several steps from one mixing to the next") {
    spec.kind = "quasi_global";
    spec.weight_decay = 0;
    spec.steps_between = 3;
    const auto optimizer = make_optimizer(spec, 16);
    float u = 0;
    const auto step = [&](float x, float gradient) {
      optimizer->step(0, 5, {&x, 1}, {&gradient, 1}, {&u, 1});
      return static_cast<double>(u);
    };
    const double rate = 0.1, m = 0.5;
    for (const float x : {2.0f, 1.9f, 1.8f}) CHECK(step(x, 1) == Approx(rate));
    double q = (1 - m) * (2 - 0.9) / (3 * rate);  // mixing made 0.9 of 1.7
    for (const float x : {0.9f, 0.5f, 0.4f}) CHECK(step(x, 2) == Approx(rate * (m * q + 2)));
    q = m * q + (1 - m) * (0.9 - 0.1) / (3 * rate);
    CHECK(step(0.1f, 2) == Approx(rate * (m * q + 2)));
  }
  SECTION("adam decays weights beside the step") {
    spec.kind = "adam";
    const auto u = steps_of(spec, g);
    CHECK(u[0] == Approx(0.1 * (1 + 0.25 * 2)));
    const double m = (0.9 * 0.1 - 0.1 * 3) / (1 - 0.81), v = (0.999 * 0.001 + 0.001 * 9) / (1 - 0.998001);
    CHECK(u[1] == Approx(0.1 * (m / std::sqrt(v) + 0.25 * 2)).epsilon(1e-4));
  }
}

TEST_CASE("state follows the steps that a range took, wherever in the schedule they fall") {
  OptimizerSpec spec{.kind = "adam", .learning_rate = 0.1, .total_steps = 1000};
  const auto steps_at = [&](const std::vector<double>& places, std::size_t other) {
    const auto optimizer = make_optimizer(spec, 16);
    std::vector<double> steps;
    for (const double place : places) {
      float u = 1, x = 2;
      optimizer->step(place, 5, {&x, 1}, {&u, 1}, {&u, 1});
      steps.push_back(static_cast<double>(u));
      for (std::size_t n = 0; n < other; ++n) optimizer->step(place, 9, {&x, 1}, {&u, 1}, {&u, 1});
    }
    return steps;
  };
  const std::vector<double> in_turn{0, 1, 2, 3}, skipping{0, 7.5, 7.5, 900};
  SECTION("adam's correction of bias") {
    for (const std::size_t other : {0U, 3U}) CHECK(steps_at(skipping, other) == steps_at(in_turn, 0));
  }
  SECTION("quasi-global momentum divides by the rate of the step before") {
    spec.kind = "quasi_global";
    spec.schedule = "cosine";
    const auto optimizer = make_optimizer(spec, 16);
    const float g = 1;
    float x = 2, u = 0;
    optimizer->step(250.5, 5, {&x, 1}, {&g, 1}, {&u, 1});
    CHECK(u == Approx(learning_rate(spec, 250.5)));
    x = 1;
    optimizer->step(750, 5, {&x, 1}, {&g, 1}, {&u, 1});
    const double q = (1 - spec.momentum) / learning_rate(spec, 250.5);
    CHECK(u == Approx(learning_rate(spec, 750) * (spec.momentum * q + 1)));
  }
}

TEST_CASE("a step may be written over the gradient and taken range by range") {
  for (const NamedHelp& row : optimizer_table()) {
    INFO(row.name);
    OptimizerSpec spec{.kind = row.name, .weight_decay = 0.01};
    const auto whole = make_optimizer(spec, 1024), parts = make_optimizer(spec, 1024);
    std::vector<float> x(1024), g(1024), u(1024);
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] = static_cast<float>(i % 17), g[i] = static_cast<float>(i % 5) - 2;
    for (const double t : {0, 1, 2}) {
      std::vector<float> in_place = g;
      whole->step(t, 0, x, g, u);
      for (const auto& [first, size] : {std::pair{400U, 624U}, std::pair{0U, 400U}}) {
        const std::span<float> part = std::span(in_place).subspan(first, size);
        parts->step(t, first, std::span(x).subspan(first, size), part, part);
      }
      CHECK(bit_hash(u) == bit_hash(in_place));
    }
  }
}

TEST_CASE("a step that is applied moves x by what the step is, to the bit") {
  std::vector<std::pair<std::string, std::function<std::unique_ptr<Optimizer>()>>> kinds{
      {"external", [] {
         return make_external_optimizer([](double, std::size_t, auto x, auto g, auto after) {
           for (std::size_t i = 0; i < x.size(); ++i) after[i] = x[i] - 0.3f * g[i];
         });
       }}};
  for (const NamedHelp& row : optimizer_table())
    kinds.emplace_back(row.name, [&row] {
      return make_optimizer({.kind = row.name, .learning_rate = 0.3, .weight_decay = 0.01}, 1001);
    });
  for (const auto& [name, make] : kinds) {
    INFO(name);
    const auto steps = make(), applies = make(), in_pieces = make(), in_blocks = make();
    std::vector<float> x(1000), moved(1000), walked(1000), told(1000), g(1000), u(1000);
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] = moved[i] = walked[i] = told[i] = 1 / static_cast<float>(1 + i % 17);
    for (const double t : {0, 1, 2}) {
      for (std::size_t i = 0; i < x.size(); ++i)
        g[i] = std::sin(static_cast<float>(i) + static_cast<float>(t));
      steps->step(t, 1, x, g, u);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] -= u[i];
      std::vector<float> spent = g;
      applies->apply(t, 1, moved, spent);
      CHECK(bit_hash(x) == bit_hash(moved));
      spent = g;
      const auto piece = in_pieces->apply_in_pieces(t, 1, walked, spent);
      const auto block = in_blocks->apply_in_blocks(t, 1, told);
      CHECK(static_cast<bool>(block) == (name != "external"));
      for (const auto& [first, size] : {std::pair{300U, 699U}, std::pair{0U, 300U}, std::pair{999U, 1U}}) {
        piece(first, size);
        const std::vector<float> part(g.begin() + first, g.begin() + first + size);
        if (block) block(first, part);
      }
      CHECK(bit_hash(x) == bit_hash(walked));
      if (block) CHECK(bit_hash(x) == bit_hash(told));
    }
  }
}

TEST_CASE("large vectors begin on a line, or on a huge page, wherever they go") {
  for (const std::size_t n : {1UL, 1000UL, kHugePage / 2, kHugePage}) {
    LargeVector<float> v(n, 1.0f);
    const LargeVector<float> copy = v;
    const std::size_t step = n * sizeof(float) < 2 * kHugePage ? 64 : kHugePage;
    CHECK(reinterpret_cast<std::uintptr_t>(v.data()) % step == 0);
    v.resize(2 * n, 2.0f);
    CHECK(v[n - 1] + v[n] == 3);
    CHECK(copy.back() == 1);
  }
}

TEST_CASE("adam's second moment stands after its steps, and is nowhere far below its mean") {
  OptimizerSpec spec{.kind = "adam", .learning_rate = 1, .beta1 = 0, .second_moment_steps = 2};
  const auto frozen = make_optimizer(spec, 16);
  std::vector<float> x(16), g(16), u(16);
  for (std::size_t i = 0; i < 15; ++i) g[i] = 2;  // the last one has never had a gradient
  for (const double t : {0.0, 1.0}) frozen->step(t, 0, x, g, u);
  CHECK(u[0] == Approx(1));
  CHECK(u[15] == 0);
  for (float& v : g) v = 4;
  frozen->step(2, 0, x, g, u);
  CHECK(u[0] == Approx(2));  // 4/√4: the square of 4 is not taken in
  CHECK(u[15] == Approx(4 / std::sqrt(0.1 * 4 * 15 / 16)));
  frozen->step(3, 0, x, g, u);
  CHECK(u[15] == Approx(4 / std::sqrt(0.1 * 4 * 15 / 16)));
}

TEST_CASE("learning rate schedules") {
  OptimizerSpec spec{.learning_rate = 2, .total_steps = 100};
  SECTION("constant") {
    CHECK(learning_rate(spec, 0) == 2);
    CHECK(learning_rate(spec, 99) == 2);
  }
  SECTION("step drops exactly on time") {
    spec.schedule = "step";
    spec.step_every = 0.1;
    spec.step_factor = 0.5;
    for (int t = 0; t < 100; ++t) CHECK(learning_rate(spec, t) == std::ldexp(2, -(t / 10)));
  }
  SECTION("step may drop many times in a step") {
    spec.schedule = "step";
    spec.step_every = 1e-9;
    spec.step_factor = 1;
    CHECK(learning_rate(spec, 99) == 2);
    spec.step_factor = std::nextafter(1.0, 0.0);
    CHECK(learning_rate(spec, 99) == Approx(2).epsilon(1e-6));
    spec.step_every = 1e-300;
    CHECK(learning_rate(spec, 99) == Approx(0).margin(1e-9));
    spec.step_factor = 1;
    CHECK(learning_rate(spec, 99) == 2);
  }
  SECTION("cosine falls to zero") {
    spec.schedule = "cosine";
    CHECK(learning_rate(spec, 0) == 2);
    CHECK(learning_rate(spec, 50) == Approx(1));
    CHECK(learning_rate(spec, 25) == Approx(1 + std::sqrt(0.5)));
    CHECK(learning_rate(spec, 100) == Approx(0).margin(1e-15));
    CHECK(learning_rate(spec, 1000) == Approx(0).margin(1e-15));
  }
  SECTION("warm-up rises linearly to the full rate") {
    for (const NamedHelp& row : rate_schedule_table()) {
      spec.schedule = row.name;
      spec.step_every = 0.5;
      spec.warmup = 0.1;
      for (int t = 0; t <= 9; ++t) CHECK(learning_rate(spec, t) == Approx(0.2 * (t + 1)));
      CHECK(learning_rate(spec, 9.5) == Approx(2));
      CHECK(learning_rate(spec, 10) == Approx(2));
    }
  }
}

TEST_CASE("wrong optimiser specifications are refused") {
  const auto message = [](const OptimizerSpec& spec) {
    return message_of([&] { make_optimizer(spec, 16); });
  };
  CHECK(message({}).empty());
  CHECK(offers([] { make_optimizer({.kind = "adm"}, 16); }, "adm", "adam"));
  CHECK(offers([] { make_optimizer({.schedule = "cosin"}, 16); }, "cosin", "cosine"));
  CHECK(message({.learning_rate = -1}).find("learning_rate") != std::string::npos);
  CHECK(message({.momentum = 1}).find("momentum") != std::string::npos);
  CHECK(message({.beta1 = 1}).find("beta1") != std::string::npos);
  CHECK(message({.beta2 = -0.1}).find("beta2") != std::string::npos);
  for (const double epsilon : {0.0, 1e-46, 1e-39})
    CHECK(message({.kind = "adam", .epsilon = epsilon}).find("at least 1e-38") != std::string::npos);
  CHECK(message({.weight_decay = -1}).find("weight_decay") != std::string::npos);
  CHECK(message({.schedule = "step"}).find("step_every") != std::string::npos);
  CHECK(message({.schedule = "step", .step_every = 0.5, .step_factor = 2}).find("step_factor") !=
        std::string::npos);
  CHECK(message({.warmup = 1}).find("warmup") != std::string::npos);
  CHECK(message({.total_steps = 0}).find("total_steps") != std::string::npos);
  CHECK(message({.learning_rate = NAN}).find("learning_rate") != std::string::npos);
}

}  // namespace gossamer::optim::test
