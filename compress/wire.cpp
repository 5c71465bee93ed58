#include "wire.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "gossamer/compress/kernels.h"

namespace gossamer::compress::wire {
namespace {

constexpr std::uint8_t kMagic = 'g';
constexpr std::uint8_t kVersion = 1;

}  // namespace

void Writer::header(CodecId id, std::size_t n) {
  u8(kMagic);
  u8(kVersion);
  u8(static_cast<std::uint8_t>(id));
  varint(n);
}

void Writer::varint(std::uint64_t value) {
  while (value >= 0x80) {
    u8(static_cast<std::uint8_t>(value | 0x80));
    value >>= 7;
  }
  u8(static_cast<std::uint8_t>(value));
}

std::uint64_t Reader::varint() {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const std::uint64_t byte = u8();
    const std::uint64_t low = byte & 0x7f;
    if (shift == 63 && low > 1) break;
    value |= low << shift;
    if (byte < 0x80) {
      // One number has one form: a longer one with zeros in front is not what a writer makes.
      if (byte == 0 && shift > 0) throw PayloadError("payload holds a number with leading zero bytes");
      return value;
    }
  }
  throw PayloadError("payload holds a number of more than 64 bits");
}

void Reader::refuse_short(std::size_t count) const {
  throw PayloadError("payload truncated: " + std::to_string(count) + " more bytes expected, " +
                     std::to_string(in_.size()) + " left");
}

void Reader::refuse_number() {
  throw PayloadError("payload holds NaN or Inf where a scale or value is expected");
}

void Reader::f32s(std::span<float> out) {
  if (!out.empty()) std::memcpy(out.data(), take(out.size_bytes()).data(), out.size_bytes());
  if (first_not_finite(out) != out.size()) refuse_number();
}

void Reader::expect_left(std::size_t count) const {
  if (in_.size() != count) {
    throw PayloadError("payload has " + std::to_string(in_.size()) + " bytes left where " +
                       std::to_string(count) + " are expected");
  }
}

Header read_header(Reader& in) {
  if (in.u8() != kMagic) throw PayloadError("not a payload: its first byte is not 'g'");
  const std::uint8_t version = in.u8();
  if (version != kVersion) {
    throw PayloadError("payload version " + std::to_string(version) + ", expected " +
                       std::to_string(kVersion));
  }
  const std::uint8_t id = in.u8();
  return {id, in.varint()};
}

std::size_t read_bucket(Reader& in) {
  const std::uint64_t bucket = in.varint();
  if (bucket == 0 || bucket % 32 != 0 || bucket > kBucketMax) {
    throw PayloadError("payload claims a bucket of " + std::to_string(bucket) +
                       ", expected a multiple of 32 up to " + std::to_string(kBucketMax));
  }
  return static_cast<std::size_t>(bucket);
}

float largest_magnitude(std::span<const float> x) {
  // As signed integers magnitudes keep their order, and compilers make vector code of this.
  std::int32_t largest = 0;
  for (const float v : x) {
    const std::int32_t magnitude = std::bit_cast<std::int32_t>(v) & 0x7fffffff;
    largest = magnitude > largest ? magnitude : largest;
  }
  return std::bit_cast<float>(largest);
}

std::size_t first_not_finite(std::span<const float> x) {
  constexpr std::size_t kBlock = 1024;
  for (std::size_t start = 0; start < x.size(); start += kBlock) {
    const auto block = x.subspan(start, std::min(kBlock, x.size() - start));
    // The signed comparison without an early exit is what compilers turn into vector code.
    std::int32_t bad = 0;
    for (const float v : block) bad |= (std::bit_cast<std::int32_t>(v) & 0x7fffffff) > 0x7f7fffff ? 1 : 0;
    if (bad == 0) continue;
    const auto at = std::find_if(block.begin(), block.end(), [](float v) { return !std::isfinite(v); });
    return start + static_cast<std::size_t>(at - block.begin());
  }
  return x.size();
}

void refuse_entry(std::size_t i, std::size_t n, float value) {
  throw EncodeError("cannot encode: entry " + std::to_string(i) + " of " + std::to_string(n) + " is " +
                    std::to_string(value) + "; every entry must be finite (lower the learning rate or clip)");
}

void require_finite(std::span<const float> x) {
  const std::size_t i = first_not_finite(x);
  if (i != x.size()) refuse_entry(i, x.size(), x[i]);
}

void require_room(std::span<const std::byte> out, std::size_t needed) {
  if (out.size() >= needed) return;
  throw EncodeError("cannot encode: the output holds " + std::to_string(out.size()) +
                    " bytes, max_bytes is " + std::to_string(needed));
}

void require_indexable(std::size_t n, const char* codec) {
  if (n <= kIndexedMax) return;
  throw EncodeError("cannot encode: " + std::string(codec) +
                    " takes vectors under 2^32 entries; slice the layer");
}

void write_signs(Writer& out, std::span<const float> x) {
  PieceWords words;
  while (!x.empty()) {
    const auto piece = x.first(std::min(kPiece, x.size()));
    pack_signs(piece, words);
    out.bytes(words.data(), ceil_div(piece.size(), 8));
    x = x.subspan(piece.size());
  }
}

void require_no_signs_past(std::span<const std::byte> signs, std::size_t n) {
  const std::size_t ragged = n % 8;
  if (ragged != 0 && (static_cast<unsigned>(signs.back()) >> ragged) != 0) {
    throw PayloadError("payload has sign bits set past its last entry");
  }
}

}  // namespace gossamer::compress::wire
