// qsgd and intq on the device. A warp rounds 512 entries held in registers: lane j takes entries j, j + 32,
// …, whose draws are those of two blocks of the generator. A bucket of 512 is read once; others are measured
// in a pass before. Fields go packed: entropy coders run on the host only, where they are faster.
#include "host_codec.h"
#include "level_count.h"
#include "levels.cuh"
#include "philox.cuh"

namespace gossamer::compress::cuda {
namespace {

constexpr unsigned kGroup = 512;
constexpr unsigned kRows = kGroup / kWarp;

/// A payload's numbers behind its front: one or two per bucket, then the fields.
struct Layout {
  std::size_t n, bucket;
  unsigned a_side;  ///< levels on each side of zero; none of a range
  unsigned top;     ///< the highest field
  unsigned stored;  ///< bits of a field where it stands
  Measure measure;
  bool stochastic;

  constexpr std::size_t buckets() const { return ceil_divide(n, bucket); }
  constexpr std::size_t scale_size() const { return measure == Measure::range ? 8 : 4; }
  constexpr std::size_t scale_bytes() const { return buckets() * scale_size(); }
  constexpr std::size_t field_bytes() const { return n / 8 * stored + ceil_divide(n % 8 * stored, 8); }
};

struct Scales {
  float first, second;
};

__device__ Scales scales_of(const LaneMeasure& measured, Measure kind) {
  switch (kind) {
    case Measure::largest:
      break;
    case Measure::range:
      return {measured.low, measured.high};
    case Measure::squares:
      return {plain::rounded_up(std::sqrt(measured.squares)), 0};
  }
  return {std::bit_cast<float>(measured.largest), 0};
}

/// finite: whether the entries are.
__device__ void write_scales(const Layout& layout, Scales scales, bool finite, std::size_t b, std::byte* at,
                             DeviceResult* result) {
  if (finite && !is_finite(scales.first)) refuse_entry(result, b * layout.bucket, DeviceError::overflow);
  at += b * layout.scale_size();
  put_bytes(at, bits_of(scales.first), 4);
  if (layout.measure == Measure::range) put_bytes(at + 4, bits_of(scales.second), 4);
}

__device__ Scales read_scales(const Layout& layout, const std::byte* at, std::size_t b) {
  at += b * layout.scale_size();
  return {get_float(at), layout.measure == Measure::range ? get_float(at + 4) : 0.0f};
}

template <unsigned kBits>
__device__ Levels levels_of(const Layout& layout, Scales scales) {
  if (layout.measure == Measure::range)
    return plain::of_range(kBits, scales.first, scales.second, layout.stochastic);
  return plain::around_zero(kBits, layout.a_side, scales.first);
}

/// The scales of buckets that are not 512 entries, one warp each.
__global__ void measure_kernel(Input input, Layout layout, std::byte* scales, DeviceResult* result) {
  for (std::size_t b = warp_of_grid(); b < layout.buckets(); b += warps_in_grid()) {
    const std::size_t end = least((b + 1) * layout.bucket, layout.n);
    LaneMeasure measured;
    for (std::size_t i = b * layout.bucket + lane_of_warp(); i < end; i += kWarp)
      measured.take(input.value(i), layout.measure);
    measured.combine(layout.measure);
    if (lane_of_warp() == 0)
      write_scales(layout, scales_of(measured, layout.measure), measured.finite(), b, scales, result);
  }
}

struct SharedFields {
  alignas(8) std::uint8_t of_warp[kThreads / kWarp][kGroup];
};

/// Word w of the fields of a group. kStored: bits of each; 0: `stored`.
template <unsigned kStored>
__device__ std::uint32_t word_of_fields(const std::uint8_t* fields, unsigned stored, unsigned w) {
  std::uint32_t word = 0;
  if constexpr (kStored != 0) {
    constexpr unsigned kPerWord = 32 / kStored;
#pragma unroll
    for (unsigned k = 0; k < kPerWord; ++k)
      word |= static_cast<std::uint32_t>(fields[w * kPerWord + k]) << (kStored * k);
  } else {
    const unsigned first = 32 * w;
    for (unsigned k = first / stored; k < kGroup && k * stored < first + 32; ++k) {
      const unsigned at = k * stored;
      word |= at < first ? fields[k] >> (first - at) : static_cast<std::uint32_t>(fields[k]) << (at - first);
    }
  }
  return word;
}

/// Packs the warp's fields into words and writes them: all lanes, 32 words at a time.
template <unsigned kStored>
__device__ void write_fields(const std::uint8_t* fields, std::size_t group, const Layout& layout,
                             std::byte* body) {
  const unsigned words = kGroup / 32 * (kStored == 0 ? layout.stored : kStored);
  const std::size_t start = 4 * group * words, bytes = least(layout.field_bytes() - start, 4 * words);
  __syncwarp();
  for (unsigned first = 0; first < words; first += kWarp) {
    const unsigned w = first + lane_of_warp();
    const std::uint32_t word = w < words ? word_of_fields<kStored>(fields, layout.stored, w) : 0;
    put_words(body + start, bytes, w, word);
  }
  __syncwarp();
}

/// kStored: bits of a field where it stands; 0: layout.stored. kFused: a bucket is one group, whose scales
/// are not there yet.
template <unsigned kBits, unsigned kStored, bool kFused>
__global__ void encode_levels_kernel(Input input, Layout layout, const RandomKey* key, std::byte* scales,
                                     std::byte* body, DeviceResult* result) {
  std::uint8_t* const fields = shared<SharedFields>().of_warp[threadIdx.x / kWarp];
  const unsigned lane = lane_of_warp();
  for (std::size_t g = warp_of_grid(); g * kGroup < layout.n; g += warps_in_grid()) {
    float v[kRows];
    LaneMeasure measured;
#pragma unroll
    for (unsigned r = 0; r < kRows; ++r) {
      const std::size_t i = g * kGroup + r * kWarp + lane;
      v[r] = i < layout.n ? input.value(i) : 0.0f;
      if (!is_finite(v[r])) refuse_entry(result, i, DeviceError::not_finite);
      if (kFused && i < layout.n) measured.take(v[r], layout.measure);
    }
    Levels levels;
    if constexpr (kFused) {
      measured.combine(layout.measure);
      const Scales found = scales_of(measured, layout.measure);
      if (lane == 0) write_scales(layout, found, measured.finite(), g, scales, result);
      levels = levels_of<kBits>(layout, found);
    }
    const auto block = static_cast<std::uint32_t>(g * (kGroup / 8) + lane);
    const Philox even(*key, block), odd(*key, block + kWarp);
    std::size_t bucket = layout.buckets();
#pragma unroll
    for (unsigned r = 0; r < kRows; ++r) {
      const std::size_t first = g * kGroup + r * kWarp, i = first + lane;
      if (!kFused && first < layout.n && first / layout.bucket != bucket) {
        bucket = first / layout.bucket;
        levels = levels_of<kBits>(layout, read_scales(layout, scales, bucket));
      }
      const std::uint32_t draw = r % 2 == 0 ? even.draw(r / 2) : odd.draw(r / 2);
      const unsigned field = plain::field_of(levels, v[r], plain::place_draw(levels, draw));
      fields[r * kWarp + lane] = static_cast<std::uint8_t>(i < layout.n ? field : 0);
      if (i < layout.n) input.keep(i, v[r], plain::value(levels, field));
    }
    write_fields<kStored>(fields, g, layout, body);
  }
}

/// Levels of bucket b of a payload; where its scales cannot be, the payload is refused.
template <unsigned kBits>
__device__ Levels trusted_levels(const Layout& layout, const std::byte* scales, std::size_t b,
                                 DeviceResult* result) {
  const Scales s = read_scales(layout, scales, b);
  const bool range = layout.measure == Measure::range;
  if (is_finite(s.first) && is_finite(s.second) && (range ? s.first <= s.second : !is_negative(s.first)))
    return levels_of<kBits>(layout, s);
  refuse_payload(result, DeviceError::number);
  return levels_of<kBits>(layout, {0, 0});
}

template <unsigned kBits, unsigned kStored>
__global__ void decode_levels_kernel(Layout layout, const std::byte* scales, const std::byte* body,
                                     float weight, float* acc, DeviceResult* result) {
  if (refused(result)) return;
  const unsigned stored = kStored == 0 ? layout.stored : kStored;
  for (std::size_t g = warp_of_grid(); g * kGroup < layout.n; g += warps_in_grid()) {
    Levels levels;
    std::size_t bucket = layout.buckets();
#pragma unroll 4
    for (unsigned r = 0; r < kRows; ++r) {
      const std::size_t first = g * kGroup + r * kWarp, i = first + lane_of_warp();
      if (i >= layout.n) continue;
      if (first / layout.bucket != bucket) {
        bucket = first / layout.bucket;
        levels = trusted_levels<kBits>(layout, scales, bucket, result);
      }
      const std::size_t at = i * stored / 8;
      const auto shift = static_cast<unsigned>(i * stored % 8);
      auto bits = static_cast<unsigned>(body[at]);
      if (kStored == 0 && at + 1 < layout.field_bytes()) bits |= static_cast<unsigned>(body[at + 1]) << 8;
      const unsigned field = bits >> shift & ((1u << stored) - 1);
      const bool past = i + 1 == layout.n && (bits >> shift >> stored) != 0;
      if (field > layout.top || past) {
        refuse_payload(result, DeviceError::unused);
      } else {
        acc[i] += weight * plain::value(levels, field);
      }
    }
  }
}

class LevelCodec final : public BesideHost {
 public:
  /// levels has no meaning for a range.
  LevelCodec(std::unique_ptr<const Codec> host, LevelCount levels, const LevelRule& rule)
      : BesideHost(std::move(host)), levels_(levels), rule_(rule) {}
  std::size_t workspace_bytes(std::size_t) const override { return 0; }

