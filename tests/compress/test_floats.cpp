#include <cstring>
#include <limits>

#include "float_kernels_inline.h"
#include "gossamer/compress/kernels.h"
#include "gossamer_test/catch.h"
#include "targets.h"
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

/// Everything that the kernels write, of one call each.
struct Written {
  FloatsSent sent;
  Bytes bytes;
  Vector e, acc;
  bool finite;
  bool operator==(const Written& other) const {
    return sent.n == other.sent.n && sent.magnitude == other.sent.magnitude && bytes == other.bytes &&
           same_bits(e, other.e) && finite == other.finite && (!finite || same_bits(acc, other.acc));
  }
};

template <class Send, class Add>
Written write(FloatFormat format, int k, std::span<const float> g, const Vector& e, const Send& send,
              const Add& add) {
  Written w{{}, Bytes(bytes_of(format) * g.size() + 1), e, Vector(g.size(), 0.75f), true};
  // One byte further on, as payloads are not aligned.
  std::byte* const out = w.bytes.data() + 1;
  w.sent = send(format, FloatScale(k), {g.data(), e.empty() ? nullptr : w.e.data(), g.size()}, out);
  w.finite = add(format, FloatScale(k), out, -0.3f, w.acc.data(), w.sent.n);
  return w;
}

}  // namespace

TEST_CASE("every instruction set writes and reads floats as the plain kernels do") {
  const auto compare = [](FloatFormat format, int k, std::span<const float> g, const Vector& e) {
    const Written expected = write(format, k, g, e, plain::send_floats, plain::add_floats);
    for_each_target([&](const std::string& target) {
      INFO(target << ", format " << static_cast<int>(format) << ", k = " << k << ", " << g.size());
      REQUIRE(write(format, k, g, e, send_floats, add_floats) == expected);
    });
  };
  for (const std::size_t n : {0u, 1u, 31u, 32u, 33u, 511u, 512u, 513u, 5000u}) {
    for (const auto& [name, v] : families(std::max<std::size_t>(n, 1), n)) {
      const auto g = std::span(v).first(n);
      for (const FloatFormat format : {FloatFormat::fp32, FloatFormat::fp16, FloatFormat::bf16}) {
        for (const int k : {0, -40, 113}) {
          if (k != 0 && format != FloatFormat::fp16) continue;
          compare(format, k, g, {});
          compare(format, k, g, laplacian(n, 3));
        }
      }
    }
  }
}

TEST_CASE("every instruction set sums floats as the plain kernels do, and sees what is not finite") {
  struct Summed {
    bool finite;
    Bytes out;
    bool operator==(const Summed&) const = default;
  };
  for (const std::size_t n : {0u, 1u, 31u, 32u, 33u, 511u, 5000u})
    for (const float wrong : {1.0f, -0.0f, std::numeric_limits<float>::infinity(), std::nanf("")})
      for (const int terms : {1, 2, 3}) {
        Vector x = gaussian(n, 1), y = gaussian(n, 2);
        if (n > 0) (terms == 1 ? x : y)[n * 2 / 3] = wrong;
        Bytes came(1 + y.size() * sizeof(float));  // as payloads are not aligned
        if (n > 0) std::memcpy(came.data() + 1, y.data(), n * sizeof(float));
        const auto sum = [&](const auto& kernel) {
          Summed s{true, Bytes(1 + n * sizeof(float))};
          s.finite = kernel(0.3f, terms != 2 ? x.data() : nullptr, terms != 1 ? came.data() + 1 : nullptr, n,
                            s.out.data() + 1);
          if (!s.finite) s.out.clear();  // NaNs differ
          return s;
        };
        const Summed expected = sum(plain::sum_floats);
        CHECK(expected.finite == (n == 0 || std::isfinite(wrong)));
        for_each_target([&](const std::string& target) {
          INFO(target << ", " << n << " of " << wrong);
          CHECK(sum(sum_floats) == expected);
          CHECK(finite_floats(came.data() + 1, n) == (terms == 1 || expected.finite));
        });
      }
}

TEST_CASE("halves are read by every instruction set as by definition") {
  Bytes all(2 * 65536);
  for (std::uint32_t h = 0; h < 65536; ++h) std::memcpy(all.data() + 2 * h, &h, 2);
  for_each_target([&](const std::string& target) {
    INFO(target);
    for (std::size_t h = 0; h < 65536; h += 32) {
      Vector acc(32, -0.0f), expected = acc;
      const bool finite =
          add_floats(FloatFormat::fp16, FloatScale(), all.data() + 2 * h, 1, acc.data(), acc.size());
      REQUIRE(finite == ((h & 0x7c00u) != 0x7c00u));
      if (!finite) continue;
      for (std::size_t i = 0; i < 32; ++i) {
        const auto half = static_cast<int>(h + i);
        const int exponent = (half >> 10) & 31, fraction = half & 1023;
        const double size =
            exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
        expected[i] = static_cast<float>(half >= 32768 ? -size : size);
      }
      REQUIRE(same_bits(acc, expected));
    }
  });
}

