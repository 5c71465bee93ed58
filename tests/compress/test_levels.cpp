// The kernels that qsgd, terngrad and intq share, each against its plain twin; threads; odd buckets.
#include <array>
#include <limits>

#include "gossamer_test/catch.h"
#include "level_kernels.h"
#include "level_kernels_inline.h"
#include "targets.h"
#include "vectors.h"

using namespace gossamer::compress;
using namespace gossamer::compress::test;

namespace {

constexpr std::size_t kGroup = EntryBits::kGroup;

std::vector<std::string> level_specs() {
  return {"qsgd:bits=2",
          "qsgd:bits=4",
          "qsgd:bits=8",
          "qsgd:bits=4,norm=l2",
          "qsgd:bits=8,norm=l2,bucket=96",
          "qsgd:bits=2,bucket=32",
          "qsgd:bucket=131072",
          "qsgd:levels=16",
          "qsgd:levels=3,norm=l2,bucket=32",
          "qsgd:levels=100,bucket=131072",
          "qsgd:levels=128",
          "qsgd:levels=65535,bucket=131072",
          "qsgd:levels=1000,norm=l2,coding=auto",
          "terngrad",
          "terngrad:clip=none",
          "intq",
          "intq:bits=4,bucket=160",
          "intq:bits=2,rounding=stochastic",
          "intq:bits=8,rounding=stochastic,bucket=65568"};
}

/// Payload and residual after two rounds.
std::pair<Bytes, Vector> two_rounds(const Codec& codec, const Vector& g, Threads* threads) {
  Workspace workspace(threads);
  FeedbackState state;
  Bytes out(codec.max_bytes(g.size()));
  std::size_t used = 0;
  for (std::uint64_t round = 0; round < 2; ++round)
    used = codec.encode_feedback(g, state, {.seed = 3, .round = round}, workspace, out);
  out.resize(used);
  state.materialise();
  return {out, Vector(state.residual.begin(), state.residual.end())};
}

/// Levels of every kind, also of very small and very large buckets.
std::vector<Levels> kinds() {
  std::vector<Levels> all;
  for (const unsigned bits : {2u, 4u, 8u}) {
    for (const float norm : {0.0f, 0x1p-140f, 3.7f, 3e38f})
      all.push_back(levels_around_zero(bits, (1u << (bits - 1)) - 1, norm));
    for (const bool stochastic : {false, true}) {
      all.push_back(levels_of_range(bits, -3.5f, 1.25f, stochastic));
      all.push_back(levels_of_range(bits, 0x1p-140f, 0x1p-135f, stochastic));
      all.push_back(levels_of_range(bits, -3e38f, 3e38f, stochastic));
      all.push_back(levels_of_range(bits, 1, 1, stochastic));
    }
  }
  return all;
}

/// Entries inside the levels, the ends and the middle among them.
Vector inside(const Levels& levels, std::size_t n, std::uint64_t seed) {
  const float low = level_value(levels, 0), high = level_value(levels, levels.top);
  std::mt19937_64 random(seed);
  Vector v(n);
  for (float& x : v) {
    const double u = uniform(random);
    x = static_cast<float>(low * (1 - u) + high * u);
    x = std::clamp(x, low, high);
  }
  if (n > 2) v[0] = low, v[1] = high, v[2] = low <= 0 && high >= 0 ? -0.0f : low;
  return v;
}

}  // namespace

TEST_CASE("draws are Philox's on every instruction set") {
  const EntryBits random(
      {.seed = 0x123456789abcdefu, .peer = 7, .layer = 8, .round = std::uint64_t{5} << 33});
  for_each_target([&](const std::string& target) {
    for (const std::size_t group : {0u, 1u, 77u, 67108863u}) {
      Draws draws;
      draw(random, group, draws);
      std::array<std::uint32_t, kGroup / 2> expected;
      random.words(group, expected.data());
      INFO(target << " group " << group);
      REQUIRE(std::equal(expected.begin(), expected.end(), draws.words));
    }
  });
}

TEST_CASE("fields and residuals are the plain ones on every instruction set") {
  Draws draws;
  draw(EntryBits({.seed = 9}), 4, draws);
  for_each_target([&](const std::string& target) {
    for (const Levels& levels : kinds()) {
      for (const auto& [first, n] : {std::pair<std::size_t, std::size_t>{0, 512},
                                     {0, 1},
                                     {32, 31},
                                     {64, 33},
                                     {96, 160},
                                     {480, 32},
                                     {0, 511},
                                     {160, 352}}) {
        const Vector v = inside(levels, n, first + n);
        std::array<std::uint8_t, kGroup> fields{}, expected{};
        Vector residual(n), kept(n);
        quantise(levels, v.data(), n, draws, first, fields.data(), residual.data());
        plain::quantise(levels, v.data(), n, draws, first, expected.data(), kept.data());
        INFO(target << " bits " << levels.bits << " from " << first << ", " << n);
        REQUIRE(fields == expected);
        REQUIRE(same_bits(residual, kept));
        quantise(levels, v.data(), n, draws, first, fields.data(), nullptr);
        REQUIRE(fields == expected);
        Vector acc = gaussian(n, 1), sum = acc;
        add_levels(levels, fields.data(), -0.3f, acc.data(), n);
        plain::add_levels(levels, fields.data(), -0.3f, sum.data(), n);
        REQUIRE(same_bits(acc, sum));
      }
    }
  });
}

