// qsgd and intq on the device. A warp rounds 512 entries held in registers: lane j takes entries j, j + 32,
// …, whose draws are those of two blocks of the generator. A bucket of 512 is read once; others are measured
// in a pass before. Fields that are coded (level_strings.h) stand in the workspace first, one per byte.
#include "host_codec.h"
#include "level_payload.h"
#include "level_strings.h"
#include "levels.cuh"
#include "philox.cuh"

namespace gossamer::compress::cuda {
namespace {

constexpr unsigned kGroup = 512;
constexpr unsigned kRows = kGroup / kWarp;

/// A payload's numbers behind its front: one or two per bucket, then the fields.
struct Layout {
  std::size_t n, bucket;
  unsigned stored;  ///< bits of a field where it stands
  Measure measure;
  bool stochastic;

  constexpr std::size_t buckets() const { return ceil_divide(n, bucket); }
  constexpr std::size_t scale_size() const { return measure == Measure::range ? 8 : 4; }
  constexpr std::size_t scale_bytes() const { return buckets() * scale_size(); }
  constexpr std::size_t field_bytes() const { return ceil_divide(n, 8 / stored); }
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
  return plain::around_zero(kBits, levels_a_side(kBits), scales.first);
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

/// Packs the warp's fields into words and writes them.
template <unsigned kBits>
__device__ void write_fields(const std::uint8_t* fields, std::size_t group, const Layout& layout,
                             std::byte* body) {
  constexpr unsigned kPerWord = 32 / kBits;
  __syncwarp();
  for (unsigned w = lane_of_warp(); w < kGroup / kPerWord; w += kWarp) {
    std::uint32_t word = 0;
#pragma unroll
    for (unsigned k = 0; k < kPerWord; ++k)
      word |= static_cast<std::uint32_t>(fields[w * kPerWord + k]) << (kBits * k);
    put_words(body, layout.field_bytes(), group * (kGroup / kPerWord) + w, word);
  }
  __syncwarp();
}

/// kStored: bits of a field where it stands. kFused: a bucket is one group, whose scales are not there yet.
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
  const unsigned top = (1u << kBits) - (layout.measure == Measure::range ? 1 : 2);
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
      const unsigned byte = static_cast<unsigned>(body[i * kStored / 8]),
                     shift = static_cast<unsigned>(i * kStored % 8);
      const unsigned field = byte >> shift & ((1u << kBits) - 1);
      const bool past = i + 1 == layout.n && (byte >> shift >> kStored) != 0;
      if (field > top || past) {
        refuse_payload(result, DeviceError::unused);
      } else {
        acc[i] += weight * plain::value(levels, field);
      }
    }
  }
}

class LevelCodec final : public BesideHost {
 public:
  LevelCodec(std::unique_ptr<const Codec> host, wire::CodecId id, const BucketRule& rule, FieldCoding coding)
      : BesideHost(std::move(host)), id_(id), rule_(rule), coding_(coding) {}
  std::size_t workspace_bytes(std::size_t n) const override {
    if (!coded()) return 0;
    Arena encoding(nullptr), decoding(nullptr);
    take_encoding_levels(encoding, coding_, range(), n);
    take_decoding_levels(decoding, n);
    return encoding.bytes() > decoding.bytes() ? encoding.bytes() : decoding.bytes();
  }

 protected:
  void start_encode(const Input& input, std::size_t n, const EncodeCall& call) const override {
    switch (rule_.bits) {
      case 2:
        return encode_levels<2>(input, n, call);
      case 4:
        return encode_levels<4>(input, n, call);
      default:
        return encode_levels<8>(input, n, call);
    }
  }
  void start_decode(const DecodeCall& call) const override {
    switch (rule_.bits) {
      case 2:
        return decode_levels<2>(call);
      case 4:
        return decode_levels<4>(call);
      default:
        return decode_levels<8>(call);
    }
  }

