// Aggregation rules: what holds for all of them, each against its definition, and against wrong vectors.
#include "gossamer/optim/aggregate.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "gossamer_test/catch.h"

namespace gossamer::optim::test {
namespace {

using Vector = std::vector<float>;
using Vectors = std::vector<Vector>;

Vector aggregate(const std::string& spec, const Vectors& vectors, std::size_t self = 0, Vector weights = {}) {
  std::vector<std::span<const float>> views(vectors.begin(), vectors.end());
  if (weights.empty()) weights.assign(vectors.size(), 1.0f / static_cast<float>(vectors.size()));
  Vector out(vectors[0].size(), -1.0f);
  make_aggregator(spec, vectors.size())->aggregate({views, weights, self}, out);
  return out;
}

Vectors random_vectors(std::size_t n, std::size_t d, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.5f, 1.0f);
  Vectors vectors(n, Vector(d));
  for (auto& v : vectors)
    for (float& x : v) x = normal(random);
  return vectors;
}

double distance(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    sum += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
  return std::sqrt(sum);
}

Vector mean(const Vectors& vectors) { return aggregate("weighted", vectors); }

const std::vector<std::string> kRobust{
    "median:f=2",           "trimmed_mean:f=2",        "krum:f=2",      "multi_krum:f=2",
    "geometric_median:f=2", "centered_clip:f=2",       "self_clip:f=2", "nnm+trimmed_mean:f=2",
    "nnm+krum:f=2",         "nnm+geometric_median:f=2"};

std::string refusal(const std::string& spec, std::size_t n) {
  try {
    make_aggregator(spec, n);
  } catch (const OptimError& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

}  // namespace

TEST_CASE("every rule keeps what all agree on") {
  for (const NamedHelp& row : aggregator_table()) {
    CAPTURE(row.name);
    const Vector same{1, -2, 3, 0.5f};
    const Vector got = aggregate(row.name, Vectors(7, same));
    if (std::string(row.name) == "vote")
      REQUIRE(got == Vector{1, -1, 1, 1});
    else
      REQUIRE(distance(got, same) < 1e-6);
  }
}

TEST_CASE("every rule is the same when made again, and in any order of the others") {
  for (const auto& spec : kRobust) {
    CAPTURE(spec);
    Vectors vectors = random_vectors(9, 100, 1);
    const Vector first = aggregate(spec, vectors);
    REQUIRE(aggregate(spec, vectors) == first);
    std::reverse(vectors.begin() + 1, vectors.end());
    REQUIRE(distance(aggregate(spec, vectors), first) < 1e-4 * (1 + distance(first, Vector(100))));
  }
}

TEST_CASE("every robust rule stays near the good ones whatever two of nine send") {
  for (const auto& spec : kRobust)
    for (const float size : {0.0f, -10.0f, 1e3f, 1e18f}) {
      CAPTURE(spec, size);
      Vectors vectors = random_vectors(9, 50, 2);
      const Vector good = mean(Vectors(vectors.begin(), vectors.end() - 2));
      double spread = 0;
      for (std::size_t i = 0; i < 7; ++i) spread = std::max(spread, distance(vectors[i], good));
      for (std::size_t i = 7; i < 9; ++i)
        for (float& x : vectors[i]) x *= size;
      REQUIRE(distance(aggregate(spec, vectors), good) < 1.5 * spread);
      if (std::fabs(size) >= 1e3f) REQUIRE(distance(mean(vectors), good) > 10 * spread);
    }
}

TEST_CASE("weights count in a weighted sum") {
  REQUIRE(aggregate("weighted", {{1, 0}, {0, 2}}, 0, {0.25f, 0.75f}) == Vector{0.25f, 1.5f});
}

TEST_CASE("median and trimmed mean are those of each entry") {
  for (const std::size_t n : {1, 2, 3, 4, 5, 8, 13, 16, 31}) {
    const Vectors vectors = random_vectors(n, 131, static_cast<std::uint32_t>(n));
    const Vector median = aggregate("median", vectors);
    const std::size_t f = (n - 1) / 2 / 2;
    const Vector trimmed = aggregate("trimmed_mean:f=" + std::to_string(f), vectors);
    for (std::size_t i = 0; i < 131; ++i) {
      Vector column;
      for (const auto& v : vectors) column.push_back(v[i]);
      std::sort(column.begin(), column.end());
      REQUIRE(static_cast<double>(median[i]) ==
              Approx((static_cast<double>(column[(n - 1) / 2]) + static_cast<double>(column[n / 2])) / 2));
      double sum = 0;
      for (std::size_t r = f; r < n - f; ++r) sum += static_cast<double>(column[r]);
      REQUIRE(static_cast<double>(trimmed[i]) == Approx(sum / static_cast<double>(n - 2 * f)).margin(1e-5));
    }
  }
}

TEST_CASE("krum chooses one vector, multi-krum the mean of several") {
  const Vectors vectors{{0, 0}, {0.1f, 0}, {0, 0.1f}, {9, 9}, {0.05f, 0.05f}, {-9, 9}, {0.1f, 0.1f}};
  const Vector chosen = aggregate("krum:f=2", vectors);
  REQUIRE(std::find(vectors.begin(), vectors.end(), chosen) != vectors.end());
  REQUIRE(chosen == Vector{0.05f, 0.05f});
  const Vector several = aggregate("multi_krum:f=2,keep=3", vectors);
  REQUIRE(distance(several, {0.05f, 0.05f}) < 0.08);
}

TEST_CASE("the geometric median has the least sum of distances") {
  const Vectors vectors = random_vectors(7, 5, 3);
  const auto cost = [&](const Vector& z) {
    double sum = 0;
    for (const auto& v : vectors) sum += distance(z, v);
    return sum;
  };
  const Vector best = aggregate("geometric_median:rounds=200", vectors);
  for (std::size_t i = 0; i < 5; ++i)
    for (const float step : {-0.01f, 0.01f}) {
      Vector other = best;
      other[i] += step;
      REQUIRE(cost(other) >= cost(best));
    }
}

/// What plain Weiszfeld comes to from the mean, in as many rounds as it takes.
Vector long_weiszfeld(const Vectors& vectors) {
  std::vector<double> z(vectors[0].size());
  for (const auto& v : vectors)
    for (std::size_t i = 0; i < z.size(); ++i)
      z[i] += static_cast<double>(v[i]) / static_cast<double>(vectors.size());
  for (int round = 0; round < 20000; ++round) {
    std::vector<double> next(z.size());
    double sum = 0;
    for (const auto& v : vectors) {
      const double beta = 1 / std::max(1e-12, distance(v, Vector(z.begin(), z.end())));
      sum += beta;
      for (std::size_t i = 0; i < z.size(); ++i) next[i] += beta * static_cast<double>(v[i]);
    }
    for (std::size_t i = 0; i < z.size(); ++i) z[i] = next[i] / sum;
  }
  return {z.begin(), z.end()};
}

/// Each vector replaced by the mean of its n − f nearest.
Vectors mixed(const Vectors& vectors, std::size_t f) {
  Vectors all;
  for (const auto& v : vectors) {
    Vectors near = vectors;
    std::stable_sort(near.begin(), near.end(),
                     [&](const Vector& a, const Vector& b) { return distance(a, v) < distance(b, v); });
    near.resize(vectors.size() - f);
    all.push_back(mean(near));
  }
  return all;
}

TEST_CASE("the geometric median settles, also of mixed vectors of which some coincide") {
  for (std::uint32_t seed = 0; seed < 12; ++seed) {
    CAPTURE(seed);
    Vectors vectors = random_vectors(9, 6, seed);
    for (std::size_t i = 0; i < 6; ++i) vectors[7][i] *= 30, vectors[8][i] = 20 - vectors[8][i];
    REQUIRE(distance(aggregate("geometric_median:f=2", vectors), long_weiszfeld(vectors)) < 2e-3);
    const Vectors near = mixed(vectors, 2);
    REQUIRE(distance(aggregate("nnm+geometric_median:f=2", vectors), long_weiszfeld(near)) < 2e-3);
  }
  Vectors huge = random_vectors(7, 40, 5), far = huge;
  for (std::size_t i = 0; i < 40; ++i) huge[3][i] = i % 2 ? 1e18f : -1e18f, far[3][i] = i % 2 ? 1e6f : -1e6f;
  REQUIRE(distance(aggregate("geometric_median:f=1", huge), aggregate("geometric_median:f=1", far)) < 1e-4);
}

TEST_CASE("the geometric median may be one of the vectors, and stands on none by accident") {
  // A point within a triangle of its own is the median where the three others pull evenly.
  REQUIRE(distance(aggregate("geometric_median", {{0, 0}, {0, 3}, {2.6f, -1.5f}, {-2.6f, -1.5f}}), {0, 0}) <
          1e-5);
  // The median of each entry is the first vector, which is not the geometric one.
  const Vectors vectors{{0, 0}, {1, 5}, {5, 1}, {-1, 4}, {4, -1}};
  REQUIRE(distance(aggregate("geometric_median", {{1, 1}, {1, 5}, {5, 1}, {0.9f, 6}, {6, 0.9f}}),
                   long_weiszfeld({{1, 1}, {1, 5}, {5, 1}, {0.9f, 6}, {6, 0.9f}})) < 1e-3);
  REQUIRE(distance(aggregate("geometric_median", vectors), long_weiszfeld(vectors)) < 1e-3);
  REQUIRE(aggregate("geometric_median", {{2, 3}, {2, 3}, {2, 3}, {9, 9}}) == Vector{2, 3});
}

TEST_CASE("a clipped vector moves the result by its radius at most") {
  const Vectors vectors{{0, 0}, {0, 0}, {0, 0}, {1000, 0}};
  REQUIRE(aggregate("self_clip:radius=2", vectors) == Vector{0.5f, 0});
  REQUIRE(aggregate("self_clip:radius=2", vectors, 3) == Vector{1000 - 1.5f, 0});
  REQUIRE(distance(aggregate("centered_clip:radius=2,rounds=1", vectors), {0.5f, 0}) < 1e-6);
}

TEST_CASE("vote is the majority's sign") {
  REQUIRE(aggregate("vote", {{1, -5, 0}, {2, 3, -1}, {-9, -1, 0}}) == Vector{1, -1, 1});
}

TEST_CASE("what a rule cannot bear or does not know is refused") {
  REQUIRE(contains(refusal("krum:f=2", 6), "expected 2f+2 < n"));
  REQUIRE(refusal("krum:f=2", 7).empty());
  REQUIRE(contains(refusal("median:f=2", 4), "expected 2f < n"));
  REQUIRE(contains(refusal("weighted:f=1", 9), "tolerates no wrong vector"));
  REQUIRE(contains(refusal("trimmed_mean:g=1", 9), "unknown parameter 'g'"));
  REQUIRE(contains(refusal("trimmed_mean:f=-1", 9), "found f='-1'"));
  REQUIRE(contains(refusal("trimmed_mean:f", 9), "expected parameter=value"));
  REQUIRE(contains(refusal("trimed_mean", 9), "trimmed_mean"));
  REQUIRE(contains(refusal("multi_krum:f=1,keep=7", 9), "at most n-f-2 = 6"));
  REQUIRE(contains(refusal("median:rounds=2", 9), "unknown parameter 'rounds'; expected some of f"));
  REQUIRE(contains(refusal("nnm+weighted", 9), "tolerates no wrong vector"));
  REQUIRE(contains(refusal("nnm+", 9), "aggregation rule"));
}

TEST_CASE("a spec is described with every parameter, and its canonical form reads back") {
  REQUIRE(describe_aggregator("krum:f=2").spec == "krum:f=2");
  REQUIRE(describe_aggregator("nnm+multi_krum:f=2").spec == "nnm+multi_krum:f=2,keep=0");
  REQUIRE(describe_aggregator("centered_clip:radius=0.5").spec == "centered_clip:f=0,rounds=0,radius=0.5");
  REQUIRE(describe_aggregator("weighted").spec == "weighted");
  REQUIRE(describe_aggregator("median:f=3").f == 3);
  REQUIRE(describe_aggregator("median").by_entry);
  REQUIRE_FALSE(describe_aggregator("nnm+median:f=1").by_entry);
  for (const NamedHelp& row : aggregator_table()) {
    const AggregatorInfo info = describe_aggregator(row.name);
    REQUIRE(info.name == row.name);
    REQUIRE(describe_aggregator(info.spec).spec == info.spec);
  }
}

TEST_CASE("multi-krum keeps by the neighbourhood at hand, not by the one that it was made for") {
  const auto rule = make_aggregator("multi_krum:f=1", 9);
  const Vectors vectors{{0.0f}, {1.0f}, {2.0f}, {3.0f}, {100.0f}};
  const std::vector<std::span<const float>> views(vectors.begin(), vectors.end());
  Vector out(1);
  rule->aggregate({views, Vector(5, 0.2f), 0}, out);
  REQUIRE(out[0] == 1.5f);  // {1, 2}: the middle of the four that are near
}

}  // namespace gossamer::optim::test
