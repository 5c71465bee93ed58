// onebit_scaled under a constant bound, and what its payloads tell of their buckets.
#include <limits>

#include "gossamer_test/catch.h"
#include "vectors.h"

using namespace gossamer::compress;
using namespace gossamer::compress::test;

namespace {

/// The largest ‖C(v) − v‖₂ of a bucket.
double worst_bucket(std::span<const float> decoded, std::span<const float> v, std::size_t bucket) {
  double worst = 0;
  for (std::size_t i = 0; i < v.size(); i += bucket) {
    const std::size_t d = std::min(bucket, v.size() - i);
    worst = std::max(worst, std::sqrt(squared_error(decoded.subspan(i, d), v.subspan(i, d))));
  }
  return worst;
}

std::vector<double> shares(const Codec& codec, const Vector& v) {
  std::vector<double> all;
  for (const PayloadShare& share : payload_shares(encode(codec, v))) all.push_back(share.share);
  return all;
}

}  // namespace

TEST_CASE("onebit_scaled keeps a constant bound on every bucket") {
  for (const char* lambda : {"0.5", "0.8", "1", "auto"}) {
    for (const std::string c : {"1e-200", "1e-20", "0.01", "1", "5", "20", "1e+30", "1e+300"}) {
      for (const std::size_t bucket : {32u, 96u, 512u}) {
        const auto codec = make_codec(std::string("onebit_scaled:lambda=") + lambda + ",bound_abs=" + c +
                                      ",bucket=" + std::to_string(bucket));
        for (const auto& [name, v] : families(1300, 6)) {
          const Bytes payload = encode(*codec, v);
          INFO(codec->spec() << " on " << name);
          REQUIRE(payload.size() <= codec->max_bytes(v.size()));
          REQUIRE(worst_bucket(decode(payload, v.size()), v, bucket) <= std::stod(c));
        }
      }
    }
  }
}

TEST_CASE("a constant bound is bounded and not contractive") {
  const auto codec = make_codec("onebit_scaled:lambda=0.8,bound_abs=2");
  REQUIRE(codec->spec() == "onebit_scaled:lambda=0.8,bound_abs=2,bucket=512");
  REQUIRE_FALSE(codec->traits().contractive);
  REQUIRE(codec->traits().bounded);
  REQUIRE(codec->traits().feedback());
  // One entry of 512: its signs lose more than it holds.
  Vector v(512, 0.0f);
  v[7] = 1;
  REQUIRE(squared_error(decode(encode(*codec, v), 512), v) > squared(v));
  for (const char* spec :
       {"onebit_scaled:bound_abs=0", "onebit_scaled:bound_abs=-1", "onebit_scaled:bound_abs=inf",
        "onebit_scaled:bound_abs=nan", "onebit_scaled:bound=0.9,bound_abs=1"})
    REQUIRE_THROWS_AS(make_codec(spec), CodecError);
}

TEST_CASE("feedback under a constant bound keeps every bucket's residual within it") {
  const auto codec = make_codec("onebit_scaled:lambda=0.7,bound_abs=3,bucket=96");
  FeedbackState state;
  Workspace workspace;
  Bytes out(codec->max_bytes(1000));
  const Vector zero(1000, 0.0f);
  for (std::uint64_t round = 0; round < 40; ++round) {
    const Vector g = round % 2 == 0 ? gaussian(1000, round) : sparse(1000, 0.02, round);
    (void)codec->encode_feedback(g, state, {.round = round}, workspace, out);
    FeedbackState formed = state;
    formed.materialise();
    REQUIRE(worst_bucket(formed.residual, zero, 96) <= 3 * (1 + 1e-6));
  }
}

TEST_CASE("a payload tells how its buckets were sent") {
  // Of 32 each: equal entries; those of which λ = 1 loses too much, and their mean does not; one entry alone;
  // zeros.
  Vector v(128, 0.0f);
  for (std::size_t i = 0; i < 32; ++i) v[i] = i % 2 == 0 ? 1.0f : -1.0f;
  for (std::size_t i = 32; i < 64; ++i) v[i] = i % 4 == 0 ? 1.0f : 0.125f;
  v[70] = 5;
  const auto codec = make_codec("onebit_scaled:bound=0.8,bucket=32");
  const auto said = payload_shares(encode(*codec, v));
  REQUIRE(said.size() == 3);
  REQUIRE(said[0].name == "buckets at lambda");
  REQUIRE(said[1].name == "buckets at another");
  REQUIRE(said[2].name == "buckets dense");
  REQUIRE(shares(*codec, v) == std::vector<double>{0.5, 0.25, 0.25});
  REQUIRE(shares(*make_codec("onebit_scaled:lambda=0.5,bound_abs=1e9"), gaussian(5000, 1)) ==
          std::vector<double>{1, 0, 0});
  REQUIRE(shares(*make_codec("onebit_scaled:lambda=0.5,bound_abs=1e-9"), gaussian(5000, 1)) ==
          std::vector<double>{0, 0, 1});
  for (const char* other : {"onebit", "qsgd", "topk"})
    REQUIRE(payload_shares(encode(*make_codec(other), v)).empty());
  REQUIRE(payload_shares(encode(*codec, {})).empty());
}

TEST_CASE("what a payload tells is bounded by its length") {
  Bytes payload = encode(*make_codec("onebit_scaled:bucket=32"), gaussian(100, 1));
  for (std::size_t length = 0; length < 7; ++length)
    REQUIRE_THROWS_AS(payload_shares(std::span(payload).first(length)), PayloadError);
  // 2⁶² entries and eight bits of modes.
  payload.erase(payload.begin() + 3);
  for (int i = 0; i < 8; ++i) payload.insert(payload.begin() + 3, std::byte{0x80});
  payload.insert(payload.begin() + 11, std::byte{0x40});
  REQUIRE_THROWS_AS(payload_shares(payload), PayloadError);
}
