#include <algorithm>
#include <cmath>

#include "codecs.h"
#include "gossamer/compress/kernels.h"

namespace gossamer::compress {
namespace {

/// ‖x‖₁/d, summed in float where that neither overflows nor loses entries, else in double; throws for NaN and
/// Inf.
float mean_magnitude(std::span<const float> bucket, std::span<const float> whole) {
  double l1 = norms(bucket).l1;
  if (!std::isfinite(l1)) {
    wire::require_finite(whole);
    l1 = 0;
    for (const float v : bucket) l1 += std::fabs(static_cast<double>(v));
  }
  return static_cast<float>(l1 / static_cast<double>(bucket.size()));
}

/// Per bucket C[v] = (‖v‖₁/d)·sign(v), sign(0) = +1 (Seide et al. 2014, "1-bit stochastic gradient descent";
/// Karimireddy et al. 2019, "Error feedback fixes signSGD"). Contractive: ‖C[v]−v‖² = (1 −
/// ‖v‖₁²/(d‖v‖₂²))‖v‖², as long as the scale does not underflow. Payload: header, varint bucket, one fp32
/// scale per bucket, ceil(n/8) bytes of signs.
class OneBit final : public Codec {
 public:
  explicit OneBit(std::size_t bucket) : bucket_(bucket) {}

  std::string spec() const override { return "onebit:bucket=" + std::to_string(bucket_); }
  std::string_view name() const override { return "onebit"; }
  Traits traits() const override { return {.contractive = true}; }
  std::size_t max_bytes(std::size_t n) const override {
    return wire::kHeaderMax + wire::kVarintMax + wire::ceil_div(n, bucket_) * sizeof(float) +
           wire::ceil_div(n, 8);
  }

  std::size_t encode(std::span<const float> x, RandomKey, Workspace&,
                     std::span<std::byte> out) const override {
    wire::require_room(out, max_bytes(x.size()));
    wire::Writer writer(out);
    writer.header(wire::CodecId::onebit, x.size());
    writer.varint(bucket_);
    for (std::size_t i = 0; i < x.size(); i += bucket_) {
      writer.f32(mean_magnitude(x.subspan(i, std::min(bucket_, x.size() - i)), x));
    }
    wire::write_signs(writer, x);
    return writer.size();
  }

 private:
  std::size_t bucket_;
};

}  // namespace

std::unique_ptr<const Codec> make_onebit(Parameters& parameters) {
  return std::make_unique<OneBit>(bucket_parameter(parameters));
}

void decode_onebit(wire::Reader& in, float weight, std::span<float> acc, Threads*) {
  const std::size_t bucket = wire::read_bucket(in);
  const std::size_t buckets = wire::ceil_div(acc.size(), bucket);
  in.expect_left(buckets * sizeof(float) + wire::ceil_div(acc.size(), 8));
  wire::Reader scales(in.take(buckets * sizeof(float)));
  for (; !acc.empty(); acc = acc.subspan(std::min(bucket, acc.size()))) {
    const auto part = acc.first(std::min(bucket, acc.size()));
    const float scale = scales.f32();
    if (std::signbit(scale)) throw PayloadError("payload holds a negative scale");
    wire::add_packed_signs(in.take(wire::ceil_div(part.size(), 8)), weight * scale, part);
  }
}

}  // namespace gossamer::compress
