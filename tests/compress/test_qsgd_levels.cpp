// qsgd with any number of levels: what it promises at every one, and what its payloads are.
#include <bit>

#include "gossamer_test/catch.h"
#include "vectors.h"

using namespace gossamer::compress;
using namespace gossamer::compress::test;

namespace {

constexpr std::size_t kLevelCounts[] = {1,   2,   3,    4,    5,    7,     8,     11,    15,    16,
                                        17,  22,  23,   41,   126,  127,   128,   129,   255,   256,
                                        511, 512, 1000, 4095, 4096, 16383, 32767, 32768, 65534, 65535};

std::string levels_spec(std::size_t s, std::size_t bucket, const std::string& norm) {
  return "qsgd:levels=" + std::to_string(s) + ",bucket=" + std::to_string(bucket) + ",norm=" + norm;
}

/// Mean of ‖Q(v) − v‖²/‖v‖² over the keys.
double relative_variance(const Codec& codec, const Vector& v, std::uint64_t draws) {
  double error = 0;
  for (std::uint64_t r = 0; r < draws; ++r)
    error += squared_error(decode(encode(codec, v, {.seed = 8, .round = r}), v.size()), v);
  return error / static_cast<double>(draws) / squared(v);
}

/// What the rule of Traits says of the l2 norm: no vector of d entries loses more than d/4s² of itself.
double most_variance(double s, double d) {
  return std::min({d / (4 * s * s), d / (s * s), std::sqrt(d) / s});
}

}  // namespace

TEST_CASE("qsgd's traits follow from levels and bucket at every extreme") {
  for (const std::size_t bucket : {32u, 64u, 160u, 512u, 1024u, 4096u, 65536u, 1048576u}) {
    for (const std::size_t s : kLevelCounts) {
      const auto l2 = make_codec(levels_spec(s, bucket, "l2")),
                 max = make_codec(levels_spec(s, bucket, "max"));
      INFO(l2->spec());
      REQUIRE(l2->traits().unbiased);
      REQUIRE(max->traits().unbiased);
      REQUIRE(l2->traits().contractive == (4 * s * s > bucket));
      REQUIRE(max->traits().contractive == (s > 1));
      if (l2->traits().contractive || bucket > 8192) continue;
      // Equal entries lose as much as they are: √d/s − 1 of it.
      const double omega = std::sqrt(static_cast<double>(bucket)) / static_cast<double>(s) - 1;
      REQUIRE(omega >= 1);
      REQUIRE(relative_variance(*l2, Vector(bucket, -0.3f), 40 + 40000 / bucket) ==
              Approx(omega).epsilon(0.1));
    }
    for (const char* norm : {"l2", "max"})
      REQUIRE(make_codec("qsgd:levels=sqrt,bucket=" + std::to_string(bucket) + ",norm=" + norm)
                  ->traits()
                  .contractive);
  }
  // QSGD's 4-bit setting, whose variance bound in the paper is √512/16.
  REQUIRE(make_codec("qsgd:levels=16,norm=l2,bucket=512")->traits().contractive);
}

TEST_CASE("qsgd loses no more under the l2 norm than its levels allow, nor more than a level under max") {
  for (const std::size_t s : kLevelCounts) {
    for (const std::size_t bucket : {32u, 512u}) {
      const auto l2 = make_codec(levels_spec(s, bucket, "l2")),
                 max = make_codec(levels_spec(s, bucket, "max"));
      const double bound = most_variance(static_cast<double>(s), static_cast<double>(bucket));
      for (const auto& [name, v] : families(bucket, 7)) {
        if (name == "huge" || name == "all exponents" || name == "tiny" || squared(v) == 0) continue;
        INFO(l2->spec() << " on " << name);
        REQUIRE(relative_variance(*l2, v, 24) <= 1.2 * bound + 1e-10);
      }
      for (const auto& [name, v] : families(bucket, 3)) {
        const Vector decoded = decode(encode(*max, v), bucket);
        double worst = 0;
        for (std::size_t i = 0; i < bucket; ++i)
          worst = std::max(worst, std::fabs(double{decoded[i]} - v[i]));
        INFO(max->spec() << " on " << name);
        REQUIRE(worst <= largest(v) / static_cast<double>(s) + 2e-7 * largest(v) + 1.5e-45);
      }
    }
  }
}

