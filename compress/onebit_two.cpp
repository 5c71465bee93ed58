#include <algorithm>
#include <array>
#include <cmath>

#include "codecs.h"
#include "sums.h"

namespace gossamer::compress {
namespace {

/// What a bucket's two signs stand for.
struct Values {
  float above, below;  ///< mean of the entries ≥ 0 (0 where there are none), and of those < 0
};

Values two_means(std::span<const float> v) {
  // |x| ± x is twice the entry or 0, without a branch on its sign.
  const double above = 0.5 * sum_in_lanes(v, [](double x) { return std::fabs(x) + x; });
  const double below = 0.5 * sum_in_lanes(v, [](double x) { return x - std::fabs(x); });
  std::size_t negative = 0;
  for (const float x : v) negative += x < 0 ? 1u : 0u;
  const std::size_t rest = v.size() - negative;
  return {rest == 0 ? 0.0f : static_cast<float>(above / static_cast<double>(rest)),
          negative == 0 ? 0.0f : static_cast<float>(below / static_cast<double>(negative))};
}

/// Per bucket two reconstruction values: the mean of the entries ≥ 0 and the mean of those < 0 (CNTK's 1-bit
/// SGD; Seide et al. 2014, section 3.2: the reconstruction that is least wrong for the given signs). Biased.
/// Contractive and never worse than `onebit`: for given signs means minimise the squared error, and
/// ±‖v‖₁/d is another choice of the two values; as there, this ends where a mean underflows. Payload: header,
/// varint bucket, per bucket fp32 above and fp32 below, ceil(n/8) bytes of signs.
class OneBitTwo final : public Codec {
 public:
  explicit OneBitTwo(std::size_t bucket) : bucket_(bucket) {}

  std::string spec() const override { return "onebit_two:bucket=" + std::to_string(bucket_); }
  std::string_view name() const override { return "onebit_two"; }
  Traits traits() const override { return {.contractive = true}; }
  std::size_t max_bytes(std::size_t n) const override {
    return wire::kHeaderMax + wire::kVarintMax + wire::ceil_div(n, bucket_) * 2 * sizeof(float) +
           wire::ceil_div(n, 8);
  }

  std::size_t encode(std::span<const float> x, RandomKey, Workspace&,
                     std::span<std::byte> out) const override {
    wire::require_room(out, max_bytes(x.size()));
    wire::require_finite(x);
    wire::Writer writer(out);
    writer.header(wire::CodecId::onebit_two, x.size());
    writer.varint(bucket_);
    for (std::size_t i = 0; i < x.size(); i += bucket_) {
      const Values values = two_means(x.subspan(i, std::min(bucket_, x.size() - i)));
      writer.f32(values.above);
      writer.f32(values.below);
    }
    wire::write_signs(writer, x);
    return writer.size();
  }

 private:
  std::size_t bucket_;
};

Values read_values(wire::Reader& in) {
  const float above = in.f32(), below = in.f32();
  if (std::signbit(above) || below > 0)
    throw PayloadError("payload holds a mean whose sign is not that of its entries");
  return {above, below};
}

}  // namespace

std::unique_ptr<const Codec> make_onebit_two(Parameters& parameters) {
  return std::make_unique<OneBitTwo>(bucket_parameter(parameters));
}

void decode_onebit_two(wire::Reader& in, float weight, std::span<float> acc, Threads*) {
  const std::size_t bucket = wire::read_bucket(in);
  const std::size_t buckets = wire::ceil_div(acc.size(), bucket);
  in.expect_left(buckets * 2 * sizeof(float) + wire::ceil_div(acc.size(), 8));
  wire::Reader scales(in.take(buckets * 2 * sizeof(float)));
  for (; !acc.empty(); acc = acc.subspan(std::min(bucket, acc.size()))) {
    const auto part = acc.first(std::min(bucket, acc.size()));
    const Values values = read_values(scales);
    const std::array<float, 2> step = {weight * values.below, weight * values.above};
    const auto signs = in.take(wire::ceil_div(part.size(), 8));
    wire::require_no_signs_past(signs, part.size());
    for (std::size_t i = 0; i < part.size(); ++i) {
      part[i] += step[(static_cast<unsigned>(signs[i / 8]) >> (i % 8)) & 1u];
    }
  }
}

}  // namespace gossamer::compress
