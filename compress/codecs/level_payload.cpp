#include "level_payload.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "feedback_state.h"
#include "fields.h"
#include "level_formulas.h"
#include "wide_levels.h"

namespace gossamer::compress {
namespace {

constexpr std::size_t kGroup = EntryBits::kGroup;

/// The part of a payload behind its header, for n entries: where what stands.
struct Layout {
  BucketRule rule;
  std::size_t n;
  unsigned bits = rule.field_bits();

  std::size_t buckets() const { return wire::ceil_div(n, rule.bucket); }
  std::size_t bucket_bytes() const { return rule.scales() * sizeof(float); }
  std::size_t scale_bytes() const { return buckets() * bucket_bytes(); }
  std::size_t field_bytes() const { return n / 8 * bits + wire::ceil_div(n % 8 * bits, 8); }
  LevelRange levels() const { return coded_range(rule); }
  /// Of entries `first` …, a multiple of kGroup.
  std::size_t field_at(std::size_t first) const { return first / 8 * bits; }
  /// Of the entries first … last calls work(bucket, from, to), which all lie in one bucket.
  template <class Work>
  void for_each_bucket(std::size_t first, std::size_t last, const Work& work) const {
    for (std::size_t i = first; i < last;) {
      const std::size_t b = i / rule.bucket, end = std::min(last, (b + 1) * rule.bucket);
      work(b, i, end);
      i = end;
    }
  }
};

/// acc += weight · level of the entries first … last, acc being that of entry `first`, a multiple of kGroup.
class LevelDecoder {
 public:
  LevelDecoder(const Layout& layout, const std::byte* scales, const std::byte* fields)
      : layout_(layout), scales_(scales), fields_(fields) {}

  void add(std::size_t first, std::size_t last, float weight, float* acc) const {
    Fields fields;
    Levels levels;
    std::size_t of_bucket = layout_.buckets();
    for (std::size_t i = first; i < last; i += kGroup) {
      const std::size_t count = std::min(kGroup, last - i);
      unpack_fields(layout_.bits, fields_ + layout_.field_at(i), count, fields);
      check(fields, std::min(kGroup, layout_.n - i));
      layout_.for_each_bucket(i, i + count, [&](std::size_t b, std::size_t from, std::size_t to) {
        if (b != of_bucket) levels = read_levels(b);
        of_bucket = b;
        add_levels(levels, fields.data() + (from - i), weight, acc + (from - first), to - from);
      });
    }
  }

  /// The same of fields that are at hand, one per byte and none above the highest.
  void add_fields(std::size_t first, std::span<const std::uint8_t> fields, float weight, float* acc) const {
    layout_.for_each_bucket(
        first, first + fields.size(), [&](std::size_t b, std::size_t from, std::size_t to) {
          add_levels(read_levels(b), fields.data() + (from - first), weight, acc + (from - first), to - from);
        });
  }

 private:
  Levels read_levels(std::size_t b) const {
    wire::Reader in(std::span(scales_ + b * layout_.bucket_bytes(), layout_.bucket_bytes()));
    const float first = in.f32();
    if (!layout_.rule.range()) {
      if (std::signbit(first)) throw PayloadError("payload holds a negative norm");
      return levels_around_zero(layout_.rule.bits, layout_.rule.a_side, first);
    }
    const float high = in.f32();
    if (first > high) throw PayloadError("payload holds a range whose least entry is above its greatest");
    return levels_of_range(layout_.rule.bits, first, high, false);
  }

  void check(const Fields& fields, std::size_t count) const {
    const unsigned top = layout_.levels().top;
    const auto past = fields.begin() + static_cast<std::ptrdiff_t>(count);
    if (all_within(fields.data(), kGroup, top) &&
        std::all_of(past, fields.end(), [](std::uint8_t field) { return field == 0; }))
      return;
    throw PayloadError("payload holds a level beyond the highest, or bits set past its last entry");
  }

  Layout layout_;
  const std::byte *scales_, *fields_;
};

class LevelEncoder {
 public:
  LevelEncoder(const LevelRule& rule, std::span<const float> x, float* residual, const EntryBits& random,
               Workspace& workspace)
      : rule_(rule.buckets),
        layout_(Layout{rule.buckets, x.size()}),
        x_(x),
        residual_(residual),
        random_(random),
        workspace_(workspace) {}

