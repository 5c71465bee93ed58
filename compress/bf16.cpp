#include <algorithm>
#include <array>

#include "codecs.h"
#include "gossamer/compress/kernels.h"

namespace gossamer::compress {
namespace {

constexpr std::size_t kPiece = 1024;
constexpr std::uint32_t kLargest = 0x7f7f;  ///< largest finite bfloat16
constexpr std::uint32_t kExponent = 0x7f80;

/// To nearest, ties to even; what would round to Inf becomes the largest finite number.
std::uint16_t to_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  const std::uint32_t rounded = (magnitude + 0x7fffu + ((magnitude >> 16) & 1u)) >> 16;
  return static_cast<std::uint16_t>((bits >> 16 & 0x8000u) | std::min(rounded, kLargest));
}

/// The upper half of a 32-bit float (bfloat16), rounded to nearest even: float's range with 8 significant
/// bits (Kalamkar et al. 2019, "A study of BFLOAT16 for deep learning training"). Biased; contractive: an
/// entry of magnitude ≥ 2⁻¹²⁶ is wrong by at most 2⁻⁸ of itself; smaller ones by at most 2⁻¹³⁴, so that a
/// vector of nothing but such numbers may vanish. Payload: header, n × bfloat16.
class Bf16 final : public Codec {
 public:
  std::string spec() const override { return "bf16"; }
  std::string_view name() const override { return "bf16"; }
  Traits traits() const override { return {.contractive = true}; }
  std::size_t max_bytes(std::size_t n) const override { return wire::kHeaderMax + 2 * n; }

  std::size_t encode(std::span<const float> x, RandomKey, Workspace&,
                     std::span<std::byte> out) const override {
    wire::require_room(out, max_bytes(x.size()));
    wire::require_finite(x);
    wire::Writer writer(out);
    writer.header(wire::CodecId::bf16, x.size());
    std::array<std::uint16_t, kPiece> piece;
    for (std::size_t i = 0; i < x.size(); i += kPiece) {
      const std::size_t count = std::min(kPiece, x.size() - i);
      for (std::size_t j = 0; j < count; ++j) piece[j] = to_bf16(x[i + j]);
      writer.bytes(piece.data(), 2 * count);
    }
    return writer.size();
  }
};

}  // namespace

std::unique_ptr<const Codec> make_bf16(Parameters&) { return std::make_unique<Bf16>(); }

void decode_bf16(wire::Reader& in, float weight, std::span<float> acc, Threads*) {
  in.expect_left(2 * acc.size());
  std::array<std::uint16_t, kPiece> piece;
  std::array<float, kPiece> values;
  while (!acc.empty()) {
    const auto part = acc.first(std::min(kPiece, acc.size()));
    std::memcpy(piece.data(), in.take(2 * part.size()).data(), 2 * part.size());
    unsigned special = 0;
    for (std::size_t j = 0; j < part.size(); ++j) {
      special |= (piece[j] & kExponent) == kExponent ? 1u : 0u;
      values[j] = std::bit_cast<float>(static_cast<std::uint32_t>(piece[j]) << 16);
    }
    if (special != 0) throw PayloadError("payload holds NaN or Inf");
    axpy(weight, std::span<const float>(values).first(part.size()), part);
    acc = acc.subspan(part.size());
  }
}

}  // namespace gossamer::compress
