// A yardstick must measure the same work: the plain loops give what the codecs give.
#include "codec_reference.h"

#include <cmath>

#include "codec_speed.h"
#include "gossamer_test/catch.h"

namespace gossamer::test {
namespace {

namespace reference = node::reference;
using node::AlignedFloats;

constexpr std::size_t kEntries = 10007;

double squared(std::span<const float> x) {
  double sum = 0;
  for (const float v : x) sum += static_cast<double>(v) * v;
  return sum;
}

TEST_CASE("the plain 1-bit loop keeps what it does not send") {
  const AlignedFloats g = node::laplacian(kEntries);
  AlignedFloats e(kEntries, 0.0f), y(kEntries, 0.0f);
  reference::Signs signs(kEntries);
  reference::onebit_encode_feedback(g, e, signs);
  reference::onebit_decode(signs, y);
  for (std::size_t i = 0; i < kEntries; ++i) REQUIRE(g[i] - y[i] == e[i]);
  const auto codec = compress::make_codec("onebit");
  std::vector<std::byte> out(codec->max_bytes(kEntries));
  compress::Workspace workspace;
  const std::size_t used = codec->encode(g, {}, workspace, out);
  AlignedFloats z(kEntries, 0.0f);
  compress::decode_add(std::span(out).first(used), 1.0f, z);
  for (std::size_t i = 0; i < kEntries; ++i) REQUIRE(y[i] == Approx(z[i]));
  reference::onebit_decode_add(signs, -1.0f, y);
  for (const float v : y) REQUIRE(v == 0);
}

TEST_CASE("the plain QSGD loop rounds to neighbouring levels and is right in the mean") {
  const AlignedFloats x = node::laplacian(kEntries);
  AlignedFloats y(kEntries, 0.0f);
  reference::Levels levels(kEntries);
  double sum = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    reference::qsgd4_encode(x, seed, levels);
    reference::qsgd4_decode(levels, y);
    for (std::size_t i = 0; i < kEntries; ++i) {
      REQUIRE(std::fabs(y[i] - x[i]) <= levels.norm[i / reference::kBucket] / 7 * 1.0001f);
      sum += (y[i] - x[i]) * x[i];
    }
  }
  REQUIRE(std::fabs(sum) < 0.01 * 40 * squared(x));
  reference::qsgd4_decode_add(levels, -1.0f, y);
  for (const float v : y) REQUIRE(v == 0);
}

TEST_CASE("both plain selections find the entries that top-k keeps") {
  AlignedFloats x = node::laplacian(kEntries);
  for (std::size_t i = 0; i < kEntries; i += 50) x[i] = i % 100 == 0 ? 4.0f : -4.0f;  // ties
  const auto codec = compress::make_codec("topk:density=0.01");
  std::vector<std::byte> out(codec->max_bytes(kEntries));
  compress::Workspace workspace;
  AlignedFloats kept(kEntries, 0.0f), y(kEntries, 0.0f), z(kEntries, 0.0f);
  const std::size_t used = codec->encode(x, {}, workspace, out);
  compress::decode_add(std::span(out).first(used), 1.0f, kept);
  reference::Entries a, b;
  std::vector<float> scratch;
  reference::largest_by_nth_element(x, 101, scratch, a);
  reference::largest_by_radix(x, 101, b);
  REQUIRE(a.indices.size() == 101);
  REQUIRE(a.indices == b.indices);
  for (std::size_t j = 0; j < a.indices.size(); ++j) y[a.indices[j]] = a.values[j];
  for (std::size_t j = 0; j < b.indices.size(); ++j) z[b.indices[j]] = b.values[j];
  REQUIRE(y == kept);
  REQUIRE(z == kept);
}

TEST_CASE("the plain Elias coders decode to the levels that they drew") {
  AlignedFloats x = node::laplacian(kEntries);
  std::fill(x.begin() + 600, x.begin() + 1700, 0.0f);
  AlignedFloats sparse(kEntries, 1.0f), dense(kEntries, 1.0f);
  reference::BitString bits;
  reference::elias_sparse_encode(x, 3, bits);
  reference::elias_sparse_decode(bits, sparse);
  CHECK(bits.bits < 7 * kEntries / 2);
  reference::elias_dense_encode(x, 3, bits);
  reference::elias_dense_decode(bits, dense);
  CHECK(bits.bits < 7 * kEntries / 2);
  REQUIRE(sparse == dense);
  REQUIRE(squared(sparse) > 0.5 * squared(x));
}

}  // namespace
}  // namespace gossamer::test
