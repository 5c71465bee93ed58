#include <algorithm>
#include <array>
#include <cmath>

#include "codecs.h"
#include "fields.h"

namespace gossamer::compress {
namespace {

constexpr std::size_t kGroup = EntryBits::kGroup;

constexpr unsigned top_level(std::size_t bits) { return (1u << bits) - 1; }

struct Range {
  float low, high;
};

Range range_of(std::span<const float> v) {
  Range range{v[0], v[0]};
  for (const float x : v) {
    range.low = x < range.low ? x : range.low;
    range.high = x > range.high ? x : range.high;
  }
  return range;
}

/// Per bucket the 2^b evenly spaced levels from its least to its greatest entry, ends included, b = 8, 4 or
/// 2; an entry goes to the nearest, or to one of its two neighbours so that the mean is right (the uniform
/// affine quantiser; Seide's and QSGD's stochastic rounding on it).
///
/// With L = 2^b − 1 an entry is wrong by at most (max − min)/2L where rounding is nearest, by less than
/// (max − min)/L where it is stochastic: at most ‖v‖∞/L and 2‖v‖∞/L. L ≥ 3 makes both a sure contraction in
/// the max norm, which is the guarantee that contractive stands on here. In the l2 norm it is none for every
/// v: zero need not be a level, so that a bucket of zeros and two large entries of either sign gets noise of
/// size max/L in every entry. stochastic is unbiased (16 random bits per entry: to 2⁻¹⁷ of a level), nearest
/// is not.
///
/// Payload: header, u8 bits, varint bucket, per bucket fp32 min and fp32 max, ceil(n·b/8) bytes of fields.
class IntQ final : public Codec {
 public:
  IntQ(std::size_t bits, std::size_t bucket, bool stochastic)
      : bits_(bits), bucket_(bucket), stochastic_(stochastic) {}

  std::string spec() const override {
    return "intq:bits=" + std::to_string(bits_) + ",bucket=" + std::to_string(bucket_) +
           ",rounding=" + (stochastic_ ? "stochastic" : "nearest");
  }
  std::string_view name() const override { return "intq"; }
  Traits traits() const override { return {.unbiased = stochastic_, .contractive = true}; }
  std::size_t max_bytes(std::size_t n) const override {
    return wire::kHeaderMax + 1 + wire::kVarintMax + wire::ceil_div(n, bucket_) * sizeof(Range) +
           wire::ceil_div(n, 8 / bits_);
  }

  std::size_t encode(std::span<const float> x, RandomKey key, Workspace& workspace,
                     std::span<std::byte> out) const override {
    wire::require_room(out, max_bytes(x.size()));
    wire::require_finite(x);
    wire::Writer writer(out);
    writer.header(wire::CodecId::intq, x.size());
    writer.u8(static_cast<std::uint8_t>(bits_));
    writer.varint(bucket_);
    const std::size_t buckets = wire::ceil_div(x.size(), bucket_);
    const std::span<float> ends = workspace.more_floats(2 * buckets);
    for (std::size_t b = 0; b < buckets; ++b) {
      const Range range = range_of(x.subspan(b * bucket_, std::min(bucket_, x.size() - b * bucket_)));
      ends[2 * b] = range.low;
      ends[2 * b + 1] = range.high;
    }
    writer.bytes(ends.data(), ends.size_bytes());
    const EntryBits random(key);
    EntryBits::Group draws;
    draws.fill(0x8000);  // half a level: to nearest
    Fields fields;
    for (std::size_t i = 0; i < x.size(); i += kGroup) {
      if (stochastic_) random.group(i / kGroup, draws);
      const std::size_t count = std::min(kGroup, x.size() - i);
      for (std::size_t j = 0; j < count;) {
        const std::size_t b = (i + j) / bucket_;
        const std::size_t end = std::min(count, (b + 1) * bucket_ - i);
        round(x.data() + i, {ends[2 * b], ends[2 * b + 1]}, draws, j, end, fields);
        j = end;
      }
      pack_fields(bits_, fields, count, writer.skip(wire::ceil_div(count, 8 / bits_)));
    }
    return writer.size();
  }

