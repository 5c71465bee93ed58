// randk and threshold: what is kept, how often, what it costs.
#include <map>

#include "gossamer/compress/selection.h"
#include "gossamer_test/catch.h"
#include "vectors.h"

using namespace gossamer::compress;
using namespace gossamer::compress::test;

namespace {

/// Indices where decoded is not 0.
std::vector<std::size_t> kept(const Vector& decoded) {
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < decoded.size(); ++i) {
    if (decoded[i] != 0) all.push_back(i);
  }
  return all;
}

/// Σ (observed − expected)²/expected, with its mean and deviation over χ² taken off: a z-score.
template <class Counts>
double chi_squared_z(const Counts& observed, double cells, double expected) {
  double sum = 0, seen = 0;
  for (const auto& [cell, count] : observed) {
    sum += (count - expected) * (count - expected) / expected;
    ++seen;
  }
  sum += (cells - seen) * expected;
  return (sum - (cells - 1)) / std::sqrt(2 * (cells - 1));
}

}  // namespace

TEST_CASE("randk keeps exactly k distinct entries with their values") {
  for (const std::size_t n : {1u, 2u, 3u, 7u, 31u, 512u, 513u, 4097u, 100003u}) {
    for (const double density : {0.001, 0.25, 1.0}) {
      const auto codec = make_codec("randk:density=" + std::to_string(density));
      const auto k = static_cast<std::size_t>(std::max(1.0, std::ceil(density * static_cast<double>(n))));
      Vector v = gaussian(n, n);
      for (float& x : v) x = x == 0 ? 1 : x;
      const Vector decoded = decode(encode(*codec, v, {.seed = n}), n);
      INFO(density << " of " << n);
      REQUIRE(kept(decoded).size() == k);
      for (const std::size_t i : kept(decoded)) REQUIRE(decoded[i] == v[i]);
    }
  }
}

TEST_CASE("a density keeps the ceiling of the decimal's product") {
  std::size_t pairs = 0, wrong = 0;
  for (int digits = 1; digits <= 5; ++digits) {
    const auto whole = static_cast<std::uint64_t>(std::pow(10, digits) + 0.5);
    for (std::uint64_t part = 1; part <= whole; part += whole > 1000 ? 37 : 1) {
      const double density = std::stod(std::to_string(part) + "e-" + std::to_string(digits));
      for (const std::uint64_t n :
           {1u, 3u, 7u, 10u, 100u, 300u, 1000u, 4096u, 65536u, 100003u, 1000000u, 16777216u, 4294967295u}) {
        wrong += kept_entries(density, n) == (part * n + whole - 1) / whole ? 0 : 1;
        ++pairs;
      }
    }
  }
  REQUIRE(pairs > 50000);
  REQUIRE(wrong == 0);
  REQUIRE(kept_entries(0.07, 100) == 7);
  REQUIRE(kept_entries(0.0700001, 100) == 8);
  REQUIRE(kept_entries(1e-300, 100) == 1);
  REQUIRE(kept_entries(1.0 / 3, 3) == 1);
  REQUIRE(kept_entries(0.5, 0) == 0);
}

TEST_CASE("topk and randk keep what their density says") {
  for (const char* density : {"0.07", "0.14", "0.28", "0.29", "0.55", "0.57", "0.58"}) {
    for (const char* name : {"topk", "randk"}) {
      const auto codec = make_codec(std::string(name) + ":density=" + density);
      const auto k = static_cast<std::size_t>(std::stoi(std::string(density).substr(2)));
      INFO(codec->spec());
      REQUIRE(kept(decode(encode(*codec, Vector(100, 1.0f)), 100)).size() == k);
    }
  }
}

TEST_CASE("randk draws every set of k equally often") {
  const auto codec = make_codec("randk:density=0.4");
  for (const auto& [n, sets] : {std::pair{5u, 10.0}, std::pair{7u, 35.0}, std::pair{10u, 210.0}}) {
    std::map<std::vector<std::size_t>, double> seen;
    const double draws = 200 * sets;
    for (std::uint64_t r = 0; r < static_cast<std::uint64_t>(draws); ++r) {
      ++seen[kept(decode(encode(*codec, Vector(n, 1.0f), {.seed = 3, .round = r}), n))];
    }
    const double z = chi_squared_z(seen, sets, draws / sets);
    INFO(n << ": z " << z);
    REQUIRE(seen.size() == static_cast<std::size_t>(sets));
    REQUIRE(std::fabs(z) < 4.5);
  }
}

