// Momentum correction with factor masking, clipping, warm-up, and which layers stay dense.
#include <limits>

#include "gossamer/compress/feedback.h"
#include "gossamer_test/catch.h"
#include "vectors.h"

using namespace gossamer::compress;
using namespace gossamer::compress::test;

namespace {

Bytes send(const MomentumCorrection& correction, const Codec& codec, const Vector& g, MomentumState& state,
           std::uint64_t round = 0) {
  Workspace workspace;
  Bytes out(codec.max_bytes(g.size()));
  out.resize(correction.encode(codec, g, state, {.round = round}, workspace, out));
  return out;
}

}  // namespace

TEST_CASE("masking zeroes velocity and unsent part of exactly the sent entries") {
  const std::size_t n = 2000;
  const float m = 0.9f;
  for (const char* spec :
       {"topk:density=0.05", "topk:select=ldte_bs", "threshold:tau=4", "randk:density=0.1"}) {
    const auto codec = make_codec(spec);
    const MomentumCorrection correction(m);
    MomentumState state;
    Vector u(n, 0.0f), v(n, 0.0f);
    for (std::uint64_t round = 0; round < 20; ++round) {
      const Vector g = laplacian(n, round);
      for (std::size_t i = 0; i < n; ++i) {
        u[i] = m * u[i] + g[i];
        v[i] += u[i];
      }
      const Vector sent = decode(send(correction, *codec, g, state, round), n);
      std::size_t count = 0;
      for (std::size_t i = 0; i < n; ++i) {
        if (sent[i] == 0) continue;
        REQUIRE(sent[i] == v[i]);
        u[i] = v[i] = 0;
        ++count;
      }
      INFO(spec << " round " << round);
      REQUIRE(count < n);
      REQUIRE(same_bits(state.velocity, u));
      REQUIRE(same_bits(state.unsent, v));
    }
  }
}

TEST_CASE("dense momentum correction sends momentum itself and keeps nothing back") {
  // Everything is sent at once, so that masking leaves plain gradients.
  const MomentumCorrection correction(0.9f);
  MomentumState state;
  for (std::uint64_t round = 0; round < 5; ++round) {
    const Vector g = gaussian(300, round);
    REQUIRE(same_bits(decode(send(correction, *make_codec("dense"), g, state), 300), g));
    REQUIRE(largest(state.velocity) == 0);
    REQUIRE(largest(state.unsent) == 0);
  }
}

TEST_CASE("without momentum the correction is error feedback") {
  const auto codec = make_codec("topk:density=0.02");
  const MomentumCorrection correction(0);
  MomentumState state;
  FeedbackState feedback;
  Workspace workspace;
  Bytes out(codec->max_bytes(1000));
  for (std::uint64_t round = 0; round < 30; ++round) {
    const Vector g = gaussian(1000, round);
    const std::size_t used = codec->encode_feedback(g, feedback, {}, workspace, out);
    out.resize(used);
    REQUIRE(send(correction, *codec, g, state) == out);
    REQUIRE(same_bits(state.unsent, feedback.residual));
    out.resize(codec->max_bytes(1000));
  }
}

TEST_CASE("what a coarse value form did not say stays unsent") {
  const auto codec = make_codec("topk:density=0.1,values=int8");
  MomentumState state;
  const Vector g = gaussian(500, 3);
  const Vector sent = decode(send(MomentumCorrection(0.5f), *codec, g, state), 500);
  for (std::size_t i = 0; i < 500; ++i) {
    REQUIRE(state.unsent[i] == g[i] - sent[i]);
    REQUIRE(state.velocity[i] == (sent[i] != 0 ? 0 : g[i]));
  }
}

TEST_CASE("a saved momentum state goes on where it stopped") {
  const auto codec = make_codec("topk:density=0.05");
  const MomentumCorrection correction(0.9f);
  MomentumState state;
  for (std::uint64_t round = 0; round < 5; ++round)
    (void)send(correction, *codec, gaussian(400, round), state);
  const auto saved = save(state);
  MomentumState restored = restore_momentum(saved);
  for (std::uint64_t round = 5; round < 10; ++round) {
    const Vector g = gaussian(400, round);
    REQUIRE(send(correction, *codec, g, state) == send(correction, *codec, g, restored));
  }
  REQUIRE(same_bits(state.unsent, restored.unsent));
  REQUIRE(state.selection.threshold == restored.selection.threshold);
  for (std::size_t size = 0; size < saved.size(); size += size < 64 ? 1 : 97)
    REQUIRE_THROWS_AS(restore_momentum(std::span(saved).first(size)), StateError);
  REQUIRE_THROWS_AS(restore_feedback(saved), StateError);
  auto strange = saved;
  std::fill(strange.begin() + 4, strange.begin() + 12, std::byte{0xff});
  REQUIRE_THROWS_AS(restore_momentum(strange), StateError);
  REQUIRE(restore_momentum(save(MomentumState{})).unsent.empty());
  MomentumState dense;
  dense.velocity.assign(5, 0.25f);
  const MomentumState back = restore_momentum(save(dense));  // nothing of it waits to be sent
  REQUIRE(back.velocity == dense.velocity);
  REQUIRE(back.unsent.empty());
}

