#include <cmath>
#include <cstring>

#include "codecs.h"
#include "fused_codec.h"
#include "sign_buckets.h"

namespace gossamer::compress {
namespace {

/// ‖v‖₁/d from the sum in float, or where that overflows in double.
float mean_magnitude(float sum, std::span<const float> v) {
  double l1 = sum;
  if (!std::isfinite(sum)) {
    l1 = 0;
    for (const float x : v) l1 += std::fabs(static_cast<double>(x));
  }
  return static_cast<float>(l1 / static_cast<double>(v.size()));
}

/// Per bucket C[v] = (‖v‖₁/d)·sign(v), sign(0) = +1 (Seide et al. 2014, "1-bit stochastic gradient descent";
/// Karimireddy et al. 2019, "Error feedback fixes signSGD"). Contractive: ‖C[v]−v‖² = (1 −
/// ‖v‖₁²/(d‖v‖₂²))‖v‖², as long as the scale does not underflow. Payload: header, varint bucket, one fp32
/// scale per bucket, ceil(n/8) bytes of signs.
class OneBit final : public FusedCodec {
 public:
  explicit OneBit(std::size_t bucket) : bucket_(bucket) {}

  std::string spec() const override { return "onebit:bucket=" + std::to_string(bucket_); }
  std::string_view name() const override { return "onebit"; }
  Traits traits() const override { return {.contractive = true, .delta = kEvenSigns}; }
  std::size_t max_bytes(std::size_t n) const override {
    return wire::kHeaderMax + wire::kVarintMax + wire::ceil_div(n, bucket_) * sizeof(float) +
           wire::ceil_div(n, 8);
  }

 private:
  std::size_t write(std::span<const float> g, FeedbackState* state, RandomKey, Workspace& workspace,
                    std::span<std::byte> out) const override {
    const std::size_t n = g.size();
    wire::require_room(out, max_bytes(n));
    SignInput input(g, state, bucket_);
    wire::Writer writer(out);
    writer.header(wire::CodecId::onebit, n);
    writer.varint(bucket_);
    std::byte* const scales = writer.skip(wire::ceil_div(n, bucket_) * sizeof(float));
    std::byte* const signs = writer.skip(wire::ceil_div(n, 8));
    const auto value = [&](std::size_t b, BucketSums sums, std::span<const float> v) {
      if (!std::isfinite(sums.first)) input.require_finite(b * bucket_, v.size());
      const float scale = mean_magnitude(sums.first, v);
      std::memcpy(scales + b * sizeof scale, &scale, sizeof scale);
      return SignPair{scale, -scale};
    };
    scan_buckets(Sums::l1, input, bucket_, workspace.threads(), signs, value);
    return writer.size();
  }

  std::size_t bucket_;
};

}  // namespace

std::unique_ptr<const Codec> make_onebit(Parameters& parameters) {
  return std::make_unique<OneBit>(bucket_parameter(parameters));
}

void decode_onebit(wire::Reader& in, float weight, std::span<float> acc, Threads* threads) {
  const std::size_t bucket = wire::read_bucket(in);
  const std::size_t buckets = wire::ceil_div(acc.size(), bucket), bytes = wire::ceil_div(acc.size(), 8);
  in.expect_left(buckets * sizeof(float) + bytes);
  const std::span<const std::byte> scales = in.take(buckets * sizeof(float));
  add_buckets(in.take(bytes), bucket, acc, threads, [&](std::size_t b) {
    const float scale = wire::Reader(scales.subspan(b * sizeof(float), sizeof(float))).f32();
    if (std::signbit(scale)) throw PayloadError("payload holds a negative scale");
    return SignPair{weight * scale, -(weight * scale)};
  });
}

}  // namespace gossamer::compress
