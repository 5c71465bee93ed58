#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>

#include "gossamer_test/catch.h"
#include "vectors.h"

using namespace gossamer::compress;
using namespace gossamer::compress::test;

namespace {

/// By full sort: larger magnitudes first, then lower indices.
Vector reference(const Vector& v, std::size_t k) {
  std::vector<std::size_t> order(v.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return std::fabs(v[a]) > std::fabs(v[b]); });
  Vector kept(v.size(), 0.0f);
  for (std::size_t i = 0; i < k; ++i) kept[order[i]] = v[order[i]];
  return kept;
}

Vector small_integers(std::size_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Vector v(n);
  for (float& x : v) x = static_cast<float>(static_cast<int>(random() % 9) - 4);
  return v;
}

}  // namespace

TEST_CASE("topk keeps exactly the largest with ties to the lowest index") {
  for (const double density : {0.001, 0.01, 0.1, 0.5, 1.0}) {
    const auto codec = make_codec("topk:density=" + std::to_string(density));
    for (const std::size_t n : {1u, 2u, 17u, 100u, 513u, 4097u}) {
      auto all = families(n, n);
      all.push_back({"ties", small_integers(n, n)});
      for (const auto& [name, v] : all) {
        const auto k =
            std::max<std::size_t>(1, static_cast<std::size_t>(std::ceil(density * static_cast<double>(n))));
        INFO(density << " of " << n << ": " << name);
        const Vector decoded = decode(encode(*codec, v), n);
        REQUIRE(std::equal(decoded.begin(), decoded.end(), reference(v, k).begin()));
      }
    }
  }
}

TEST_CASE("topk codes indices near their entropy") {
  const std::size_t n = 1000000;
  const Vector v = gaussian(n, 5);
  for (const auto& [density, most] : {std::pair{0.001, 11.6}, std::pair{0.01, 8.15}}) {
    const auto codec = make_codec("topk:density=" + std::to_string(density));
    const double k = density * static_cast<double>(n);
    const double bits = 8.0 * static_cast<double>(encode(*codec, v).size()) / k - 32;
    INFO(density << ": " << bits << " bits per index");
    REQUIRE(bits <= most);
  }
}

TEST_CASE("topk stays small where all it keeps is at one end") {
  Vector v(100000, 0.0f);
  for (std::size_t i = 0; i < 1000; ++i) v[v.size() - 1 - i] = 1 + static_cast<float>(i);
  const auto codec = make_codec("topk");
  const Bytes payload = encode(*codec, v);
  REQUIRE(payload.size() <= codec->max_bytes(v.size()));
  REQUIRE(decode(payload, v.size()) == v);
}

TEST_CASE("topk sends values in the form that is asked for") {
  const std::size_t n = 10000, k = 100;
  for (const auto& [name, v] : families(n, 4)) {
    const Vector exact = decode(encode(*make_codec("topk"), v), n);
    const auto sent = [&vector = v](const char* form) {
      return decode(encode(*make_codec(std::string("topk:values=") + form), vector), n);
    };
    const Vector half = sent("fp16"), byte = sent("int8"), sign = sent("sign"), two = sent("two_bit");
    double mean = 0;
    for (const float x : exact) mean += std::fabs(static_cast<double>(x)) / static_cast<double>(k);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const double size = std::fabs(static_cast<double>(exact[i]));
      const double step = largest(exact) / 127;
      wrong += std::fabs(static_cast<double>(half[i]) - exact[i]) >
               std::max(size, largest(exact) * 0x1p-28) * 0x1p-9;
      wrong += std::fabs(static_cast<double>(byte[i]) - exact[i]) > step * 0.500001 + 1e-45;
      if (exact[i] != 0) wrong += std::fabs(sign[i] - std::copysign(mean, exact[i])) > 1e-6 * mean + 1e-45;
    }
    INFO(name);
    REQUIRE(wrong == 0);
    const auto error = [&](const Vector& decoded) {
      double sum = 0;
      for (std::size_t i = 0; i < n; ++i) sum += std::pow(static_cast<double>(decoded[i]) - exact[i], 2);
      return sum;
    };
    REQUIRE(error(two) <= error(sign) * (1 + 1e-6));
    std::set<float> sizes;
    for (std::size_t i = 0; i < n; ++i)
      if (exact[i] != 0) {
        sizes.insert(std::fabs(two[i]));
        REQUIRE(std::signbit(two[i]) == std::signbit(exact[i]));
      }
    REQUIRE(sizes.size() <= 2);
  }
  const auto size = [&](const char* spec) { return encode(*make_codec(spec), gaussian(n, 1)).size(); };
  REQUIRE(size("topk:values=fp16") == size("topk") - 2 * k + 2);
  REQUIRE(size("topk:values=int8") == size("topk") - 3 * k + 4);
  REQUIRE(size("topk:values=sign") == size("topk") - 4 * k + 4 + 13);
  REQUIRE(size("topk:values=two_bit") == size("topk") - 4 * k + 8 + 25);
}