 private:
  /// Fields of the entries j … end of one group, which share one range. In double, where no difference of
  /// two floats overflows.
  void round(const float* x, Range range, const EntryBits::Group& draws, std::size_t j, std::size_t end,
             Fields& fields) const {
    const auto top = static_cast<std::int32_t>(top_level(bits_));
    const double low = range.low, width = static_cast<double>(range.high) - low;
    const double inverse = width > 0 ? top / width : 0.0;
    const double half = stochastic_ ? 0.5 : 0.0;
    for (; j < end; ++j) {
      const double up = (draws[j] + half) * 0x1p-16;
      const double position = (static_cast<double>(x[j]) - low) * inverse + up;
      fields[j] = static_cast<std::uint8_t>(std::min(static_cast<std::int32_t>(position), top));
    }
  }

  std::size_t bits_, bucket_;
  bool stochastic_;
};

/// weight · level for every field; the lowest and the highest level are the bucket's ends to the bit.
class LevelValues {
 public:
  explicit LevelValues(std::size_t bits) : top_(top_level(bits)) {}
  void add(const Fields& fields, std::size_t j, std::size_t end, Range range, float weight,
           float* acc) const {
    const double top = top_, step = 1 / top;
    const double low = range.low, high = range.high;
    const auto value = [&](double q) { return static_cast<float>((low * (top - q) + high * q) * step); };
    if (top_ > 15) {
      for (; j < end; ++j) acc[j] += weight * value(fields[j]);
      return;
    }
    std::array<float, 16> table{};
    for (unsigned q = 0; q <= top_; ++q) table[q] = weight * value(q);
    for (; j < end; ++j) acc[j] += table[fields[j]];
  }

 private:
  unsigned top_;
};

Range read_range(wire::Reader& in) {
  const float low = in.f32(), high = in.f32();
  if (low > high) throw PayloadError("payload holds a range whose least entry is above its greatest");
  return {low, high};
}

}  // namespace

std::unique_ptr<const Codec> make_intq(Parameters& parameters) {
  const std::size_t bits =
      parameters.integer("bits", 8, "2, 4 or 8", [](std::size_t b) { return b == 2 || b == 4 || b == 8; });
  const std::size_t bucket = bucket_parameter(parameters);
  constexpr std::array<std::string_view, 2> kRoundings = {"nearest", "stochastic"};
  return std::make_unique<IntQ>(bits, bucket, parameters.choice("rounding", kRoundings) == 1);
}

void decode_intq(wire::Reader& in, float weight, std::span<float> acc, Threads*) {
  const std::size_t bits = in.u8();
  if (bits != 2 && bits != 4 && bits != 8) {
    throw PayloadError("payload claims " + std::to_string(bits) + " bits per entry, expected 2, 4 or 8");
  }
  const std::size_t bucket = wire::read_bucket(in);
  const std::size_t n = acc.size(), per_byte = 8 / bits;
  const std::size_t buckets = wire::ceil_div(n, bucket);
  in.expect_left(buckets * sizeof(Range) + wire::ceil_div(n, per_byte));
  wire::Reader ranges(in.take(buckets * sizeof(Range)));
  const LevelValues values(bits);
  Fields fields;
  Range range{0, 0};
  for (std::size_t i = 0; i < n; i += kGroup) {
    const std::size_t count = std::min(kGroup, n - i);
    const std::size_t bytes = wire::ceil_div(count, per_byte);
    unpack_fields(bits, in.take(bytes).data(), count, fields);
    for (std::size_t j = count; j < bytes * per_byte; ++j) {
      if (fields[j] != 0) throw PayloadError("payload has bits set past its last entry");
    }
    for (std::size_t j = 0; j < count;) {
      if ((i + j) % bucket == 0) range = read_range(ranges);
      const std::size_t end = std::min(count, j + bucket - (i + j) % bucket);
      values.add(fields, j, end, range, weight, acc.data() + i);
      j = end;
    }
  }
}

}  // namespace gossamer::compress
