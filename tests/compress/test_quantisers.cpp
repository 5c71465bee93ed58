// terngrad and intq: what they are unbiased on, how wrong an entry can be, what they cost.
#include <limits>

#include "gossamer_test/catch.h"
#include "vectors.h"

using namespace gossamer::compress;
using namespace gossamer::compress::test;

namespace {

double bits_per_entry(const Codec& codec, std::size_t n) {
  return 8.0 * static_cast<double>(encode(codec, gaussian(n, 1)).size()) / static_cast<double>(n);
}

/// Largest and mean square of (mean decoded − expected)/σ over the entries; spread(i) is one draw's σ.
template <class Spread>
std::pair<double, double> deviation(const Codec& codec, const Vector& v, const Vector& expected,
                                    Spread spread) {
  const std::uint64_t draws = 10000;
  std::vector<double> sum(v.size(), 0.0);
  for (std::uint64_t r = 0; r < draws; ++r) {
    const Vector decoded = decode(encode(codec, v, {.seed = 98, .peer = 3, .round = r}), v.size());
    for (std::size_t i = 0; i < v.size(); ++i) sum[i] += static_cast<double>(decoded[i]) - expected[i];
  }
  double worst = 0, total = 0, counted = 0;
  for (std::size_t i = 0; i < v.size(); ++i) {
    const double sigma = spread(i);
    if (sigma * std::sqrt(static_cast<double>(draws)) < 1e-9) continue;
    const double z = sum[i] / (sigma * std::sqrt(static_cast<double>(draws)));
    worst = std::max(worst, std::fabs(z));
    total += z * z;
    ++counted;
  }
  return {worst, total / counted};
}

}  // namespace

TEST_CASE("terngrad is unbiased on the clipped vector") {
  for (const char* clip : {"none", "2.5", "1", "none,random=hash"}) {
    const auto codec = make_codec(std::string("terngrad:clip=") + clip);
    const Vector v = laplacian(500, 3);
    double limit = largest(v);
    if (clip[0] != 'n') limit = std::min(limit, std::stod(clip) * std::sqrt(squared(v) / 500));
    Vector clipped = v;
    for (float& x : clipped) x = static_cast<float>(std::clamp(static_cast<double>(x), -limit, limit));
    const auto [worst, mean] = deviation(*codec, v, clipped, [&](std::size_t i) {
      const double p = std::fabs(clipped[i]) / limit;
      return p < 0.01 || p > 0.99 ? 0 : limit * std::sqrt(p * (1 - p));
    });
    INFO(clip << ": worst z " << worst << ", mean z² " << mean);
    REQUIRE(worst < 5);
    REQUIRE(mean == Approx(1).margin(0.3));
  }
}

TEST_CASE("terngrad sends three values, and equal entries exactly") {
  const auto codec = make_codec("terngrad");
  const Vector decoded = decode(encode(*codec, gaussian(3001, 4)), 3001);
  for (const float x : decoded) REQUIRE((x == 0 || std::fabs(x) == largest(decoded)));
  const Vector equal(700, -3.5f), most(600, std::numeric_limits<float>::max());
  REQUIRE(decode(encode(*codec, equal), 700) == equal);
  REQUIRE(decode(encode(*codec, most), 600) == most);
  REQUIRE(bits_per_entry(*codec, 100000) == Approx(1.6).margin(0.001));
}

TEST_CASE("intq is wrong by at most its share of the bucket's range") {
  for (const int bits : {2, 4, 8}) {
    for (const char* rounding : {"nearest", "stochastic"}) {
      for (const std::size_t bucket : {32u, 160u, 512u}) {
        const auto codec = make_codec("intq:bits=" + std::to_string(bits) + ",rounding=" + rounding +
                                      ",bucket=" + std::to_string(bucket));
        const double share = std::string(rounding) == "nearest" ? 0.5 : 1;
        for (const auto& [name, v] : families(1000, 3)) {
          const Vector decoded = decode(encode(*codec, v), v.size());
          std::size_t wrong = 0;
          for (std::size_t i = 0; i < v.size(); ++i) {
            const auto from = v.begin() + static_cast<std::ptrdiff_t>(i / bucket * bucket);
            const auto to =
                v.begin() + static_cast<std::ptrdiff_t>(std::min(v.size(), (i / bucket + 1) * bucket));
            const auto [low, high] = std::minmax_element(from, to);
            const double step = (static_cast<double>(*high) - *low) / ((1 << bits) - 1);
            const double rounded = std::fabs(static_cast<double>(v[i])) * 0x1p-23 + 0x1p-149;
            const double error = std::fabs(static_cast<double>(decoded[i]) - v[i]);
            wrong += error > step * share * (1 + 1e-6) + rounded ? 1u : 0u;
            wrong += (v[i] == *low || v[i] == *high) && decoded[i] != v[i] ? 1u : 0u;
          }
          INFO(codec->spec() << " on " << name);
          REQUIRE(wrong == 0);
        }
      }
    }
  }
}

TEST_CASE("intq with stochastic rounding is unbiased") {
  for (const int bits : {2, 4, 8}) {
    const auto codec = make_codec("intq:rounding=stochastic,bits=" + std::to_string(bits) +
                                  (bits == 4 ? ",random=hash" : ""));
    const Vector v = gaussian(512, 6);
    const auto [low, high] = std::minmax_element(v.begin(), v.end());
    const double start = *low, step = (static_cast<double>(*high) - *low) / ((1 << bits) - 1);
    const auto [worst, mean] = deviation(*codec, v, v, [&](std::size_t i) {
      const double p = std::fmod((v[i] - start) / step, 1.0);
      return p < 0.01 || p > 0.99 ? 0 : step * std::sqrt(p * (1 - p));
    });
    INFO(bits << " bits: worst z " << worst << ", mean z² " << mean);
    REQUIRE(worst < 5);
    REQUIRE(mean == Approx(1).margin(0.3));
  }
}

TEST_CASE("intq costs its bits and two numbers per bucket") {
  for (const int bits : {2, 4, 8}) {
    const auto codec = make_codec("intq:bits=" + std::to_string(bits));
    REQUIRE(bits_per_entry(*codec, 102400) == Approx(bits + 64.0 / 512).margin(0.002));
  }
}
