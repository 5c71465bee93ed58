// onebit and onebit_scaled: scales, the error bound, what each costs.
#include <limits>

#include "gossamer_test/catch.h"
#include "vectors.h"

using namespace gossamer::compress;
using namespace gossamer::compress::test;

namespace {

double bits_per_entry(const Codec& codec, const Vector& v) {
  return 8.0 * static_cast<double>(encode(codec, v).size()) / static_cast<double>(v.size());
}

/// ‖C[v]−v‖₂ ≤ ε‖v‖₂ in every bucket, from the decoded numbers.
bool bound_holds(const Codec& codec, const Vector& v, std::size_t bucket, double bound) {
  const Vector decoded = decode(encode(codec, v), v.size());
  for (std::size_t i = 0; i < v.size(); i += bucket) {
    const std::size_t d = std::min(bucket, v.size() - i);
    const auto part = std::span(v).subspan(i, d);
    if (squared_error(std::span(decoded).subspan(i, d), part) > bound * bound * squared(part)) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("onebit sends the mean magnitude and the signs of each bucket") {
  const auto codec = make_codec("onebit:bucket=32");
  Vector v(40, 0.0f);
  for (std::size_t i = 0; i < v.size(); ++i)
    v[i] = i % 3 == 0 ? -static_cast<float>(i) : static_cast<float>(i);
  v[5] = 0;
  v[6] = -0.0f;
  const Vector decoded = decode(encode(*codec, v), v.size());
  double first = 0, second = 0;
  for (std::size_t i = 0; i < 40; ++i) (i < 32 ? first : second) += std::fabs(v[i]);
  for (std::size_t i = 0; i < 40; ++i) {
    const float scale = static_cast<float>(i < 32 ? first / 32 : second / 8);
    REQUIRE(decoded[i] == (v[i] >= 0 ? scale : -scale));
  }
}

TEST_CASE("onebit leaves the error of its formula") {
  const auto codec = make_codec("onebit");
  for (const Vector& v : {gaussian(512, 1), laplacian(512, 2), sparse(512, 0.1, 3)}) {
    double l1 = 0;
    for (const float x : v) l1 += std::fabs(x);
    const double expected = squared(v) - l1 * l1 / 512;
    REQUIRE(squared_error(decode(encode(*codec, v), 512), v) == Approx(expected).epsilon(1e-5));
  }
  const Vector huge(600, std::numeric_limits<float>::max());
  REQUIRE(decode(encode(*codec, huge), huge.size()) == huge);
}

TEST_CASE("onebit_scaled tells vectors of equal mean magnitude apart") {
  const auto plain = make_codec("onebit");
  const auto scaled = make_codec("onebit_scaled:lambda=1");
  const Vector a = {1, 2, 3}, b = {2, 2, 2};
  REQUIRE(decode(encode(*plain, a), 3) == decode(encode(*plain, b), 3));
  REQUIRE(decode(encode(*scaled, a), 3) != decode(encode(*scaled, b), 3));
  REQUIRE(decode(encode(*scaled, a), 3)[0] == Approx(std::sqrt(14.0 / 3)).epsilon(1e-6));
  REQUIRE(decode(encode(*scaled, b), 3) == b);
}

TEST_CASE("onebit_scaled uses the given lambda where the bound allows") {
  const Vector v = gaussian(512, 4);
  for (const double lambda : {1.0, 0.75, 0.5}) {
    const auto codec = make_codec("onebit_scaled:lambda=" + std::to_string(lambda));
    const Vector decoded = decode(encode(*codec, v), 512);
    const double scale = lambda * std::sqrt(squared(v) / 512);
    for (std::size_t i = 0; i < 512; ++i)
      REQUIRE(decoded[i] == Approx(v[i] >= 0 ? scale : -scale).epsilon(1e-6));
  }
  double l1 = 0;
  for (const float x : v) l1 += std::fabs(x);
  const Vector automatic = decode(encode(*make_codec("onebit_scaled:lambda=auto"), v), 512);
  REQUIRE(std::fabs(automatic[0]) == Approx(l1 / 512).epsilon(1e-6));
}

TEST_CASE("onebit_scaled falls back to the mean where lambda breaks the bound") {
  // A third of the entries: λ = 1 leaves 2 − 2r = 0.92 > 0.81, λ = r leaves 1 − r² = 0.71.
  Vector v(512, 0.0f);
  for (std::size_t i = 0; i < 512; i += 3) v[i] = i % 2 == 0 ? 1.5f : -1.0f;
  double l1 = 0;
  for (const float x : v) l1 += std::fabs(x);
  const auto codec = make_codec("onebit_scaled");
  const Bytes payload = encode(*codec, v);
  REQUIRE(payload.size() <= 5 + 2 + 1 + 1 + 4 + 64);
  for (const float x : decode(payload, 512)) REQUIRE(std::fabs(x) == Approx(l1 / 512).epsilon(1e-6));
}

TEST_CASE("onebit_scaled never breaks its bound") {
  for (const char* lambda : {"1", "auto", "0.5", "0.05"}) {
    for (const double bound : {0.99, 0.9, 0.7, 0.3, 0.01}) {
      for (const std::size_t bucket : {32u, 96u, 512u, 8192u}) {
        char spec[100];
        std::snprintf(spec, sizeof spec, "onebit_scaled:lambda=%s,bound=%g,bucket=%zu", lambda, bound,
                      bucket);
        const auto codec = make_codec(spec);
        for (const std::size_t n : {1u, 17u, 100u, 513u, 2000u}) {
          for (const auto& [name, v] : families(n, n)) {
            INFO(spec << " on " << n << ": " << name);
            REQUIRE(bound_holds(*codec, v, bucket, bound));
          }
        }
      }
    }
  }
}

TEST_CASE("onebit_scaled holds its bound on vectors made to sit on it") {
  // One entry of size a among d − 1 ones: a is searched so that the error at λ = 1 or λ = r is as near ε as
  // can be.
  const double bound = 0.9;
  const auto codec = make_codec("onebit_scaled");
  for (const std::size_t d : {16u, 64u, 512u}) {
    for (const bool at_mean : {false, true}) {
      double low = 1, high = 1e6;
      for (int step = 0; step < 60; ++step) {
        const double a = std::sqrt(low * high), count = static_cast<double>(d);
        const double r = (a + count - 1) / std::sqrt(count * (a * a + count - 1));
        (((at_mean ? 1 - r * r : 2 - 2 * r) > bound * bound) ? high : low) = a;
      }
      for (int offset = -50; offset <= 50; ++offset) {
        Vector v(d, 1.0f);
        v[d / 3] = static_cast<float>(low * (1 + offset * 1e-7));
        INFO(d << " entries, one of " << v[d / 3]);
        REQUIRE(bound_holds(*codec, v, 512, bound));
      }
    }
  }
}

TEST_CASE("onebit_scaled keeps to its bits") {
  const auto codec = make_codec("onebit_scaled");
  const std::size_t n = 235146;
  const double gauss = bits_per_entry(*codec, gaussian(n, 1));
  INFO("Gaussian " << gauss);
  REQUIRE(gauss <= 1 + 32.0 / 512 + 0.01);
  REQUIRE(bits_per_entry(*codec, laplacian(n, 1)) <= 1 + 32.0 / 512 + 0.01);
  REQUIRE(bits_per_entry(*codec, sparse(n, 0.5, 1)) <= 1.08);
  REQUIRE(bits_per_entry(*codec, sparse(n, 0.001, 1)) <= 0.15);
  REQUIRE(bits_per_entry(*codec, Vector(n, 0.0f)) <= 0.01);
  // Rows of a first layer on images with empty borders: runs of exact zeros inside the buckets.
  Vector image = laplacian(n, 2);
  for (std::size_t i = 0; i < n; ++i) {
    if (i % 28 < 5 || i / 28 % 28 < 3) image[i] = 0;
  }
  const double rows = bits_per_entry(*codec, image);
  INFO("image rows " << rows);
  REQUIRE(rows <= 1.1);
}

TEST_CASE("onebit_scaled sends zeros for almost nothing and small outliers exactly") {
  const auto codec = make_codec("onebit_scaled");
  Vector v(5120, 0.0f);
  v[1000] = 3.25f;
  v[1007] = -1e-30f;
  const Bytes payload = encode(*codec, v);
  REQUIRE(payload.size() < 35);
  REQUIRE(decode(payload, v.size()) == v);
}

TEST_CASE("onebit_two sends the two means of each bucket") {
  const Vector v = {1, 3, 0, -2, -6, -0.0f};
  REQUIRE(decode(encode(*make_codec("onebit_two"), v), v.size()) == Vector{1, 1, 1, -4, -4, 1});
  const Vector positive(600, 2.5f), negative(600, -std::numeric_limits<float>::max());
  REQUIRE(decode(encode(*make_codec("onebit_two"), positive), 600) == positive);
  REQUIRE(decode(encode(*make_codec("onebit_two"), negative), 600) == negative);
}

TEST_CASE("onebit_two is never worse than onebit") {
  for (const char* bucket : {"32", "96", "512", "8192"}) {
    const auto one = make_codec(std::string("onebit:bucket=") + bucket);
    const auto two = make_codec(std::string("onebit_two:bucket=") + bucket);
    for (const std::size_t n : {1u, 31u, 513u, 3000u}) {
      auto all = families(n, n);
      Vector shifted = gaussian(n, n);
      for (float& x : shifted) x += 1;
      all.push_back({"shifted", shifted});
      for (const auto& [name, v] : all) {
        if (name == "tiny") continue;  // a mean that is a denormal number is rounded coarsely
        INFO(bucket << " on " << n << ": " << name);
        REQUIRE(squared_error(decode(encode(*two, v), n), v) <=
                (1 + 1e-6) * squared_error(decode(encode(*one, v), n), v) + 1e-12 * squared(v));
      }
      if (n == 3000) {
        REQUIRE(squared_error(decode(encode(*two, shifted), n), shifted) <
                0.95 * squared_error(decode(encode(*one, shifted), n), shifted));
      }
    }
  }
}

TEST_CASE("sign_vote sends signs alone, and the sum of many is the vote") {
  const auto codec = make_codec("sign_vote");
  const Vector v = {3, -1e-30f, 0, -0.0f, -5};
  REQUIRE(encode(*codec, v).size() == 5);
  REQUIRE(decode(encode(*codec, v), v.size()) == Vector{1, -1, 1, 1, -1});
  Vector votes(v.size(), 0.0f);
  for (const Vector& voter : {Vector{1, 1, -1, -1, 1}, Vector{1, -1, -1, 1, 1}, v})
    decode_add(encode(*codec, voter), 1, votes);
  REQUIRE(votes == Vector{3, -1, -1, 1, 1});
}
