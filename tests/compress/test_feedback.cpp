// Error feedback: v = g + e; m = C[v]; e ← fl(v − decode(m)), to the bit.
#include <limits>

#include "gossamer_test/catch.h"
#include "vectors.h"

using namespace gossamer::compress;
using namespace gossamer::compress::test;

namespace {

/// e of a state, however it is kept.
Vector residual_of(FeedbackState state) {
  state.materialise();
  return Vector(state.residual.begin(), state.residual.end());
}

}  // namespace

TEST_CASE("the residual is what was not sent to the bit") {
  for (const auto& spec : all_specs()) {
    const auto codec = make_codec(spec);
    if (!codec->traits().feedback()) continue;
    for (const std::size_t n : {0u, 1u, 33u, 513u, 5000u}) {
      FeedbackState state;
      SelectionState selection;
      Workspace workspace;
      Vector residual(n, 0.0f);
      Bytes out(codec->max_bytes(n)), expected_out(out.size());
      for (std::uint64_t round = 0; round < 4; ++round) {
        const Vector g = round % 2 == 0 ? laplacian(n, round) : sparse(n, 0.02, round);
        const std::size_t used = codec->encode_feedback(g, state, {.round = round}, workspace, out);
        Vector v(n), expected(n);
        for (std::size_t i = 0; i < n; ++i) v[i] = g[i] + residual[i];
        const Vector decoded = decode(std::span(out).first(used), n);
        for (std::size_t i = 0; i < n; ++i) expected[i] = v[i] - decoded[i];
        INFO(spec << " on " << n << " round " << round);
        REQUIRE(used == codec->encode_selecting(v, selection, {.round = round}, workspace, expected_out));
        REQUIRE(
            std::equal(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(used), expected_out.begin()));
        REQUIRE(same_bits(residual_of(state), expected));
        residual = expected;
      }
    }
  }
}

TEST_CASE("what is sent and what is kept add up") {
  for (const auto& spec : all_specs()) {
    const auto codec = make_codec(spec);
    if (!codec->traits().feedback()) continue;
    FeedbackState state;
    Workspace workspace;
    const Vector v = gaussian(3000, 9);
    Bytes out(codec->max_bytes(v.size()));
    const std::size_t used = codec->encode_feedback(v, state, {}, workspace, out);
    const Vector decoded = decode(std::span(out).first(used), v.size());
    const Vector residual = residual_of(state);
    double worst = 0;
    for (std::size_t i = 0; i < v.size(); ++i) {
      const double size = std::max(std::fabs(v[i]), std::fabs(decoded[i]));
      const double ulp = std::ldexp(1.0, std::ilogb(size == 0 ? 1 : size) - 23);
      worst = std::max(worst, std::fabs(static_cast<double>(decoded[i]) + residual[i] - v[i]) / ulp);
    }
    INFO(spec);
    REQUIRE(worst <= 1);
    if (codec->spec().find("values=fp32") != std::string::npos || codec->name() == "dense")
      REQUIRE(worst == 0);
  }
}

TEST_CASE("feedback keeps the residual bounded under every contractive codec") {
  for (const auto& spec : all_specs()) {
    const auto codec = make_codec(spec);
    if (!codec->traits().contractive) continue;
    FeedbackState state;
    Workspace workspace;
    const std::size_t n = 1024;
    Bytes out(codec->max_bytes(n));
    Vector sum_sent(n, 0.0f), sum_true(n, 0.0f);
    const bool sparse = codec->name() == "topk" || codec->name() == "randk";
    const std::uint64_t rounds = sparse ? 2000 : 300;
    const Vector drift = gaussian(n, 77);
    for (std::uint64_t round = 0; round < rounds; ++round) {
      Vector g = gaussian(n, 100 + round);
      for (std::size_t i = 0; i < n; ++i) g[i] += drift[i];
      (void)codec->encode_feedback(g, state, {.round = round}, workspace, out);
    }
    // ‖e‖ ≤ √(1−δ)/(1−√(1−δ))·‖g‖ ≤ (2/δ)‖g‖; δ = k/n for topk and randk, at least 0.19 for the others here.
    // One mean magnitude for all that is sent leaves a tenth of it and more.
    const double form = codec->spec().find("values=sign") != std::string::npos ||
                                codec->spec().find("values=two_bit") != std::string::npos
                            ? 0.1
                            : 1;
    const double delta = sparse ? form * std::ceil(n * density_of(*codec)) / n : 0.09;
    INFO(spec);
    REQUIRE(std::sqrt(squared(residual_of(state))) <= 2 / delta * 1.5 * std::sqrt(2.0 * n));
  }
}

TEST_CASE("a refused vector loses nothing") {
  for (const auto& spec : all_specs()) {
    const auto codec = make_codec(spec);
    if (!codec->traits().feedback()) continue;
    FeedbackState state;
    Workspace workspace;
    Bytes out(codec->max_bytes(700));
    Vector g = gaussian(700, 1);
    (void)codec->encode_feedback(g, state, {}, workspace, out);
    const Vector before = residual_of(state);
    INFO(spec);
    // What is refused before it is read changes nothing.
    REQUIRE_THROWS_AS(codec->encode_feedback(gaussian(699, 1), state, {}, workspace, out), EncodeError);
    REQUIRE_THROWS_AS(codec->encode_feedback(g, state, {}, workspace, std::span(out).first(5)), EncodeError);
    REQUIRE(same_bits(residual_of(state), before));
    // Else e has taken in g wherever their sum is finite, or nowhere.
    g[37] = std::numeric_limits<float>::infinity();
    g[650] = std::numeric_limits<float>::quiet_NaN();
    std::string message;
    try {
      (void)codec->encode_feedback(g, state, {}, workspace, out);
    } catch (const EncodeError& error) {
      message = error.what();
    }
    REQUIRE(message.find("entry 37 of 700 is inf") != std::string::npos);
    Vector added = before;
    for (std::size_t i = 0; i < 700; ++i) added[i] = i == 37 || i == 650 ? before[i] : g[i] + before[i];
    const Vector after = residual_of(state);
    if (codec->name() == "qsgd" || codec->name() == "intq") {
      // These put e back together; test_levels.cpp says how well.
      REQUIRE(squared_error(after, before) <= 1e-12 * 700);
      continue;
    }
    const bool one_pass = codec->name().starts_with("onebit") || codec->name() == "dense" ||
                          codec->name() == "fp16" || codec->name() == "bf16";
    REQUIRE(same_bits(after, one_pass ? added : before));
    FeedbackState fresh;
    REQUIRE_THROWS_AS(codec->encode_feedback(g, fresh, {}, workspace, out), EncodeError);
    if (!one_pass) REQUIRE(fresh.residual.empty());
  }
}

TEST_CASE("codecs whose error may exceed what they are given are refused under feedback unless scaled") {
  std::size_t refused = 0;
  for (const auto& spec : all_specs()) {
    const auto codec = make_codec(spec);
    FeedbackState state;
    Workspace workspace;
    Bytes out(codec->max_bytes(100));
    INFO(spec);
    const Vector g = gaussian(100, 1);
    if (codec->traits().feedback()) {
      REQUIRE_NOTHROW(codec->encode_feedback(g, state, {}, workspace, out));
    } else {
      REQUIRE_THROWS_AS(codec->encode_feedback(g, state, {}, workspace, out), CodecError);
      REQUIRE(state.residual.empty());
      ++refused;
    }
  }
  REQUIRE(refused > 3);
  REQUIRE(make_codec("randk:density=0.1")->traits().feedback());
  REQUIRE_FALSE(make_codec("randk:density=0.1,scale=1")->traits().feedback());
}
