#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string>

#include "level_payload.h"

namespace gossamer::compress {
namespace {

constexpr std::size_t kPerByte = 5;  ///< 3⁵ = 243 of a byte's 256 values
constexpr std::size_t kGroup = EntryBits::kGroup;
constexpr std::size_t kPiece = kPerByte * kGroup;  ///< whole groups of draws and whole bytes
constexpr std::size_t kPieces = kSlice / kPiece;   ///< of one slice
constexpr std::size_t kTernarySlice = kPieces * kPiece;

/// Rows of one piece, each a row of bytes long: at most 512.
using Digits = std::array<std::uint8_t, kPiece>;

/// Q(v_i) = S·sign(v_i)·b_i with S = max|v|, P(b_i = 1) = |v_i|/S, after clipping to |v_i| ≤ c·σ (Wen et al.
/// 2017, "TernGrad", equations 1, 2 and 10): qsgd with one level and the max norm, one S for the whole
/// vector. σ is the root mean square, which is the standard deviation for entries of mean zero and, other
/// than that, does not vanish for equal entries. Parameter clip is c, or none.
///
/// Unbiased on the clipped vector, so as a whole only for clip=none. The relative variance S‖v‖₁/‖v‖₂² − 1
/// reaches (√n − 1)/2 and for c = 2.5 is about 1 on Gaussian entries: not contractive.
///
/// Payload: header, u8 layout, fp32 S, then the digits: coded (level_coding.h, s = 1), or packed in pieces of
/// 2560 entries (the last as many as are left), m = ceil(entries/5) bytes each, 1.6 bits per entry: digit k
/// of byte b, lowest first, is that of entry k·m + b, and stands for digit − 1.
class TernGrad final : public Codec {
 public:
  /// clip 0 = none.
  TernGrad(double clip, FieldCoding coding, Random random) : clip_(clip), coding_(coding), random_(random) {}

  std::string spec() const override {
    return "terngrad:clip=" + (clip_ > 0 ? to_text(clip_) : "none") +
           ",coding=" + std::string(field_coding_name(coding_)) + random_spec(random_);
  }
  std::string_view name() const override { return "terngrad"; }
  Traits traits() const override { return {.unbiased = clip_ == 0}; }
  std::size_t max_bytes(std::size_t n) const override {
    const bool packed = layout_of(coding_) == FieldLayout::packed;
    return wire::kHeaderMax + 1 + sizeof(float) +
           (packed ? wire::ceil_div(n, kPerByte) : coded_max_bytes(coding_, n, levels_each_side(1)));
  }

  std::size_t encode(std::span<const float> x, RandomKey key, Workspace& workspace,
                     std::span<std::byte> out) const override {
    wire::require_room(out, max_bytes(x.size()));
    wire::Writer writer(out);
    writer.header(wire::CodecId::terngrad, x.size());
    writer.u8(static_cast<std::uint8_t>(layout_of(coding_)));
    const float scale = scale_of(x, workspace);
    writer.f32(scale);
    Levels levels = levels_around_zero(2, 1, scale);
    levels.clips = clip_ != 0;
    const EntryBits random(key, random_);
    if (layout_of(coding_) == FieldLayout::coded) {
      const std::size_t bytes =
          write_coded(coding_, x.size(), levels_each_side(1), workspace.threads(), out.subspan(writer.size()),
                      [&](std::size_t first, std::span<std::uint8_t> digits, std::size_t) {
                        round(levels, random, x, first, digits);
                      });
      return writer.size() + bytes;
    }
    std::byte* const bytes = writer.skip(wire::ceil_div(x.size(), kPerByte));
    for_each_piece(workspace.threads(), wire::ceil_div(x.size(), kTernarySlice),
                   [&](std::size_t p, std::size_t) {
                     const std::size_t end = std::min((p + 1) * kTernarySlice, x.size());
                     for (std::size_t i = p * kTernarySlice; i < end; i += kPiece)
                       write_piece(levels, random, x, i, std::min(kPiece, end - i), bytes + i / kPerByte);
                   });
    return writer.size();
  }

  /// min(max|v|, clip·σ).
  float scale_of(std::span<const float> x, Workspace& workspace) const {
    const std::size_t slices = wire::ceil_div(x.size(), kSlice);
    const std::span<float> largest = workspace.more_floats(3 * slices);
    const std::span<std::byte> squares = std::as_writable_bytes(largest.subspan(slices));
    for_each_piece(workspace.threads(), slices, [&](std::size_t p, std::size_t) {
      const std::size_t first = p * kSlice, last = std::min(first + kSlice, x.size());
      const Measured found = measure_slice(x, first, last);
      largest[p] = found.largest;
      std::memcpy(squares.data() + p * sizeof(double), &found.squares, sizeof(double));
    });
    double sum = 0;
    float most = 0;
    for (std::size_t p = 0; p < slices; ++p) {
      double part;
      std::memcpy(&part, squares.data() + p * sizeof(double), sizeof(double));
      sum += part;
      most = std::max(most, largest[p]);
    }
    if (clip_ == 0 || x.empty()) return most;
    const double limit = clip_ * std::sqrt(sum / static_cast<double>(x.size()));
    return limit < static_cast<double>(most) ? static_cast<float>(limit) : most;
  }

