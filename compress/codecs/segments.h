#pragma once
// How onebit_scaled cuts a bucket into segments, and the bits that say so.
//
// Each bucket is a tree: a segment is one leaf, or is split into two halves, the first half in front. Modes
// are a prefix code, one per segment in that order, packed from the lowest bit of each byte; the body holds,
// in the same order, what each leaf needs:
//
//   0      signs at scale λ‖v‖₂/√d                fp32 scale, ceil(d/8) bytes of signs
//   10     signs at scale ‖v‖₁/d (λ = r)          the same
//   110    d > 16: split.  d ≤ 16: dense          nothing.  d × fp32
//   1110   d ≤ 16: dense but for its zeros        16 bits, one where an entry follows; those × fp32
//   111    d > 16: zero,  1111  d ≤ 16: zero      nothing
//
// A split puts a multiple of 16 entries into its first half, so that only a bucket's last leaf has signs that
// do not fill their bytes. Each bucket thus costs one mode bit where the rule holds at once.
#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>

#include "float_kernels.h"
#include "sign_kernels.h"
#include "wire.h"

namespace gossamer::compress {

inline constexpr std::size_t kLeaf = 16;  ///< a segment this small is not split

enum class Mode { scaled, mean, split, dense, sparse, zero };

constexpr std::size_t first_half(std::size_t d) { return wire::ceil_div(d, 2 * kLeaf) * kLeaf; }

/// The code of a mode of a segment of d entries, its first bit lowest.
struct ModeBits {
  std::uint32_t value, count;
};
constexpr ModeBits mode_bits(Mode mode, std::size_t d) {
  switch (mode) {
    case Mode::scaled:
      return {0b0, 1};
    case Mode::mean:
      return {0b01, 2};
    case Mode::split:
    case Mode::dense:
      return {0b011, 3};
    case Mode::sparse:
      return {0b0111, 4};
    case Mode::zero:
      break;
  }
  return d > kLeaf ? ModeBits{0b111, 3} : ModeBits{0b1111, 4};
}

/// Packs modes into scratch words as bytes, lowest bit first.
class ModeWriter {
 public:
  /// Goes on behind the first `used` bits.
  explicit ModeWriter(std::span<std::uint32_t> words, std::size_t used = 0) : words_(words), used_(used) {}
  void put(Mode mode, std::size_t d) {
    const ModeBits code = mode_bits(mode, d);
    bits(code.value, code.count);
  }
  /// All that another one has.
  void append(const ModeWriter& other) {
    for (std::size_t i = 0; i < other.used_; i += 32)
      bits(other.words_[i / 32], std::min<std::size_t>(32, other.used_ - i));
  }
  std::size_t bytes() const { return wire::ceil_div(used_, 8); }
  std::size_t used() const { return used_; }
  const void* data() const { return words_.data(); }

 private:
  /// The lowest count bits, at most 32.
  void bits(std::uint32_t value, std::size_t count) {
    if (count < 32) value &= (1u << count) - 1;
    const std::size_t word = used_ / 32, shift = used_ % 32;
    assert((used_ + count - 1) / 32 < words_.size());
    words_[word] = shift == 0 ? value : words_[word] | value << shift;
    if (shift + count > 32) words_[word + 1] = value >> (32 - shift);
    used_ += count;
  }
  std::span<std::uint32_t> words_;
  std::size_t used_;
};

class ModeReader {
 public:
  ModeReader() : ModeReader(wire::Reader({})) {}
  explicit ModeReader(wire::Reader in) : in_(in) {}
  Mode next(std::size_t d) {
    if (!bit()) return Mode::scaled;
    if (!bit()) return Mode::mean;
    const bool small = d <= kLeaf;
    if (!bit()) return small ? Mode::dense : Mode::split;
    return small && !bit() ? Mode::sparse : Mode::zero;
  }
  void finish() const {
    if (in_.left() != 0 || byte_ != 0) throw PayloadError("payload has modes past its last bucket");
  }