TEST_CASE("the sum of two payloads is selected from them as from the whole vector") {
  std::mt19937_64 random(7);
  const auto draw = [&] { return static_cast<float>(random() % 2000) * 0.001f - 1.0f; };
  std::size_t told = 0, untold = 0;
  for (const std::string more : {"", ",values=fp16", ",values=int8", ",values=sign", ",coding=bitmap",
                                 ",select=radix", ",select=sampled"})
    for (const double density : {0.002, 0.03, 0.4, 1.0})
      for (const std::size_t n : {1u, 7u, 100u, 5000u})
        for (const int kind : {0, 1, 2, 3}) {
          const auto codec = make_codec("topk:density=" + std::to_string(density) + more);
          Workspace workspace;
          std::vector<std::byte> payloads[2];
          std::vector<float> sum(n, 0.0f);
          for (auto& payload : payloads) {
            std::vector<float> x(n);
            for (std::size_t i = 0; i < n;
                 ++i)  // any; few magnitudes, so that many tie; the same but for its sign; few not zero
              x[i] = kind == 0    ? draw()
                     : kind == 1  ? std::round(2 * draw())
                     : kind == 2  ? (&payload == payloads ? 1.0f : -1.0f) * static_cast<float>(i % 13)
                     : i == n / 2 ? draw()
                                  : 0.0f;
            payload.resize(codec->max_bytes(n));
            payload.resize(codec->encode(x, {}, workspace, payload));
            decode_add(payload, 1.0f, sum);
          }
          INFO(codec->spec() << ", n " << n << ", kind " << kind);
          std::vector<std::byte> out(codec->max_bytes(n)), expected(codec->max_bytes(n));
          LeftOut left{{9, 9.0f}};
          const auto bytes = codec->encode_sparse_sum(payloads[0], payloads[1], n, workspace, out, left);
          if (!bytes) {
            ++untold;
            continue;
          }
          ++told;
          expected.resize(codec->encode(sum, {}, workspace, expected));
          CHECK(std::equal(expected.begin(), expected.end(), out.begin(),
                           out.begin() + static_cast<std::ptrdiff_t>(*bytes)));
          decode_add(expected, -1.0f, sum);
          for (const auto& [index, rest] : left) {
            CHECK(sum[index] == rest);
            sum[index] = 0;
          }
          CHECK(std::all_of(sum.begin(), sum.end(), [](float s) { return s == 0; }));
        }
  CHECK(told > 200);
  CHECK(untold > 60);  // where zeros would tie, and where more than k may be selected
}

TEST_CASE("a sum is not told from payloads of another kind, size or density, nor where it is not finite") {
  const auto codec = make_codec("topk:density=0.1"), dense = make_codec("dense"),
             denser = make_codec("topk:density=0.9");
  Workspace workspace;
  const auto payload = [&](const Codec& of, std::size_t n, float value) {
    std::vector<std::byte> bytes(of.max_bytes(n));
    bytes.resize(of.encode(std::vector<float>(n, value), {}, workspace, bytes));
    return bytes;
  };
  std::vector<std::byte> out(codec->max_bytes(100));
  LeftOut left;
  const auto sum = [&](const auto& a, const auto& b) {
    return codec->encode_sparse_sum(a, b, 100, workspace, out, left);
  };
  const auto good = payload(*codec, 100, 1);
  CHECK(sum(good, good));
  CHECK_FALSE(sum(good, payload(*codec, 99, 1)));
  CHECK_FALSE(sum(payload(*dense, 100, 1), good));
  CHECK_FALSE(sum(good, payload(*denser, 100, 1)));
  const auto huge = payload(*codec, 100, 3e38f);
  CHECK_FALSE(sum(huge, huge));
  auto cut = good;
  cut.pop_back();
  CHECK_THROWS_AS(sum(good, cut), PayloadError);
}

TEST_CASE("few entries add up as they do in a whole vector, to the bit") {
  const std::size_t n = 30011;
  for (const char* values : {"fp32", "int8", "sign"}) {
    for (const std::size_t count : {1u, 2u, 7u}) {
      std::vector<Bytes> told;
      std::vector<WeightedPayload> payloads;
      for (std::size_t p = 0; p < count; ++p) {
        const double density = p == 0 ? 0.00001 : 0.009;  // one entry, and many that others have, too
        const auto codec = make_codec("topk:density=" + std::to_string(density) + ",values=" + values);
        told.push_back(encode(*codec, p % 2 == 0 ? laplacian(n, p) : small_integers(n, 5)));
      }
      for (std::size_t p = 0; p < count; ++p) payloads.push_back({0.1f + static_cast<float>(p), told[p]});
      Vector expected(n, 0.0f), found(n, 0.0f);
      for (const WeightedPayload& p : payloads) decode_add(p.payload, p.weight, expected);
      FewEntries sum{{7, 8}, {1, 2}};  // of before
      INFO(values << ", " << count << " payloads");
      REQUIRE(add_few(payloads, n, sum));
      REQUIRE(sum.indices.size() == sum.values.size());
      REQUIRE(std::adjacent_find(sum.indices.begin(), sum.indices.end(), std::greater_equal<>()) ==
              sum.indices.end());
      for (std::size_t k = 0; k < sum.indices.size(); ++k) found[sum.indices[k]] = sum.values[k];
      REQUIRE(same_bits(found, expected));
      REQUIRE_FALSE(add_few(payloads, n - 1, sum));  // of another length
      told.push_back(encode(*make_codec("dense"), laplacian(n, 1)));
      payloads.push_back({1, told.back()});
      REQUIRE_FALSE(add_few(payloads, n, sum));
      told.push_back(encode(*make_codec("topk:density=0.2"), laplacian(n, 1)));
      payloads.back().payload = told.back();
      REQUIRE_FALSE(add_few(payloads, n, sum));  // too many
      payloads.back().payload = std::span(told.front()).first(told.front().size() - 1);
      REQUIRE_THROWS_AS(add_few(payloads, n, sum), PayloadError);
    }
  }
}
