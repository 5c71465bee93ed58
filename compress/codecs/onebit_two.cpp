#include <cmath>
#include <cstring>

#include "codecs.h"
#include "fused_codec.h"
#include "sign_buckets.h"

namespace gossamer::compress {
namespace {

/// δ as consensus steps go by it: kEvenSigns would do for even magnitudes, but few large entries of one sign
/// shift all the others of that sign, and peers of a full graph by the same mistake (measured with
/// tests/node/setup/table_gamma at 32 peers: 0.6 is stable, just).
constexpr double kSharedMeans = 0.5;

/// The mean of the entries ≥ 0 (0 where there are none), and of those < 0, from their sums in float, or where
/// one overflows in double.
SignPair two_means(BucketSums sums, std::span<const float> v) {
  double above = sums.first, below = sums.second;
  if (!std::isfinite(sums.first) || !std::isfinite(sums.second)) {
    above = below = 0;
    for (const float x : v) (x >= 0 ? above : below) += x;
  }
  const auto mean = [](double sum, std::size_t entries) {
    return entries == 0 ? 0.0f : static_cast<float>(sum / static_cast<double>(entries));
  };
  return {mean(above, sums.positive), mean(below, v.size() - sums.positive)};
}

/// Per bucket two reconstruction values: the mean of the entries ≥ 0 and the mean of those < 0 (CNTK's 1-bit
/// SGD; Seide et al. 2014, section 3.2: the reconstruction that is least wrong for the given signs). Biased.
/// Contractive and never worse than `onebit`: for given signs means minimise the squared error, and
/// ±‖v‖₁/d is another choice of the two values; as there, this ends where a mean underflows. Payload: header,
/// varint bucket, per bucket fp32 above and fp32 below, ceil(n/8) bytes of signs.
class OneBitTwo final : public FusedCodec {
 public:
  explicit OneBitTwo(std::size_t bucket) : bucket_(bucket) {}

  std::string spec() const override { return "onebit_two:bucket=" + std::to_string(bucket_); }
  std::string_view name() const override { return "onebit_two"; }
  Traits traits() const override { return {.contractive = true, .delta = kSharedMeans}; }
  std::size_t max_bytes(std::size_t n) const override {
    return wire::kHeaderMax + wire::kVarintMax + wire::ceil_div(n, bucket_) * 2 * sizeof(float) +
           wire::ceil_div(n, 8);
  }

 private:
  std::size_t write(std::span<const float> g, FeedbackState* state, RandomKey, Workspace& workspace,
                    std::span<std::byte> out) const override {
    const std::size_t n = g.size();
    wire::require_room(out, max_bytes(n));
    SignInput input(g, state, bucket_);
    wire::Writer writer(out);
    writer.header(wire::CodecId::onebit_two, n);
    writer.varint(bucket_);
    std::byte* const pairs = writer.skip(wire::ceil_div(n, bucket_) * sizeof(SignPair));
    std::byte* const signs = writer.skip(wire::ceil_div(n, 8));
    const auto value = [&](std::size_t b, BucketSums sums, std::span<const float> v) {
      if (!std::isfinite(sums.first) || !std::isfinite(sums.second))
        input.require_finite(b * bucket_, v.size());
      const SignPair pair = two_means(sums, v);
      std::memcpy(pairs + b * sizeof pair, &pair, sizeof pair);
      return pair;
    };
    scan_buckets(Sums::sides, input, bucket_, workspace.threads(), signs, value);
    return writer.size();
  }

  std::size_t bucket_;
};

/// As on the wire: above, then below.
SignPair read_pair(wire::Reader in) {
  const float above = in.f32(), below = in.f32();
  if (std::signbit(above) || below > 0)
    throw PayloadError("payload holds a mean whose sign is not that of its entries");
  return {above, below};
}

}  // namespace

std::unique_ptr<const Codec> make_onebit_two(Parameters& parameters) {
  return std::make_unique<OneBitTwo>(bucket_parameter(parameters));
}

void decode_onebit_two(wire::Reader& in, float weight, std::span<float> acc, Threads* threads) {
  const std::size_t bucket = wire::read_bucket(in);
  const std::size_t buckets = wire::ceil_div(acc.size(), bucket), bytes = wire::ceil_div(acc.size(), 8);
  in.expect_left(buckets * sizeof(SignPair) + bytes);
  const std::span<const std::byte> pairs = in.take(buckets * sizeof(SignPair));
  add_buckets(in.take(bytes), bucket, acc, threads, [&](std::size_t b) {
    const SignPair pair = read_pair(wire::Reader(pairs.subspan(b * sizeof(SignPair), sizeof(SignPair))));
    return SignPair{weight * pair.plus, weight * pair.minus};
  });
}

}  // namespace gossamer::compress