 private:
  bool bit() {
    if (left_ == 0) {
      byte_ = in_.u8();
      left_ = 8;
    }
    const bool set = (byte_ & 1u) != 0;
    byte_ = static_cast<std::uint8_t>(byte_ >> 1);
    --left_;
    return set;
  }
  wire::Reader in_;
  std::uint8_t byte_ = 0;
  int left_ = 0;
};

/// Goes through segments, whose leaves of signs it adds many at a time.
class SegmentDecoder {
 public:
  SegmentDecoder() : in_({}) {}
  SegmentDecoder(wire::Reader modes, wire::Reader body, float weight)
      : modes_(modes), in_(body), weight_(weight) {}

  /// acc += weight · the buckets of acc.
  void add(std::span<float> acc, std::size_t bucket) {
    for (; !acc.empty(); acc = acc.subspan(std::min(bucket, acc.size())))
      segment(acc.first(std::min(bucket, acc.size())));
    flush();
  }
  /// Leaves out one bucket of d entries; throws where add would.
  void skip(std::size_t d) {
    switch (modes_.next(d)) {
      case Mode::scaled:
      case Mode::mean:
        (void)signs_of(d);
        return;
      case Mode::split:
        skip(first_half(d));
        return skip(d - first_half(d));
      case Mode::dense:
        for (std::size_t i = 0; i < d; ++i) (void)in_.f32();
        return;
      case Mode::sparse:
        for (std::uint32_t marks = marks_of(d); marks != 0; marks &= marks - 1) (void)in_.f32();
        return;
      case Mode::zero:
        return;
    }
  }
  /// What is left of the body; throws where modes are left.
  wire::Reader finish() const {
    modes_.finish();
    return in_;
  }

 private:
  void segment(std::span<float> acc) {
    switch (modes_.next(acc.size())) {
      case Mode::scaled:
      case Mode::mean:
        return signs(acc);
      case Mode::split:
        segment(acc.first(first_half(acc.size())));
        return segment(acc.subspan(first_half(acc.size())));
      case Mode::dense:
        flush();
        if (!add_floats(FloatFormat::fp32, FloatScale(), in_.take(acc.size_bytes()).data(), weight_,
                        acc.data(), acc.size()))
          throw PayloadError("payload holds NaN or Inf");
        return;
      case Mode::sparse:
        flush();
        return sparse(acc);
      case Mode::zero:
        return flush();
    }
  }

  struct Signs {
    float scale;
    const std::byte* bits;
  };
  Signs signs_of(std::size_t d) {
    const float scale = in_.f32();
    if (!(scale > 0)) throw PayloadError("payload holds a scale that is not positive");
    const auto bits = in_.take(wire::ceil_div(d, 8));
    wire::require_no_signs_past(bits, d);
    return {scale, bits.data()};
  }
  void signs(std::span<float> acc) {
    const auto [scale, bits] = signs_of(acc.size());
    if (count_ == 0) first_ = acc.data();
    leaves_[count_++] = {bits, acc.size(), {weight_ * scale, -(weight_ * scale)}};
    if (count_ == leaves_.size()) flush();
  }

  void flush() {
    add_leaves(std::span(leaves_).first(count_), first_);
    count_ = 0;
  }

  /// Of a sparse segment of d entries: a bit for each that follows.
  std::uint32_t marks_of(std::size_t d) {
    const std::uint32_t low = in_.u8(), marks = low | static_cast<std::uint32_t>(in_.u8()) << 8;
    if ((marks >> d) != 0) throw PayloadError("payload marks entries past the end of a segment");
    return marks;
  }
  void sparse(std::span<float> acc) {
    for (std::uint32_t marks = marks_of(acc.size()); marks != 0; marks &= marks - 1)
      acc[static_cast<std::size_t>(std::countr_zero(marks))] += weight_ * in_.f32();
  }

  ModeReader modes_;
  wire::Reader in_;
  float weight_ = 0;
  std::array<SignLeaf, 32> leaves_;  ///< found, but not added yet; they lie together in acc
  std::size_t count_ = 0;
  float* first_ = nullptr;
};

}  // namespace gossamer::compress
