// Guarantees on many vectors, and every codec on one long vector.
#include "gossamer/compress/instruction_sets.h"
#include "gossamer_test/catch.h"
#include "gossamer_test/drawn.h"
#include "vectors.h"

using namespace gossamer::compress;
using namespace gossamer::compress::test;

namespace {

double magnitudes(std::span<const float> v) {
  double sum = 0;
  for (const float x : v) sum += std::fabs(static_cast<double>(x));
  return sum;
}

/// A vector of one of eight shapes; those that are nearly all zeros are long.
Vector shaped(std::uint64_t number, std::mt19937_64& random) {
  const std::size_t n = 1 + random() % 150;
  switch (number % 8) {
    case 0:
      return gaussian(n, number);
    case 1:
      return laplacian(n, number);
    case 2:
      return sparse(n, 0.05, number);
    case 3: {  // 0.1 % dense: one or two of a bucket's entries
      Vector v = sparse(512, 0.001, number);
      v[random() % v.size()] = static_cast<float>(normal(random));
      return v;
    }
    case 4:
      return wide(n, -149, 127.9, number);
    case 5:
      return wide(n, -149, -120, number);
    case 6: {  // geometric decay
      Vector v(n);
      const double ratio = 0.5 + 0.5 * uniform(random);
      for (std::size_t i = 0; i < n; ++i)
        v[i] = static_cast<float>((i % 2 == 0 ? 1 : -1) * std::pow(ratio, static_cast<double>(i)));
      return v;
    }
    default: {  // equal magnitudes and one outlier
      Vector v(n, 0.5f);
      v[random() % n] = static_cast<float>(std::exp2(20 * uniform(random)));
      return v;
    }
  }
}

}  // namespace

TEST_CASE("onebit_scaled keeps its bound on 100 000 vectors") {
  const std::vector<std::pair<std::string, double>> rules = {{"onebit_scaled", 0.9},
                                                             {"onebit_scaled:lambda=auto,bound=0.7", 0.7},
                                                             {"onebit_scaled:lambda=0.5,bound=0.95", 0.95},
                                                             {"onebit_scaled:bound=0.3,bucket=32", 0.3}};
  std::vector<std::unique_ptr<const Codec>> codecs;
  for (const auto& [spec, bound] : rules) codecs.push_back(make_codec(spec));
  std::mt19937_64 random(17);
  Workspace workspace;
  Bytes out;
  std::size_t broken = 0, expanding = 0;
  for (std::uint64_t number = 0; number < 100000; ++number) {
    const Vector v = shaped(number, random);
    const std::size_t rule = number / 8 % rules.size();
    const Codec& codec = *codecs[rule];
    out.resize(codec.max_bytes(v.size()));
    const std::size_t used = codec.encode(v, {}, workspace, out);
    const double norm = squared(v), bound = rules[rule].second;
    broken += squared_error(decode(std::span(out).first(used), v.size()), v) <= bound * bound * norm ? 0 : 1;
    // ‖λ(‖v‖/√d)·sign(v) − v‖² = ‖v‖²(1 − 2λr + λ²) at λ = 1 is more than ‖v‖² where r < ½.
    const double r = magnitudes(v) / std::sqrt(static_cast<double>(v.size()) * norm);
    expanding += r < 0.5 ? 1 : 0;
  }
  CHECK(broken == 0);
  CHECK(expanding > 20000);  // without the bound these would have grown
}

TEST_CASE("topk and onebit contract by their constants") {
  for (const auto& [name, v] : families(3000, 31)) {
    if (name == "tiny") continue;  // denormal numbers are rounded too coarsely for a formula
    INFO(name);
    const double norm = squared(v);
    for (const double density : {0.001, 0.01, 0.3, 1.0}) {
      const auto codec = make_codec("topk:density=" + std::to_string(density));
      const double k = std::max(1.0, std::ceil(density_of(*codec) * 3000));
      // δ = k/n is reached where all magnitudes are equal.
      const double error = squared_error(decode(encode(*codec, v), v.size()), v);
      REQUIRE(error <= (1 - k / 3000) * norm * (1 + 1e-12));
      if (name == "constant") REQUIRE(error == Approx((1 - k / 3000) * norm));
    }
    const Vector sent = decode(encode(*make_codec("onebit"), v), v.size());
    for (std::size_t i = 0; i < v.size(); i += 512) {
      const auto bucket = std::span(v).subspan(i, std::min<std::size_t>(512, v.size() - i));
      const double whole = squared(bucket), l1 = magnitudes(bucket);
      const double expected = whole - l1 * l1 / static_cast<double>(bucket.size());
      REQUIRE(std::fabs(squared_error(std::span(sent).subspan(i, bucket.size()), bucket) - expected) <=
              1e-5 * whole);
    }
  }
}

TEST_CASE("every codec takes a long vector of odd length, the same on threads and on every instruction set") {
  const std::size_t n = (std::size_t{1} << 20) + 7;
  const Vector v = laplacian(n, 41), few = sparse(n, 0.02, 42);
  Threads threads(3);
  gossamer::test::Drawn drawn(2);
  for (const auto& spec : all_specs()) {
    const auto codec = make_codec(spec);
    for (const Vector* x : {&v, &few}) {
      if (!drawn()) continue;
      INFO(spec << (x == &v ? " on Laplacian entries" : " on 2 % of entries"));
      const Bytes payload = encode(*codec, *x, {.seed = 5});
      REQUIRE(payload.size() <= codec->max_bytes(n));
      const Vector y = decode(payload, n);
      REQUIRE(std::all_of(y.begin(), y.end(), [](float f) { return std::isfinite(f); }));
      Workspace shared(&threads);
      Bytes out(codec->max_bytes(n));
      out.resize(codec->encode(*x, {.seed = 5}, shared, out));
      REQUIRE(out == payload);
      Vector z(n, 0.0f);
      decode_add(payload, 1.0f, z, &threads);
      REQUIRE(same_bits(y, z));
      if (!codec->traits().feedback()) continue;
      FeedbackState alone, together;
      Workspace workspace;
      Bytes first(codec->max_bytes(n)), second(codec->max_bytes(n));
      for (std::uint64_t round = 0; round < 2; ++round) {
        first.resize(codec->max_bytes(n));
        second.resize(codec->max_bytes(n));
        first.resize(codec->encode_feedback(*x, alone, {.round = round}, workspace, first));
        second.resize(codec->encode_feedback(*x, together, {.round = round}, shared, second));
        REQUIRE(first == second);
      }
    }
  }
}

TEST_CASE("limiting the instruction set changes no byte, and an unknown one is refused") {
  const Vector v = laplacian(70001, 43);
  const auto sets = instruction_sets();
  REQUIRE(!sets.empty());
  for (const char* spec : {"onebit", "onebit_scaled", "qsgd", "topk", "intq", "terngrad"}) {
    const auto codec = make_codec(spec);
    const Bytes payload = encode(*codec, v);
    for (const std::string& name : sets) {
      limit_instruction_set(name);
      INFO(spec << " with " << name);
      CHECK(encode(*codec, v) == payload);
      limit_instruction_set("");
    }
  }
  REQUIRE_THROWS_AS(limit_instruction_set("avx9"), CodecError);
}