TEST_CASE("qsgd is unbiased at any number of levels") {
  const std::size_t n = 512;
  const std::uint64_t draws = 3000;
  const Vector v = laplacian(n, 12);
  for (const std::size_t s : {2u, 5u, 16u, 22u, 100u, 126u, 128u, 300u, 4096u, 65535u}) {
    const auto codec = make_codec(levels_spec(s, n, "max"));
    const double level = largest(v) / static_cast<double>(s);
    std::vector<double> sum(n, 0.0);
    for (std::uint64_t r = 0; r < draws; ++r) {
      const Vector decoded = decode(encode(*codec, v, {.seed = 9, .round = r}), n);
      for (std::size_t i = 0; i < n; ++i) sum[i] += static_cast<double>(decoded[i]) - v[i];
    }
    double worst = 0;
    std::size_t drawn = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const double chance = std::fmod(std::fabs(v[i]) / level, 1.0);
      const double hits = static_cast<double>(draws) * chance * (1 - chance);
      if (hits < 20) continue;
      // Decoded values are rounded to floats.
      const double rounding = static_cast<double>(draws) * std::fabs(v[i]) * 1.2e-7;
      worst = std::max(worst, (std::fabs(sum[i]) - rounding) / (level * std::sqrt(hits)));
      ++drawn;
    }
    INFO(codec->spec());
    REQUIRE(drawn > n / 2);
    REQUIRE(worst < 5);
  }
}

TEST_CASE("fields have as many bits as their levels need") {
  for (const std::size_t s : kLevelCounts) {
    const std::size_t n = 1000, bits = static_cast<std::size_t>(std::bit_width(2 * s));
    const bool stated = s != 1 && s != 7 && s != 127;
    const std::size_t count = stated ? (s < 128 ? 1 : s < 16384 ? 2 : 3) : 0;
    const Bytes payload = encode(*make_codec(levels_spec(s, 512, "max")), gaussian(n, 4));
    INFO(s);
    REQUIRE(payload.size() == 5 + 2 + 2 + count + 2 * 4 + (n * bits + 7) / 8);
  }
}

TEST_CASE("levels=sqrt has the root of the bucket, or of a vector that is none") {
  for (const auto& [n, s] : {std::pair{1u, 1u}, {2u, 2u}, {5u, 3u}, {49u, 7u}, {512u, 23u}, {5000u, 23u}}) {
    const Vector v = gaussian(n, n);
    Bytes same = encode(*make_codec(levels_spec(s, 512, "l2")), v);
    INFO(n);
    REQUIRE(encode(*make_codec("qsgd:levels=sqrt,norm=l2"), v) == same);
  }
  const auto codec = make_codec("qsgd:levels=sqrt,norm=l2,bucket=1048576");
  REQUIRE(encode(*codec, gaussian(70000, 2)) ==
          encode(*make_codec("qsgd:levels=265,norm=l2,bucket=1048576"), gaussian(70000, 2)));
}

TEST_CASE("what stands for itself comes back as it is at any number of levels") {
  Vector v(600, 0.0f);
  v[3] = 2.5f;
  v[500] = -2.5f;
  for (const std::size_t s : kLevelCounts) {
    for (const char* coding : {"packed", "elias", "elias_dense", "auto"}) {
      const auto codec = make_codec(levels_spec(s, 512, "max") + ",coding=" + coding);
      const Vector decoded = decode(encode(*codec, v), v.size());
      INFO(codec->spec());
      for (std::size_t i = 0; i < v.size(); ++i)
        REQUIRE(std::fabs(double{decoded[i]} - v[i]) <= (s > 127 ? 0 : 0x1p-23 * std::fabs(v[i])));
    }
  }
}

