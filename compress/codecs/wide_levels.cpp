#include "wide_levels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "bits.h"

namespace gossamer::compress {
namespace {

constexpr std::size_t kGroup = EntryBits::kGroup;
using WideFields = std::array<std::uint32_t, kGroup>;

/// Calls work(bucket, from, to) for the parts of the entries first … last that lie in one bucket.
template <class Work>
void for_buckets(std::size_t bucket, std::size_t first, std::size_t last, const Work& work) {
  for (std::size_t i = first; i < last;) {
    const std::size_t end = std::min(last, (i / bucket + 1) * bucket);
    work(i / bucket, i, end);
    i = end;
  }
}

float norm_at(const std::byte* scales, std::size_t bucket) {
  float norm;
  std::memcpy(&norm, scales + bucket * sizeof norm, sizeof norm);
  return norm;
}

/// Bytes of `count` packed fields, and where that of entry `count` starts where this is a multiple of kGroup.
std::size_t packed_size(std::size_t count, unsigned bits) {
  return count / 8 * bits + wire::ceil_div(count % 8 * bits, 8);
}

class WideEncoder {
 public:
  WideEncoder(const BucketRule& rule, std::span<const float> x, float* residual, const EntryBits& random,
              Workspace& workspace, std::byte* scales)
      : rule_(rule), x_(x), residual_(residual), random_(random), workspace_(workspace), scales_(scales) {}

  void measure_all() {
    const std::size_t n = x_.size(), bucket = rule_.bucket;
    for_each_piece(workspace_.threads(), wire::ceil_div(n, bucket), [&](std::size_t b, std::size_t thread) {
      const std::size_t from = b * bucket, count = std::min(bucket, n - from);
      const float *v = x_.data() + from, *e = nullptr;
      float* room = nullptr;
      if (residual_ != nullptr) {
        e = residual_ + from;
        v = room = workspace_.of(thread).floats(count).data();
      }
      const Measured found = measure(rule_.measure, x_.data() + from, e, room, count);
      write_bucket_scales(rule_, found, {v, count}, from, n, scales_ + b * sizeof(float));
    });
  }

  /// Fields of the entries `first` …, a multiple of kGroup; their residual is written, where there is one.
  void round(std::size_t first, std::span<std::uint32_t> fields) const {
    std::array<std::uint16_t, kGroup> draws;
    for (std::size_t g = 0; g < fields.size(); g += kGroup) {
      random_.group((first + g) / kGroup, draws);
      const std::size_t start = first + g, end = first + std::min(g + kGroup, fields.size());
      for_buckets(rule_.bucket, start, end, [&](std::size_t b, std::size_t from, std::size_t to) {
        const WideLevels levels(rule_.a_side, norm_at(scales_, b));
        for (std::size_t i = from; i < to; ++i) {
          const float v = residual_ == nullptr ? x_[i] : x_[i] + residual_[i];
          const std::uint32_t field = levels.field(v, draws[i - start]);
          fields[i - first] = field;
          if (residual_ != nullptr) residual_[i] = v - levels.value(field);
        }
      });
    }
  }

  std::size_t write_packed(std::span<std::byte> out) const {
    const unsigned bits = rule_.field_bits();
    const std::size_t n = x_.size();
    for_each_piece(workspace_.threads(), wire::ceil_div(n, kSlice), [&](std::size_t p, std::size_t) {
      WideFields room;
      for (std::size_t i = p * kSlice; i < std::min((p + 1) * kSlice, n); i += kGroup) {
        const auto fields = std::span(room).first(std::min(kGroup, n - i));
        round(i, fields);
        BitWriter writer(out.subspan(packed_size(i, bits), packed_size(fields.size(), bits)));
        for (const std::uint32_t field : fields) writer.put(field, bits);
        (void)writer.finish();
      }
    });
    return packed_size(n, bits);
  }

 private:
  const BucketRule& rule_;
  const std::span<const float> x_;
  float* const residual_;
  const EntryBits& random_;
  Workspace& workspace_;
  std::byte* const scales_;
};

/// Of fields whose buckets' norms stand in scales.
class WideDecoder {
 public:
  WideDecoder(const BucketRule& rule, const std::byte* scales, float weight, std::span<float> acc)
      : rule_(rule), scales_(scales), weight_(weight), acc_(acc) {}

  void add(std::size_t first, std::span<const std::uint32_t> fields) const {
    for_buckets(rule_.bucket, first, first + fields.size(),
                [&](std::size_t b, std::size_t from, std::size_t to) {
                  const WideLevels levels(rule_.a_side, trusted_norm(b));
                  for (std::size_t i = from; i < to; ++i)
                    acc_[i] += weight_ * levels.value(fields[i - first]);
                });
  }
  /// The entries of one slice.
  void add_packed(std::span<const std::byte> in, std::size_t first, std::size_t last) const {
    const unsigned bits = rule_.field_bits(), top = 2 * rule_.a_side;
    WideFields room;
    for (std::size_t i = first; i < last; i += kGroup) {
      const auto fields = std::span(room).first(std::min(kGroup, last - i));
      BitReader reader(in.subspan(packed_size(i, bits), packed_size(fields.size(), bits)));
      bool bad = false;
      for (std::uint32_t& field : fields) {
        field = static_cast<std::uint32_t>(reader.take(bits));
        bad = bad || field > top;
      }
      if (bad) throw PayloadError("payload holds a level beyond the highest");
      reader.finish();
      add(i, fields);
    }
  }

 private:
  float trusted_norm(std::size_t bucket) const {
    const float norm = wire::Reader({scales_ + bucket * sizeof(float), sizeof(float)}).f32();
    if (std::signbit(norm)) throw PayloadError("payload holds a negative norm");
    return norm;
  }
  const BucketRule& rule_;
  const std::byte* const scales_;
  const float weight_;
  const std::span<float> acc_;
};

}  // namespace

std::size_t encode_wide(const BucketRule& rule, FieldCoding coding, std::span<const float> x, float* residual,
                        const EntryBits& random, Workspace& workspace, std::byte* scales,
                        std::span<std::byte> out) {
  WideEncoder encoder(rule, x, residual, random, workspace, scales);
  encoder.measure_all();
  if (layout_of(coding) == FieldLayout::packed) return encoder.write_packed(out);
  return write_coded<std::uint32_t>(
      coding, x.size(), coded_range(rule), workspace.threads(), out,
      [&](std::size_t first, std::span<std::uint32_t> fields, std::size_t) { encoder.round(first, fields); });
}

void decode_wide(const BucketRule& rule, FieldLayout layout, const std::byte* scales,
                 std::span<const std::byte> fields, float weight, std::span<float> acc, Threads* threads) {
  const WideDecoder decoder(rule, scales, weight, acc);
  const std::size_t n = acc.size();
  if (layout == FieldLayout::coded) {
    return read_coded<std::uint32_t>(
        fields, n, coded_range(rule), threads,
        [&](std::size_t first, std::span<const std::uint32_t> slice) { decoder.add(first, slice); });
  }
  for_each_piece(threads, wire::ceil_div(n, kSlice), [&](std::size_t p, std::size_t) {
    decoder.add_packed(fields, p * kSlice, std::min((p + 1) * kSlice, n));
  });
}

}  // namespace gossamer::compress