  static Measured measure_slice(std::span<const float> x, std::size_t first, std::size_t last) {
    Measured sum;
    for (std::size_t i = first; i < last; i += kGroup) {
      const std::size_t count = std::min(kGroup, last - i);
      const Measured found = measure(Measure::squares, x.data() + i, nullptr, nullptr, count);
      if (!std::isfinite(found.largest)) {
        const std::size_t bad = i + wire::first_not_finite(x.subspan(i, count));
        wire::refuse_entry(bad, x.size(), x[bad]);
      }
      sum.largest = std::max(sum.largest, found.largest);
      sum.squares += found.squares;
    }
    return sum;
  }

  /// Digits of the entries from i on, a multiple of kGroup.
  static void round(const Levels& levels, const EntryBits& random, std::span<const float> x, std::size_t i,
                    std::span<std::uint8_t> digits) {
    Draws draws;
    for (std::size_t g = 0; g < digits.size(); g += kGroup) {
      const std::size_t part = std::min(kGroup, digits.size() - g);
      draw(random, (i + g) / kGroup, draws);
      quantise(levels, x.data() + i + g, part, draws, 0, digits.data() + g, nullptr);
    }
  }

  /// `count` entries from i on, a multiple of kPiece.
  static void write_piece(const Levels& levels, const EntryBits& random, std::span<const float> x,
                          std::size_t i, std::size_t count, std::byte* out) {
    Digits digits;
    round(levels, random, x, i, std::span(digits).first(count));
    const std::size_t row = wire::ceil_div(count, kPerByte);
    std::fill(digits.begin() + static_cast<std::ptrdiff_t>(count),
              digits.begin() + static_cast<std::ptrdiff_t>(kPerByte * row), std::uint8_t{0});
    pack_trits(digits.data(), row, reinterpret_cast<std::uint8_t*>(out));
  }

  double clip_;
  FieldCoding coding_;
  Random random_;
};

}  // namespace

std::unique_ptr<const Codec> make_terngrad(Parameters& parameters) {
  double clip = 0;
  if (parameters.text("clip") != "none") {
    clip = parameters.real("clip", 2.5, "a number above 0, or none",
                           [](double c) { return c > 0 && std::isfinite(c); });
  }
  const FieldCoding coding = field_coding_parameter(parameters);
  return std::make_unique<TernGrad>(clip, coding, random_parameter(parameters));
}

void decode_terngrad(wire::Reader& in, float weight, std::span<float> acc, Threads* threads) {
  const FieldLayout layout = read_field_layout(in);
  const float scale = in.f32();
  if (std::signbit(scale)) throw PayloadError("payload holds a negative scale");
  const std::size_t n = acc.size();
  if (layout == FieldLayout::coded) {
    const Levels levels = levels_around_zero(2, 1, scale);
    return read_coded(in.take(in.left()), n, levels_each_side(1), threads,
                      [&](std::size_t first, std::span<const std::uint8_t> digits) {
                        add_levels(levels, digits.data(), weight, acc.data() + first, digits.size());
                      });
  }
  const auto* const packed =
      reinterpret_cast<const std::uint8_t*>(in.take(wire::ceil_div(n, kPerByte)).data());
  in.expect_left(0);
  const Levels levels = levels_around_zero(2, 1, scale);
  for_each_piece(threads, wire::ceil_div(n, kTernarySlice), [&](std::size_t p, std::size_t) {
    Digits digits;
    const std::size_t end = std::min((p + 1) * kTernarySlice, n);
    for (std::size_t i = p * kTernarySlice; i < end; i += kPiece) {
      const std::size_t count = std::min(kPiece, end - i), row = wire::ceil_div(count, kPerByte);
      if (!unpack_trits(packed + i / kPerByte, row, digits.data()))
        throw PayloadError("payload holds a byte that is not five ternary digits");
      const auto past = digits.begin() + static_cast<std::ptrdiff_t>(count);
      if (std::any_of(past, digits.begin() + static_cast<std::ptrdiff_t>(kPerByte * row),
                      [](std::uint8_t digit) { return digit != 0; }))
        throw PayloadError("payload holds digits past its last entry");
      add_levels(levels, digits.data(), weight, acc.data() + i, count);
    }
  });
}

}  // namespace gossamer::compress