  void write(std::byte* scales, std::byte* fields) {
    scales_ = scales;
    fields_ = fields;
    const std::size_t unit = std::lcm(rule_.bucket, kGroup);
    if (unit > kSlice) return write_in_two_passes();
    const std::size_t piece = kSlice / unit * unit, pieces = wire::ceil_div(x_.size(), piece);
    const std::span<std::uint32_t> done = workspace_.words(residual_ == nullptr ? 0 : pieces);
    std::fill(done.begin(), done.end(), 0u);
    try {
      for_each_piece(workspace_.threads(), pieces, [&](std::size_t p, std::size_t thread) {
        write_piece(p * piece, std::min((p + 1) * piece, x_.size()), unit, thread,
                    done.empty() ? nullptr : &done[p]);
      });
    } catch (...) {
      for (std::size_t p = 0; p < done.size(); ++p) undo(p * piece, p * piece + done[p]);
      throw;
    }
  }

 private:
  /// Entries first … last, `unit` of them at a time; counts them in done, where given.
  void write_piece(std::size_t first, std::size_t last, std::size_t unit, std::size_t thread,
                   std::uint32_t* done) {
    std::size_t i = first;
    if (unit == kGroup && rule_.bucket >= kLeastBucket) {
      i += kGroup * encode_groups(rule_, x_.data() + i, residual_ == nullptr ? nullptr : residual_ + i,
                                  (last - first) / kGroup, random_, i / kGroup,
                                  scales_ + i / rule_.bucket * layout_.bucket_bytes(),
                                  reinterpret_cast<std::uint8_t*>(fields_ + layout_.field_at(i)));
      if (done != nullptr) *done = static_cast<std::uint32_t>(i - first);
    }
    for (; i < last; i += unit) {
      const std::size_t to = std::min(i + unit, last);
      round(i, to, measure_buckets(i, to, thread));
      if (done != nullptr) *done = static_cast<std::uint32_t>(to - first);
    }
  }

  /// Buckets that no slice holds whole: first all scales, then the fields.
  void write_in_two_passes() {
    const std::size_t n = x_.size();
    for_each_piece(workspace_.threads(), layout_.buckets(), [&](std::size_t b, std::size_t thread) {
      (void)measure_buckets(b * rule_.bucket, std::min((b + 1) * rule_.bucket, n), thread);
    });
    for_each_piece(workspace_.threads(), wire::ceil_div(n, kSlice), [&](std::size_t p, std::size_t thread) {
      const std::size_t end = std::min((p + 1) * kSlice, n);
      for (std::size_t i = p * kSlice; i < end; i += kGroup) {
        const std::size_t to = std::min(i + kGroup, end);
        round(i, to, entries(Measure::largest, i, to, scratch(thread, kGroup), nullptr));
      }
    });
  }

  float* scratch(std::size_t thread, std::size_t count) {
    return residual_ == nullptr ? nullptr : workspace_.of(thread).floats(count).data();
  }

  /// v of the entries first … last, with feedback in `room`.
  const float* entries(Measure what, std::size_t first, std::size_t last, float* room, Measured* measured) {
    const float* const e = residual_ == nullptr ? nullptr : residual_ + first;
    const Measured found = measure(what, x_.data() + first, e, room, last - first);
    if (measured != nullptr) *measured = found;
    return residual_ == nullptr ? x_.data() + first : room;
  }

  /// Writes the scales of the whole buckets first … last; returns v of entry `first`.
  const float* measure_buckets(std::size_t first, std::size_t last, std::size_t thread) {
    float* const room = scratch(thread, last - first);
    layout_.for_each_bucket(first, last, [&](std::size_t b, std::size_t from, std::size_t to) {
      Measured found;
      const float* const v =
          entries(rule_.measure, from, to, room == nullptr ? nullptr : room + (from - first), &found);
      write_bucket_scales(rule_, found, std::span(v, to - from), from, x_.size(),
                          scales_ + b * layout_.bucket_bytes());
    });
    return residual_ == nullptr ? x_.data() + first : room;
  }

  Levels levels_of_bucket(std::size_t b) const {
    float scale[2];
    std::memcpy(scale, scales_ + b * layout_.bucket_bytes(), layout_.bucket_bytes());
    return levels_of(rule_, scale);
  }

