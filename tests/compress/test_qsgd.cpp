// qsgd: unbiased, its variance, and the generator behind it.
#include <limits>

#include "gossamer_test/catch.h"
#include "philox.h"
#include "vectors.h"

using namespace gossamer::compress;
using namespace gossamer::compress::test;

namespace {

double levels(int bits) { return static_cast<double>((1 << (bits - 1)) - 1); }

double mean_squared_error(const Codec& codec, const Vector& v, std::uint64_t draws) {
  double error = 0;
  for (std::uint64_t r = 0; r < draws; ++r) {
    error += squared_error(decode(encode(codec, v, {.seed = 4, .round = r}), v.size()), v);
  }
  return error / static_cast<double>(draws);
}

}  // namespace

TEST_CASE("Philox gives its published numbers") {
  // Known answer of philox4x32-7 for key 0 and counter 0: 5f6fb709 0d893f64 4f121f81 4f730a48.
  EntryBits::Group group;
  EntryBits(RandomKey{}).group(0, group);
  const std::uint16_t expected[] = {0xb709, 0x5f6f, 0x3f64, 0x0d89, 0x1f81, 0x4f12, 0x0a48, 0x4f73};
  for (std::size_t h = 0; h < 8; ++h) REQUIRE(group[64 * h] == expected[h]);
}

TEST_CASE("every part of the key changes the draws") {
  const RandomKey base{.seed = 5, .peer = 6, .layer = 7, .round = 8};
  std::vector<RandomKey> keys(9, base);
  keys[1].seed ^= 1;
  keys[2].seed ^= std::uint64_t{1} << 40;
  keys[3].peer ^= 1;
  keys[4].layer ^= 1;
  keys[5].round ^= 1;
  keys[6].round ^= std::uint64_t{1} << 40;
  std::swap(keys[7].peer, keys[7].layer);
  keys[8] = {.seed = 8, .peer = 7, .layer = 6, .round = 5};
  for (std::size_t a = 0; a < keys.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      EntryBits::Group first, second;
      EntryBits(keys[a]).group(3, first);
      EntryBits(keys[b]).group(3, second);
      INFO(a << " and " << b);
      REQUIRE(std::count(first.begin(), first.end(), second[0]) < 10);
      REQUIRE(first != second);
    }
  }
}

TEST_CASE("an entry's draw does not depend on the length of the vector") {
  const Vector v = gaussian(2000, 4);
  for (const auto& [bucket, common] : {std::pair{32, 1984}, std::pair{160, 1920}, std::pair{512, 1536}}) {
    const auto codec = make_codec("qsgd:bits=4,bucket=" + std::to_string(bucket));
    const auto count = static_cast<std::size_t>(common);  // whole buckets of both
    const Vector whole = decode(encode(*codec, v), v.size());
    const Vector front = decode(encode(*codec, std::span(v).first(count)), count);
    REQUIRE(same_bits(front, std::span(whole).first(count)));
  }
}

TEST_CASE("qsgd is unbiased") {
  for (const char* spec : {"qsgd:bits=2", "qsgd:bits=4", "qsgd:bits=8", "qsgd:bits=2,norm=l2",
                           "qsgd:bits=4,norm=l2", "qsgd:bits=8,norm=l2", "qsgd:bits=4,random=hash"}) {
    const auto codec = make_codec(spec);
    const std::size_t n = 512;
    const std::uint64_t draws = 10000;
    const Vector v = laplacian(n, 12);
    std::vector<double> sum(n, 0.0);
    for (std::uint64_t r = 0; r < draws; ++r) {
      const Vector decoded = decode(encode(*codec, v, {.seed = 99, .peer = 1, .round = r}), n);
      for (std::size_t i = 0; i < n; ++i) sum[i] += static_cast<double>(decoded[i]) - v[i];
    }
    const double level =
        (is_l2(*codec) ? std::sqrt(squared(v)) : largest(v)) / levels(codec->spec()[10] - '0');
    double worst = 0, total = 0;
    std::size_t drawn = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const double chance = std::fmod(std::fabs(v[i]) / level, 1.0);
      const double expected_hits = static_cast<double>(draws) * chance * (1 - chance);
      if (expected_hits < 20) continue;  // too rare for a normal approximation
      const double z = sum[i] / (level * std::sqrt(expected_hits));
      worst = std::max(worst, std::fabs(z));
      total += z * z;
      ++drawn;
    }
    INFO(spec << ": worst z " << worst << ", mean z² " << total / static_cast<double>(drawn));
    REQUIRE(drawn > n * 8 / 10);
    REQUIRE(worst < 5);
    REQUIRE(total / static_cast<double>(drawn) == Approx(1.0).margin(0.3));
  }
}