 private:
  template <unsigned kBits>
  void encode_levels(const Input& input, std::size_t n, const EncodeCall& call) const {
    const Front f = front(n);
    const Layout l = layout(n);
    const std::size_t body = f.size + l.scale_bytes();
    if (!coded()) {
      begin_encode(f, body + l.field_bytes(), call);
      return encode_fields<kBits, kBits>(input, l, call, call.out_dev + f.size, call.out_dev + body);
    }
    Arena arena(call.workspace_dev);
    const LevelRoom room = take_encoding_levels(arena, coding_, range(), n);
    begin_encode(f, body, call);
    encode_fields<kBits, 8>(input, l, call, call.out_dev + f.size, reinterpret_cast<std::byte*>(room.fields));
    write_levels(room, coding_, range(), body, call);
  }
  template <unsigned kBits, unsigned kStored>
  void encode_fields(const Input& input, const Layout& l, const EncodeCall& call, std::byte* scales,
                     std::byte* fields) const {
    const bool fused = rule_.bucket == kGroup;
    if (!fused) {
      launch(measure_kernel, blocks_for(l.buckets(), kThreads / kWarp), kThreads, call.stream, input, l,
             scales, call.result_dev);
    }
    launch(fused ? encode_levels_kernel<kBits, kStored, true> : encode_levels_kernel<kBits, kStored, false>,
           blocks(l.n), kThreads, call.stream, input, l, call.key_dev, scales, fields, call.result_dev);
  }
  template <unsigned kBits>
  void decode_levels(const DecodeCall& call) const {
    const Front f = front(call.n);
    const Layout l = layout(call.n);
    const std::byte* const scales = call.payload_dev + f.size;
    const std::size_t body = f.size + l.scale_bytes();
    if (!coded() || call.n == 0) {
      begin_decode(f, body + l.field_bytes(), call);
      return decode_fields<kBits, kBits>(call, l, scales, call.payload_dev + body);
    }
    Arena arena(call.workspace_dev);
    const LevelRoom room = take_decoding_levels(arena, call.n);
    begin_decode_at_least(f, body + slice_lengths(room.slices) + 1, call);
    read_levels(call, body, range(), room);
    decode_fields<kBits, 8>(call, l, scales, reinterpret_cast<const std::byte*>(room.fields));
  }
  template <unsigned kBits, unsigned kStored>
  void decode_fields(const DecodeCall& call, const Layout& l, const std::byte* scales,
                     const std::byte* fields) const {
    launch(decode_levels_kernel<kBits, kStored>, blocks(call.n), kThreads, call.stream, l, scales, fields,
           call.weight, call.acc_dev, call.result_dev);
  }
  bool coded() const { return layout_of(coding_) == FieldLayout::coded; }
  LevelRange range() const { return coded_range(rule_.bits, rule_.measure == Measure::range); }
  static std::size_t blocks(std::size_t n) { return blocks_for(ceil_divide(n, kGroup), kThreads / kWarp); }
  Layout layout(std::size_t n) const {
    return {n, rule_.bucket, coded() ? 8 : rule_.bits, rule_.measure, rule_.stochastic};
  }
  Front front(std::size_t n) const {
    return make_front(id_, n, [&](wire::Writer& writer) {
      writer.u8(static_cast<std::uint8_t>(rule_.bits));
      writer.u8(static_cast<std::uint8_t>(layout_of(coding_)));
      writer.varint(rule_.bucket);
    });
  }
  wire::CodecId id_;
  BucketRule rule_;
  FieldCoding coding_;
};

unsigned bits_of_spec(Parameters& parameters) {
  return static_cast<unsigned>(parameters.integer("bits", 4, "2, 4 or 8", [](std::size_t) { return true; }));
}

}  // namespace

std::unique_ptr<const DeviceCodec> make_device_qsgd(std::unique_ptr<const Codec> host,
                                                    Parameters& parameters) {
  require_device_form(*host, parameters, "random", {"philox"});
  constexpr std::array<std::string_view, 2> kNorms = {"max", "l2"};
  const auto norm = parameters.choice("norm", kNorms) == 0 ? Measure::largest : Measure::squares;
  const BucketRule rule{
      .measure = norm, .bits = bits_of_spec(parameters), .bucket = bucket_parameter(parameters)};
  return std::make_unique<LevelCodec>(std::move(host), wire::CodecId::qsgd, rule,
                                      field_coding_parameter(parameters));
}

std::unique_ptr<const DeviceCodec> make_device_intq(std::unique_ptr<const Codec> host,
                                                    Parameters& parameters) {
  require_device_form(*host, parameters, "random", {"philox"});
  constexpr std::array<std::string_view, 2> kRoundings = {"nearest", "stochastic"};
  const BucketRule rule{.measure = Measure::range,
                        .bits = bits_of_spec(parameters),
                        .bucket = bucket_parameter(parameters),
                        .stochastic = parameters.choice("rounding", kRoundings) == 1};
  return std::make_unique<LevelCodec>(std::move(host), wire::CodecId::intq, rule,
                                      field_coding_parameter(parameters));
}

}  // namespace gossamer::compress::cuda