TEST_CASE("measuring gives the plain bits on every instruction set") {
  for_each_target([&](const std::string& target) {
    for (const std::size_t n : {1u, 31u, 32u, 33u, 500u, 512u, 4096u, 5000u}) {
      for (const auto& [name, x] : families(n, n)) {
        const Vector e = gaussian(n, 3);
        for (const Measure what : {Measure::largest, Measure::range, Measure::squares}) {
          for (const float* const more : {static_cast<const float*>(nullptr), e.data()}) {
            Vector v(n), expected(n);
            const Measured got = measure(what, x.data(), more, v.data(), n);
            const Measured wanted = plain::measure(what, x.data(), more, expected.data(), n);
            INFO(target << " on " << n << " " << name);
            REQUIRE(same_bits(v, expected));
            REQUIRE(got.largest == wanted.largest);
            if (what == Measure::squares) REQUIRE(got.squares == wanted.squares);
            if (what != Measure::range) continue;
            REQUIRE(std::bit_cast<std::uint32_t>(got.low) == std::bit_cast<std::uint32_t>(wanted.low));
            REQUIRE(std::bit_cast<std::uint32_t>(got.high) == std::bit_cast<std::uint32_t>(wanted.high));
          }
        }
      }
    }
  });
}

TEST_CASE("measuring sees every entry that is not finite") {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    for (std::size_t at = 0; at < 75; ++at) {
      Vector v(75, 1.0f);
      v[at] = bad;
      for (const Measure what : {Measure::largest, Measure::range, Measure::squares})
        REQUIRE_FALSE(std::isfinite(measure(what, v.data(), nullptr, nullptr, v.size()).largest));
    }
  }
}

TEST_CASE("the outermost levels are the norm and the ends to the bit") {
  for (const Levels& levels : kinds()) {
    if (levels.range) {
      REQUIRE(level_value(levels, 0) == levels.low);
      REQUIRE(level_value(levels, levels.top) == levels.high);
    } else {
      REQUIRE(level_value(levels, levels.top) == levels.unit);
      REQUIRE(level_value(levels, 0) == -levels.unit);
      REQUIRE(level_value(levels, levels.top / 2) == 0);
    }
  }
}

TEST_CASE("any number of threads gives the bytes and residuals of one") {
  const std::size_t n = (std::size_t{1} << 20) + 7;
  const Vector g = laplacian(n, 11);
  for (const auto& spec : level_specs()) {
    const auto codec = make_codec(spec);
    const bool feedback = codec->traits().feedback();
    const auto expected =
        feedback ? two_rounds(*codec, g, nullptr) : decltype(two_rounds(*codec, g, nullptr)){};
    const Bytes payload = encode(*codec, g, {.seed = 3});
    Vector sum(n, 1.0f);
    decode_add(payload, 0.3f, sum);
    for (const std::size_t count : {2u, 5u}) {
      Threads threads(count);
      INFO(spec << " with " << count);
      if (feedback) {
        const auto got = two_rounds(*codec, g, &threads);
        REQUIRE((got.first == expected.first));
        REQUIRE(same_bits(got.second, expected.second));
      }
      Vector shared(n, 1.0f);
      decode_add(payload, 0.3f, shared, &threads);
      REQUIRE(same_bits(shared, sum));
    }
  }
}

TEST_CASE("a refused vector leaves the residual of the level codecs, up to rounding") {
  const std::size_t n = 200000;
  for (const auto& spec : level_specs()) {
    const auto codec = make_codec(spec);
    if (!codec->traits().feedback()) continue;
    Threads threads(2);
    Workspace workspace(&threads);
    FeedbackState state;
    Bytes out(codec->max_bytes(n));
    Vector g = gaussian(n, 1);
    (void)codec->encode_feedback(g, state, {}, workspace, out);
    const Vector before(state.residual.begin(), state.residual.end());
    g[150000] = std::numeric_limits<float>::quiet_NaN();
    std::string message;
    try {
      (void)codec->encode_feedback(g, state, {}, workspace, out);
    } catch (const EncodeError& error) {
      message = error.what();
    }
    INFO(spec << ": " << message);
    REQUIRE(message.find("entry 150000 of") != std::string::npos);
    REQUIRE(std::sqrt(squared_error(state.residual, before)) <= 1e-6 * std::sqrt(squared(before) + n));
  }
}