TEST_CASE("a refused vector leaves the momentum state as it was") {
  const auto codec = make_codec("topk");
  const MomentumCorrection correction(0.9f);
  MomentumState state;
  (void)send(correction, *codec, gaussian(400, 1), state);
  const MomentumState before = state;
  Vector g = gaussian(400, 2);
  g[7] = std::numeric_limits<float>::quiet_NaN();
  REQUIRE_THROWS_AS(send(correction, *codec, g, state), EncodeError);
  REQUIRE_THROWS_AS(send(correction, *codec, gaussian(399, 2), state), EncodeError);
  REQUIRE(same_bits(state.velocity, before.velocity));
  REQUIRE(same_bits(state.unsent, before.unsent));
  for (const float m : {-0.1f, 1.0f, std::nanf("")})
    REQUIRE_THROWS_AS(MomentumCorrection(m), std::invalid_argument);
}

TEST_CASE("local clipping keeps each peer to its share of the threshold") {
  Vector g = {3, 4};
  REQUIRE(l2_norm(g) == 5);
  REQUIRE(clip_locally(g, 10, 4) == 1);
  REQUIRE(g == Vector{3, 4});
  REQUIRE(clip_locally(g, 5, 4) == 0.5f);
  REQUIRE(g == Vector{1.5f, 2});
  Vector zero(5, 0.0f), huge(100, 1e38f);
  REQUIRE(clip_locally(zero, 1, 9) == 1);
  REQUIRE(clip_locally(huge, 1, 4) < 1);
  REQUIRE(l2_norm(huge) == Approx(0.5).epsilon(1e-6));
  REQUIRE(local_clip_factor(8, 2, 16) == 0.0625f);
  for (const auto& [norm, limit, peers] :
       {std::tuple{1.0, 0.0, 1u}, std::tuple{1.0, -1.0, 1u}, std::tuple{1.0, 1.0, 0u},
        std::tuple{-1.0, 1.0, 1u}, std::tuple{std::numeric_limits<double>::infinity(), 1.0, 1u}}) {
    REQUIRE_THROWS_AS(local_clip_factor(norm, limit, peers), std::invalid_argument);
  }
}

TEST_CASE("density warms up by quarters to the final one") {
  const double expected[] = {0.25, 0.0625, 0.015625, 0.00390625, 0.001, 0.001};
  for (std::size_t epoch = 0; epoch < 6; ++epoch) REQUIRE(warm_up_density(epoch, 0.001) == expected[epoch]);
  REQUIRE(warm_up_density(2, 0.03) == 0.03);
  REQUIRE(warm_up_density(0, 0.5) == 0.5);
  REQUIRE(warm_up_density(std::numeric_limits<std::size_t>::max(), 1e-9) == 1e-9);
  for (const double density : {0.0, -1.0, 1.5, std::nan("")})
    REQUIRE_THROWS_AS(warm_up_density(0, density), std::invalid_argument);
}

TEST_CASE("small layers stay dense under codecs of several bits and sparse ones") {
  for (const CodecRow& row : codec_table()) {
    const auto codec = make_codec(row.name);
    const bool one_bit = std::string(row.name).starts_with("onebit") || codec->name() == "sign_vote";
    const bool every_number = codec->name() == "dense" || codec->name() == "fp16" || codec->name() == "bf16";
    INFO(row.name);
    REQUIRE(stays_dense(*codec, 9999) == !(one_bit || every_number));
    REQUIRE_FALSE(stays_dense(*codec, 10000));
    REQUIRE_FALSE(stays_dense(*codec, 11, 11));
  }
}

TEST_CASE("the first rule that fits gives a layer its density") {
  const std::vector<LayerDensity> rules = {{.layer = "conv1.bias", .density = 1},
                                           {.layer = "conv*", .at_least = 1000, .density = 0.1},
                                           {.layer = "*", .at_least = 100000, .density = 0.001}};
  REQUIRE(density_of_layer(rules, "conv1.bias", 5, 0.01) == 1);
  REQUIRE(density_of_layer(rules, "conv1.weight", 1000, 0.01) == 0.1);
  REQUIRE(density_of_layer(rules, "conv1.weight", 999, 0.01) == 0.01);
  REQUIRE(density_of_layer(rules, "fc", 100000, 0.01) == 0.001);
  REQUIRE(density_of_layer({}, "fc", 100000, 0.01) == 0.01);
}

TEST_CASE("a long refused vector leaves the momentum state, up to rounding") {
  const auto codec = make_codec("topk");
  const MomentumCorrection correction(0.9f);
  const std::size_t n = 3 * kSlice + 5;
  MomentumState state;
  for (std::uint64_t round = 0; round < 3; ++round) (void)send(correction, *codec, gaussian(n, round), state);
  const MomentumState before = state;
  Vector g = gaussian(n, 9);
  g[2 * kSlice + 77] = std::numeric_limits<float>::infinity();
  REQUIRE_THROWS_AS(send(correction, *codec, g, state), EncodeError);
  double worst = 0;
  for (std::size_t i = 0; i < n; ++i) {
    worst = std::max(worst, std::fabs(static_cast<double>(state.velocity[i]) - before.velocity[i]));
    worst = std::max(worst, std::fabs(static_cast<double>(state.unsent[i]) - before.unsent[i]));
  }
  REQUIRE(worst < 1e-5);
}
