#include <limits>

#include "gossamer_test/catch.h"
#include "vectors.h"

using namespace gossamer::compress;
using namespace gossamer::compress::test;

namespace {

/// Nearest half, ties to even, by definition; for magnitudes that halves cover.
double nearest_half(double x) {
  const double magnitude = std::fabs(x);
  const int exponent = magnitude == 0 ? -14 : std::max(std::ilogb(magnitude), -14);
  const double step = std::ldexp(1.0, exponent - 10);
  return std::copysign(std::nearbyint(magnitude / step) * step, x);
}

Vector through(const Vector& v) { return decode(encode(*make_codec("fp16"), v), v.size()); }

}  // namespace

TEST_CASE("fp16 rounds to the nearest half and ties to even") {
  Vector v = wide(200000, -26, 15.9, 4);
  for (std::size_t i = 0; i < 2048; ++i) {
    v[i] = 1 + static_cast<float>(i) * 0x1p-12f;                // every second one a tie or a quarter
    v[2048 + i] = static_cast<float>(i) * 0x1p-25f;             // subnormal halves and their ties
    v[4096 + i] = 0x1p-14f + static_cast<float>(i) * 0x1p-26f;  // around the smallest normal half
  }
  v.push_back(65504);
  v.push_back(-65504);
  const Vector decoded = through(v);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < v.size(); ++i) wrong += decoded[i] == nearest_half(v[i]) ? 0 : 1;
  REQUIRE(wrong == 0);
}

TEST_CASE("fp16 reaches over all of float's range by a shared exponent") {
  const float float_max = std::numeric_limits<float>::max();
  for (const float size : {float_max, 1e30f, 65536.0f, 6e-5f, 1e-20f, 1e-38f, 1e-42f}) {
    const Vector v = {size, -size, size / 3, 0, -size / 100};
    const Vector decoded = through(v);
    for (std::size_t i = 0; i < v.size(); ++i) {
      INFO(size << " entry " << i << ": " << v[i] << " came back as " << decoded[i]);
      REQUIRE(std::fabs(static_cast<double>(decoded[i]) - v[i]) <= std::fabs(v[i]) * 0x1p-10 + 1.5e-45);
    }
  }
}

TEST_CASE("bf16 rounds every entry to nearest and stays finite") {
  const auto codec = make_codec("bf16");
  for (const auto& [name, v] : families(5000, 8)) {
    const Vector decoded = decode(encode(*codec, v), v.size());
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < v.size(); ++i) {
      const double error = std::fabs(static_cast<double>(decoded[i]) - v[i]);
      const double allowed = std::max(std::fabs(static_cast<double>(v[i])) * 0x1p-8, 0x1p-134);
      wrong += error > allowed || !std::isfinite(decoded[i]) ? 1u : 0u;
      wrong += decode(encode(*codec, Vector{decoded[i]}), 1)[0] != decoded[i] && i < 100 ? 1u : 0u;
    }
    INFO(name);
    REQUIRE(wrong == 0);
  }
  const float most = std::numeric_limits<float>::max();
  // Ties to even; the largest floats do not become Inf; signs of zeros stay.
  const Vector v = {1 + 0x1p-8f, 1 + 3 * 0x1p-8f, -most, -0.0f};
  Vector decoded(4, -0.0f);
  decode_add(encode(*codec, v), 1, decoded);
  REQUIRE(same_bits(decoded, Vector{1, 1 + 0x1p-6f, -0x1.fep127f, -0.0f}));
}