  /// Fields of the entries first … last, whose scales are known; v is that of `first`, a multiple of kGroup.
  void round(std::size_t first, std::size_t last, const float* v) {
    Draws draws;
    Fields fields;
    Levels levels;
    std::size_t of_bucket = layout_.buckets();
    for (std::size_t i = first; i < last; i += kGroup) {
      if (rule_.stochastic) draw(random_, i / kGroup, draws);
      const std::size_t count = std::min(kGroup, last - i);
      layout_.for_each_bucket(i, i + count, [&](std::size_t b, std::size_t from, std::size_t to) {
        if (b != of_bucket) levels = levels_of_bucket(b);
        of_bucket = b;
        quantise(levels, v + (from - first), to - from, draws, from - i, fields.data() + (from - i),
                 residual_ == nullptr ? nullptr : residual_ + from);
      });
      pack_fields(layout_.bits, fields, count, fields_ + layout_.field_at(i));
    }
  }

  /// e ← (e + level) − x: what it was, up to rounding.
  void undo(std::size_t first, std::size_t last) {
    LevelDecoder(layout_, scales_, fields_).add(first, last, 1, residual_ + first);
    for (std::size_t i = first; i < last; ++i) residual_[i] -= x_[i];
  }

  const BucketRule rule_;
  const Layout layout_;
  const std::span<const float> x_;
  float* const residual_;
  const EntryBits random_;
  Workspace& workspace_;
  std::byte *scales_ = nullptr, *fields_ = nullptr;
};

constexpr std::size_t kASideBytes = 3;  ///< varint of up to kLevelsASideMax
bool states_bits(const BucketRule& rule) { return rule.range() || is_short_form(rule.a_side); }

/// Codes packed fields.
std::size_t write_coded_fields(const LevelRule& rule, const Layout& layout, const std::byte* packed,
                               Threads* threads, std::span<std::byte> out) {
  const auto fetch = [&](std::size_t first, std::span<std::uint8_t> to, std::size_t) {
    Fields fields;
    for (std::size_t i = 0; i < to.size(); i += kGroup) {
      const std::size_t count = std::min(kGroup, to.size() - i);
      unpack_fields(layout.bits, packed + layout.field_at(first + i), count, fields);
      std::copy_n(fields.data(), count, to.data() + i);
    }
  };
  return write_coded(rule.coding, layout.n, layout.levels(), threads, out, fetch);
}

BucketRule read_level_front(bool range, wire::Reader& in, FieldLayout& fields) {
  const unsigned bits = in.u8();
  if (bits != 2 && bits != 4 && bits != 8 && (bits != 0 || range)) {
    throw PayloadError("payload claims " + std::to_string(bits) + " bits per entry, expected 2, 4 or 8");
  }
  fields = read_field_layout(in);
  BucketRule rule{.measure = range ? Measure::range : Measure::largest, .bits = bits, .bucket = 0};
  rule.bucket = wire::read_bucket(in);
  if (range) return rule;
  const std::uint64_t s = bits == 0 ? in.varint() : levels_a_side(bits);
  if (s == 0 || s > kLevelsASideMax || (bits == 0 && is_short_form(static_cast<unsigned>(s)))) {
    throw PayloadError("payload claims " + std::to_string(s) +
                       " levels on each side of zero, expected 1 to " + std::to_string(kLevelsASideMax) +
                       " and none that bits stand for");
  }
  rule.a_side = static_cast<unsigned>(s);
  if (s <= kLevelsMax) rule.bits = rounding_bits(rule.a_side);
  return rule;
}

}  // namespace

FieldLayout read_field_layout(wire::Reader& in) {
  const unsigned layout = in.u8();
  if (layout <= static_cast<unsigned>(FieldLayout::coded)) return static_cast<FieldLayout>(layout);
  throw PayloadError("payload claims layout " + std::to_string(layout) +
                     " of its levels, which is not known; the sender may run a newer version");
}

Random random_parameter(Parameters& parameters) {
  constexpr std::array<std::string_view, 2> kSources = {"philox", "hash"};
  return parameters.choice("random", kSources) == 0 ? Random::philox : Random::hash;
}

std::string random_spec(Random random) { return random == Random::hash ? ",random=hash" : ""; }

Residual::Residual(FeedbackState* state, std::size_t n) : state_(state) {
  if (state == nullptr) return;
  require_size(*state, n);
  state->materialise();
  fresh_ = state->residual.empty();
  // g + −0 is g to the bit.
  if (fresh_) state->residual.assign(n, -0.0f);
}

Residual::~Residual() {
  if (fresh_) state_->residual.clear();
}

void write_bucket_scales(const BucketRule& rule, const Measured& found, std::span<const float> v,
                         std::size_t first, std::size_t n, std::byte* scales) {
  if (!std::isfinite(found.largest)) {
    const std::size_t bad = wire::first_not_finite(v);
    wire::refuse_entry(first + bad, n, v[bad]);
  }
  float scale[2];
  if (!scales_of(rule.measure, found, scale)) {
    throw EncodeError("cannot encode: the l2 norm of entries " + std::to_string(first) + " to " +
                      std::to_string(first + v.size() - 1) +
                      " is beyond float's range; use norm=max or clip");
  }
  std::memcpy(scales, scale, rule.scales() * sizeof(float));
}

void write_level_front(wire::Writer& out, const LevelRule& rule) {
  const BucketRule& buckets = rule.buckets;
  const bool as_bits = states_bits(buckets);
  out.u8(as_bits ? static_cast<std::uint8_t>(buckets.bits) : std::uint8_t{0});
  out.u8(static_cast<std::uint8_t>(layout_of(rule.coding)));
  out.varint(buckets.bucket);
  if (!as_bits) out.varint(buckets.a_side);
}

std::size_t level_max_bytes(const LevelRule& rule, std::size_t n) {
  const Layout layout{rule.buckets, n};
  const bool packed = layout_of(rule.coding) == FieldLayout::packed;
  return wire::kHeaderMax + 2 + wire::kVarintMax + (states_bits(rule.buckets) ? 0 : kASideBytes) +
         layout.scale_bytes() +
         (packed ? layout.field_bytes() : coded_max_bytes(rule.coding, n, layout.levels()));
}

std::size_t encode_levels(const LevelRule& rule, std::span<const float> x, FeedbackState* state,
                          RandomKey key, Workspace& workspace, std::span<std::byte> out) {
  wire::require_room(out, level_max_bytes(rule, x.size()));
  Residual residual(state, x.size());
  const Layout layout{rule.buckets, x.size()};
  wire::Writer writer(out);
  writer.header(rule.id, x.size());
  write_level_front(writer, rule);
  std::byte* const scales = writer.skip(layout.scale_bytes());
  const EntryBits random(key, rule.random);
  std::size_t coded = 0;
  if (rule.buckets.a_side > kLevelsMax) {
    coded = encode_wide(rule.buckets, rule.coding, x, residual.data(), random, workspace, scales,
                        out.subspan(writer.size()));
  } else if (layout_of(rule.coding) == FieldLayout::packed) {
    LevelEncoder(rule, x, residual.data(), random, workspace)
        .write(scales, writer.skip(layout.field_bytes()));
  } else {
    const auto words = workspace.more_floats(wire::ceil_div(layout.field_bytes(), sizeof(float)));
    std::byte* const fields = std::as_writable_bytes(words).data();
    LevelEncoder(rule, x, residual.data(), random, workspace).write(scales, fields);
    coded = write_coded_fields(rule, layout, fields, workspace.threads(), out.subspan(writer.size()));
  }
  residual.keep();
  return writer.size() + coded;
}

void decode_levels(bool range, wire::Reader& in, float weight, std::span<float> acc, Threads* threads) {
  FieldLayout fields{};
  const Layout layout{read_level_front(range, in, fields), acc.size()};
  if (fields == FieldLayout::packed) in.expect_left(layout.scale_bytes() + layout.field_bytes());
  const std::byte* const scales = in.take(layout.scale_bytes()).data();
  if (layout.rule.a_side > kLevelsMax)
    return decode_wide(layout.rule, fields, scales, in.take(in.left()), weight, acc, threads);
  if (fields == FieldLayout::coded) {
    const LevelDecoder decoder(layout, scales, nullptr);
    return read_coded(in.take(in.left()), acc.size(), layout.levels(), threads,
                      [&](std::size_t first, std::span<const std::uint8_t> slice) {
                        decoder.add_fields(first, slice, weight, acc.data() + first);
                      });
  }
  const LevelDecoder decoder(layout, scales, in.take(layout.field_bytes()).data());
  for_each_piece(threads, wire::ceil_div(acc.size(), kSlice), [&](std::size_t p, std::size_t) {
    const std::size_t first = p * kSlice, last = std::min(first + kSlice, acc.size());
    decoder.add(first, last, weight, acc.data() + first);
  });
}

}  // namespace gossamer::compress