 protected:
  void start_encode(const Input& input, std::size_t n, const EncodeCall& call) const override {
    const LevelRule rule = this->rule(n);
    switch (rule.buckets.bits) {
      case 2:
        return encode_levels<2>(rule, input, n, call);
      case 4:
        return encode_levels<4>(rule, input, n, call);
      default:
        return encode_levels<8>(rule, input, n, call);
    }
  }
  void start_decode(const DecodeCall& call) const override {
    const LevelRule rule = this->rule(call.n);
    switch (rule.buckets.bits) {
      case 2:
        return decode_levels<2>(rule, call);
      case 4:
        return decode_levels<4>(rule, call);
      default:
        return decode_levels<8>(rule, call);
    }
  }

 private:
  template <unsigned kBits>
  void encode_levels(const LevelRule& rule, const Input& input, std::size_t n, const EncodeCall& call) const {
    const Front f = front(rule, n);
    const Layout l = layout(rule.buckets, n);
    const std::size_t body = f.size + l.scale_bytes();
    begin_encode(f, body + l.field_bytes(), call);
    const auto encode =
        l.stored == kBits ? &LevelCodec::encode_fields<kBits, kBits> : &LevelCodec::encode_fields<kBits, 0>;
    (this->*encode)(input, l, call, call.out_dev + f.size, call.out_dev + body);
  }
  template <unsigned kBits, unsigned kStored>
  void encode_fields(const Input& input, const Layout& l, const EncodeCall& call, std::byte* scales,
                     std::byte* fields) const {
    const bool fused = l.bucket == kGroup;
    if (!fused) {
      launch(measure_kernel, blocks_for(l.buckets(), kThreads / kWarp), kThreads, call.stream, input, l,
             scales, call.result_dev);
    }
    launch(fused ? encode_levels_kernel<kBits, kStored, true> : encode_levels_kernel<kBits, kStored, false>,
           blocks(l.n), kThreads, call.stream, input, l, call.key_dev, scales, fields, call.result_dev);
  }
  template <unsigned kBits>
  void decode_levels(const LevelRule& rule, const DecodeCall& call) const {
    const Front f = front(rule, call.n);
    const Layout l = layout(rule.buckets, call.n);
    const std::byte* const scales = call.payload_dev + f.size;
    const std::size_t body = f.size + l.scale_bytes();
    begin_decode(f, body + l.field_bytes(), call);
    const auto decode =
        l.stored == kBits ? &LevelCodec::decode_fields<kBits, kBits> : &LevelCodec::decode_fields<kBits, 0>;
    (this->*decode)(call, l, scales, call.payload_dev + body);
  }
  template <unsigned kBits, unsigned kStored>
  void decode_fields(const DecodeCall& call, const Layout& l, const std::byte* scales,
                     const std::byte* fields) const {
    launch(decode_levels_kernel<kBits, kStored>, blocks(call.n), kThreads, call.stream, l, scales, fields,
           call.weight, call.acc_dev, call.result_dev);
  }
  LevelRule rule(std::size_t n) const { return rule_.buckets.range() ? rule_ : levels_.rule(rule_, n); }
  static std::size_t blocks(std::size_t n) { return blocks_for(ceil_divide(n, kGroup), kThreads / kWarp); }
  Layout layout(const BucketRule& rule, std::size_t n) const {
    return {
        n, rule.bucket, rule.a_side, coded_range(rule).top, rule.field_bits(), rule.measure, rule.stochastic};
  }
  static Front front(const LevelRule& rule, std::size_t n) {
    return make_front(rule.id, n, [&](wire::Writer& writer) { write_level_front(writer, rule); });
  }
  LevelCount levels_;
  LevelRule rule_;  ///< of qsgd, but for the levels
};

/// Fields of the device are bytes.
void require_device_levels(const Codec& host, LevelCount levels, std::size_t bucket) {
  if (levels.most(bucket) <= kLevelsMax) return;
  throw CodecError(
      "codec spec \"" + host.spec() + "\": " + levels.spec() +
      (levels.fixed == 0 ? " with so large a bucket" : "") +
      " runs on the host only; a device takes levels=1 to 127, and levels=sqrt where bucket is at " +
      "most 16128");
}

}  // namespace

std::unique_ptr<const DeviceCodec> make_device_qsgd(std::unique_ptr<const Codec> host,
                                                    Parameters& parameters) {
  require_device_form(*host, parameters, "random", {"philox"});
  require_device_form(*host, parameters, "coding", {"packed"});
  const LevelCount levels = levels_parameter(parameters);
  const std::size_t bucket = bucket_parameter(parameters);
  require_device_levels(*host, levels, bucket);
  constexpr std::array<std::string_view, 2> kNorms = {"max", "l2"};
  const auto norm = parameters.choice("norm", kNorms) == 0 ? Measure::largest : Measure::squares;
  const LevelRule rule{
      wire::CodecId::qsgd, {.measure = norm, .bucket = bucket}, field_coding_parameter(parameters)};
  return std::make_unique<LevelCodec>(std::move(host), levels, rule);
}

std::unique_ptr<const DeviceCodec> make_device_intq(std::unique_ptr<const Codec> host,
                                                    Parameters& parameters) {
  require_device_form(*host, parameters, "random", {"philox"});
  require_device_form(*host, parameters, "coding", {"packed"});
  constexpr std::array<std::string_view, 2> kRoundings = {"nearest", "stochastic"};
  const auto any = [](std::size_t) { return true; };
  const LevelRule rule{wire::CodecId::intq,
                       {.measure = Measure::range,
                        .bits = static_cast<unsigned>(parameters.integer("bits", 8, "2, 4 or 8", any)),
                        .bucket = bucket_parameter(parameters),
                        .stochastic = parameters.choice("rounding", kRoundings) == 1},
                       field_coding_parameter(parameters)};
  return std::make_unique<LevelCodec>(std::move(host), LevelCount{}, rule);
}

}  // namespace gossamer::compress::cuda