TEST_CASE("a residual is put back where halves need a shared exponent") {
  for (const float size : {1e-7f, 1e6f, 1e38f}) {
    Vector g = laplacian(70000, 5);
    for (float& x : g) x *= size / 16;
    g[3] = -0.0f;
    g[69000] = size;
    FeedbackState state;
    Workspace workspace;
    const auto codec = make_codec("fp16");
    Vector e(g.size(), 0.0f);
    for (int round = 0; round < 3; ++round) {
      Bytes out(codec->max_bytes(g.size()));
      out.resize(codec->encode_feedback(g, state, {}, workspace, out));
      Vector v = g;
      for (std::size_t i = 0; i < v.size() && round > 0; ++i) v[i] = g[i] + e[i];
      REQUIRE(out == encode(*codec, v));
      decode_add(out, -1, v);
      e = v;
      REQUIRE(same_bits(state.residual, e));
    }
  }
}

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

TEST_CASE("what is decoded to a vector is what is added to zeros") {
  Threads threads(3);
  for (const auto& spec : all_specs()) {
    INFO(spec);
    const auto codec = make_codec(spec);
    for (const std::size_t n : {0u, 1u, 33u, 5000u, 200001u}) {
      Vector v = gaussian(n, n);
      if (n > 1) v[1] = -0.0f;
      const Bytes payload = encode(*codec, v);
      Vector expected(n, 0.0f), found(n, 7.0f);
      decode_add(payload, 1.0f, expected);
      decode_to(payload, found, n > 5000 ? &threads : nullptr);
      REQUIRE(same_bits(found, expected));
    }
  }
}

TEST_CASE("a dense sum is encoded as if it had been scaled and added first") {
  Threads threads(3);
  const auto dense = make_codec(kDense);
  for (const float factor : {1.0f, 0.3f})
    for (const std::size_t n : {0u, 1u, 31u, 2048u, 2049u, 5000u, 200001u}) {
      INFO(n << " entries, by " << factor);
      Vector x = gaussian(n, 1), y = gaussian(n, 2);
      if (n > 1) x[1] = y[1] = -0.0f;
      const Bytes came = encode(*dense, y);
      Vector sum(n, 0.0f), decoded(n);
      axpy(factor, x, sum);
      const Vector multiple = sum;
      decode_add(came, 1.0f, sum);
      decode_to(came, decoded);
      const Bytes expected = encode(*dense, sum);
      for (Threads* const team : {static_cast<Threads*>(nullptr), &threads}) {
        Bytes out(dense->max_bytes(n));
        out.resize(encode_sum(came, factor, x, out, team));
        CHECK(out == expected);
        out.assign(dense->max_bytes(n), std::byte{});
        out.resize(encode_multiple(factor, x, out, team));
        CHECK(out == encode(*dense, multiple));
        Vector read(n, 7.0f);
        read_in_blocks(
            came, n,
            [&](std::size_t first, std::span<const float> values) {
              std::copy(values.begin(), values.end(), read.begin() + static_cast<std::ptrdiff_t>(first));
            },
            team);
        CHECK(same_bits(read, decoded));
      }
    }
}

TEST_CASE("a dense sum refuses what does not decode, and what is not finite") {
  const auto dense = make_codec(kDense);
  const float most = std::numeric_limits<float>::max();
  const Vector x(100, most);
  Bytes out(dense->max_bytes(100));
  const auto sum = [&](const Bytes& payload) { return encode_sum(payload, 1, x, out); };
  CHECK_THROWS_WITH(sum(encode(*make_codec("fp16"), Vector(100, 1.0f))), ContainsSubstring("expected dense"));
  CHECK_THROWS_WITH(sum(encode(*dense, Vector(99, 1.0f))),
                    ContainsSubstring("holds 99 entries, expected 100"));
  Bytes cut = encode(*dense, Vector(100, 1.0f));
  cut.pop_back();
  CHECK_THROWS_AS(sum(cut), PayloadError);
  Vector large(100, 0.0f);
  large[70] = large[80] = most;
  CHECK_THROWS_WITH(sum(encode(*dense, large)), ContainsSubstring("70"));
  CHECK_THROWS_AS(sum(encode(*dense, large)), EncodeError);
  Bytes nan = encode(*dense, Vector(100, 0.0f));
  const float bad = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(nan.data() + nan.size() - sizeof bad, &bad, sizeof bad);
  CHECK_THROWS_AS(sum(nan), PayloadError);
  Vector acc(100);
  CHECK_THROWS_AS(decode_to(nan, acc), PayloadError);
}