TEST_CASE("qsgd rounds to neighbouring levels only") {
  for (const int bits : {2u, 4u, 8u}) {
    for (const char* norm : {"max", "l2"}) {
      const auto codec = make_codec("qsgd:bits=" + std::to_string(bits) + ",norm=" + norm);
      for (const auto& [name, v] : families(512, 3)) {
        const double size = std::string(norm) == "max" ? largest(v) : std::sqrt(squared(v));
        if (size > std::numeric_limits<float>::max()) continue;
        const Vector decoded = decode(encode(*codec, v), 512);
        double worst = 0;
        for (std::size_t i = 0; i < 512; ++i) worst = std::max(worst, std::fabs(double{decoded[i]} - v[i]));
        INFO(codec->spec() << " on " << name);
        REQUIRE(worst <= size / levels(bits) * (1 + 1e-5) + 1.5e-45);
      }
    }
  }
}

TEST_CASE("qsgd with l2 norm keeps to the variance of the paper") {
  for (const int bits : {2u, 4u, 8u}) {
    for (const std::size_t bucket : {32u, 128u, 512u}) {
      const auto codec =
          make_codec("qsgd:norm=l2,bits=" + std::to_string(bits) + ",bucket=" + std::to_string(bucket));
      const double d = static_cast<double>(bucket), s = levels(bits);
      const double bound = std::min(d / (s * s), std::sqrt(d) / s);
      for (const auto& [name, v] : families(bucket, bucket)) {
        if (name == "huge" || name == "all exponents" || name == "tiny") continue;
        INFO(codec->spec() << " on " << name);
        REQUIRE(mean_squared_error(*codec, v, 60) <= 1.1 * bound * squared(v) + 1e-10 * squared(v));
      }
    }
  }
}

TEST_CASE("qsgd with max norm keeps to its variance and reaches it") {
  // One entry 1 and d − 1 of a = (√(1+D/s²) − 1)·s/D, D = d − 1: relative variance (√(1+D/s²) − 1)/2.
  for (const int bits : {2u, 4u, 8u}) {
    const double s = levels(bits), rest = 511;
    const double root = std::sqrt(1 + rest / (s * s)), most = (root - 1) / 2;
    Vector v(512, static_cast<float>((root - 1) * s / rest));
    v[100] = 1;
    const auto codec = make_codec("qsgd:bits=" + std::to_string(bits));
    INFO(codec->spec());
    REQUIRE(mean_squared_error(*codec, v, 200) == Approx(most * squared(v)).epsilon(0.05));
    for (const auto& [name, w] : families(512, 3)) {
      if (name == "tiny") continue;
      INFO(name);
      REQUIRE(mean_squared_error(*codec, w, 30) <= 1.1 * most * squared(w) + 1e-10 * squared(w));
    }
  }
}

TEST_CASE("feedback under max norm keeps the residual within its bound on the worst shape") {
  const auto codec = make_codec("qsgd:bits=4");
  const double s = 7, rest = 511;
  Vector g(512, static_cast<float>((std::sqrt(1 + rest / (s * s)) - 1) * s / rest));
  g[100] = 1;
  FeedbackState state;
  Workspace workspace;
  Bytes out(codec->max_bytes(512));
  double worst = 0;
  for (std::uint64_t round = 0; round < 2000; ++round) {
    (void)codec->encode_feedback(g, state, {.round = round}, workspace, out);
    worst = std::max(worst, largest(state.residual));
  }
  REQUIRE(worst <= 1 / (s - 1) * (1 + 1e-5));
}

TEST_CASE("an l2 norm beyond float's range is refused") {
  const Vector v(600, 3e38f);
  REQUIRE_THROWS_AS(encode(*make_codec("qsgd:norm=l2"), v), EncodeError);
  REQUIRE(decode(encode(*make_codec("qsgd:norm=max"), v), v.size()) == v);
}