TEST_CASE("randk draws every entry and every pair of neighbours equally often") {
  const std::size_t n = 1000;
  const auto codec = make_codec("randk:density=0.1");
  std::map<std::size_t, double> entries;
  double pairs = 0;
  const double draws = 4000;
  for (std::uint64_t r = 0; r < static_cast<std::uint64_t>(draws); ++r) {
    const auto indices =
        kept(decode(encode(*codec, Vector(n, 1.0f), {.seed = 4, .layer = 2, .round = r}), n));
    for (std::size_t j = 0; j < indices.size(); ++j) {
      ++entries[indices[j]];
      pairs += j > 0 && indices[j] == indices[j - 1] + 1 ? 1 : 0;
    }
  }
  // Counts of one entry are binomial with p = 0.1, so that χ² is 0.9 of itself.
  const double expected = draws * 0.1;
  double sum = 0;
  for (const auto& [index, count] : entries)
    sum += (count - expected) * (count - expected) / (0.9 * expected);
  INFO("entries " << (sum - 1000) / std::sqrt(2000.0) << ", pairs " << pairs);
  REQUIRE(std::fabs((sum - 1000) / std::sqrt(2000.0)) < 4.5);
  const double expected_pairs = draws * 999 * (0.1 * 99.0 / 999);
  REQUIRE(std::fabs(pairs - expected_pairs) < 5 * std::sqrt(expected_pairs));
}

TEST_CASE("randk scaled by n/k is unbiased, unscaled leaves 1 − k/n") {
  const std::size_t n = 400;
  const Vector v = laplacian(n, 9);
  const auto scaled = make_codec("randk:density=0.25,scale=1"), plain = make_codec("randk:density=0.25");
  const int draws = 4000;
  std::vector<double> sum(n, 0.0);
  double error = 0;
  for (int r = 0; r < draws; ++r) {
    const RandomKey key{.seed = 8, .round = static_cast<std::uint64_t>(r)};
    const Vector decoded = decode(encode(*scaled, v, key), n);
    for (std::size_t i = 0; i < n; ++i) sum[i] += decoded[i];
    error += squared_error(decode(encode(*plain, v, key), n), v);
  }
  double worst = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double sigma = std::fabs(v[i]) * std::sqrt(3.0 / draws);  // ω = n/k − 1
    worst = std::max(worst, std::fabs(sum[i] / draws - v[i]) / sigma);
  }
  REQUIRE(worst < 5);
  REQUIRE(error / draws == Approx(0.75 * squared(v)).epsilon(0.01));
}

TEST_CASE("randk sends no indices and refuses what leaves float's range") {
  const std::size_t n = 100000;
  REQUIRE(encode(*make_codec("randk"), gaussian(n, 1)).size() == 3 + 3 + 2 + 8 + 4 * 1000);
  REQUIRE_THROWS_AS(encode(*make_codec("randk:scale=1"), Vector(100, 1e38f)), EncodeError);
  REQUIRE_NOTHROW(encode(*make_codec("randk"), Vector(100, 1e38f)));
}

TEST_CASE("threshold keeps what reaches tau and nothing else") {
  for (const double tau : {0.1, 1.0, 1e-40, 1e38}) {
    char spec[64];
    std::snprintf(spec, sizeof spec, "threshold:tau=%.17g", tau);
    const auto codec = make_codec(spec);
    for (const std::size_t n : {1u, 33u, 5000u}) {
      auto all = families(n, 5);
      all.push_back({"at tau", Vector(n, static_cast<float>(tau))});
      for (const auto& [name, v] : all) {
        Vector expected = v;
        for (float& x : expected) x = std::fabs(static_cast<double>(x)) >= tau ? x : 0;
        INFO(spec << " on " << n << ": " << name);
        const Vector decoded = decode(encode(*codec, v), n);
        REQUIRE(std::equal(decoded.begin(), decoded.end(), expected.begin()));
      }
    }
  }
}

TEST_CASE("under feedback threshold keeps the residual under tau") {
  const auto codec = make_codec("threshold:tau=0.5");
  FeedbackState state;
  Workspace workspace;
  Bytes out(codec->max_bytes(1000));
  for (std::uint64_t round = 0; round < 200; ++round) {
    (void)codec->encode_feedback(gaussian(1000, round), state, {}, workspace, out);
    REQUIRE(largest(state.residual) < 0.5);
  }
}