TEST_CASE("every coding of the same levels decodes to the same numbers") {
  const Vector v = sparse(70000, 0.3, 5);
  for (const std::size_t s : {2u, 16u, 127u, 128u, 300u, 65535u}) {
    const std::string spec = levels_spec(s, 8192, "l2");
    const Vector expected = decode(encode(*make_codec(spec), v), v.size());
    const std::size_t packed = encode(*make_codec(spec), v).size();
    std::size_t least = packed;
    for (const char* coding : {"elias", "elias_dense"}) {
      const Bytes payload = encode(*make_codec(spec + ",coding=" + coding), v);
      least = std::min(least, payload.size());
      INFO(spec << " " << coding);
      REQUIRE(same_bits(decode(payload, v.size()), expected));
    }
    const Bytes chosen = encode(*make_codec(spec + ",coding=auto"), v);
    INFO(spec);
    REQUIRE(same_bits(decode(chosen, v.size()), expected));
    REQUIRE(chosen.size() <= least + 16);
  }
}

TEST_CASE("at the root of the vector the dense code takes its measured bits") {
  // Means over the distributions: 4; 2.942; 2.701 bits.
  const std::size_t n = std::size_t{1} << 18;
  const auto codec = make_codec("qsgd:levels=sqrt,norm=l2,coding=elias_dense,bucket=1048576");
  const auto bits = [&](const Vector& v) {
    return 8 * static_cast<double>(encode(*codec, v, {.seed = 2}).size()) / static_cast<double>(n);
  };
  REQUIRE(bits(Vector(n, 0.25f)) == Approx(4.0).epsilon(0.002));
  REQUIRE(bits(gaussian(n, 2)) == Approx(2.942).epsilon(0.005));
  REQUIRE(bits(laplacian(n, 2)) == Approx(2.701).epsilon(0.005));
}

TEST_CASE("a payload's own number of levels is not trusted") {
  Bytes good = encode(*make_codec("qsgd:levels=16,bucket=32"), Vector{2.0f});
  const auto payload = [&](std::initializer_list<int> levels, std::size_t field_bytes) {
    Bytes bytes(good.begin(), good.begin() + 7);
    for (const int byte : levels) bytes.push_back(static_cast<std::byte>(byte));
    bytes.insert(bytes.end(), good.begin() + 8, good.begin() + 12);
    bytes.resize(bytes.size() + field_bytes, std::byte{0});
    return bytes;
  };
  good.resize(12);
  REQUIRE_NOTHROW(decode(payload({16}, 1), 1));
  REQUIRE_NOTHROW(decode(payload({0x80, 1}, 2), 1));
  REQUIRE_NOTHROW(decode(payload({0xff, 0xff, 3}, 3), 1));
  for (const auto& bad : {payload({0}, 1), payload({1}, 1), payload({7}, 1), payload({127}, 1),
                          payload({0x80, 0x80, 4}, 3), payload({0xff, 0xff, 0xff, 0xff, 0xff, 1}, 3)})
    REQUIRE_THROWS_AS(decode(bad, 1), PayloadError);
  // A field beyond the highest, and bits past the last.
  Bytes beyond = payload({0x80, 1}, 2);
  beyond[beyond.size() - 2] = std::byte{1};
  beyond[beyond.size() - 1] = std::byte{1};
  REQUIRE_THROWS_AS(decode(beyond, 1), PayloadError);
  beyond[beyond.size() - 1] = std::byte{2};
  REQUIRE_THROWS_AS(decode(beyond, 1), PayloadError);
  // intq has bits alone.
  Bytes range = encode(*make_codec("intq:bucket=32"), Vector{2.0f});
  range[4] = std::byte{0};
  REQUIRE_THROWS_AS(decode(range, 1), PayloadError);
}
