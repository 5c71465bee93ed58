#pragma once
// Bytes of a payload. Little-endian. Every payload starts with
//   magic 'g', version, codec id, varint n
// and goes on as its codec says. Writers stay within what max_bytes promised (asserted); readers trust
// nothing.
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "gossamer/compress/codec.h"

namespace gossamer::compress::wire {

static_assert(std::endian::native == std::endian::little,
              "payloads are little-endian and copied as they are");

/// Numbers on the wire: never reused, never renumbered.
enum class CodecId : std::uint8_t {
  dense = 1,
  fp16 = 2,
  onebit = 3,
  onebit_scaled = 4,
  qsgd = 5,
  topk = 6,
  bf16 = 7,
  onebit_two = 8,
  terngrad = 9,
  intq = 10,
  randk = 11,
  threshold = 12,
  sign_vote = 13
};

inline constexpr std::size_t kHeaderMax = 13;  ///< magic, version, id, varint n
inline constexpr std::size_t kVarintMax = 10;

/// Most entries of a vector of which single ones are sent: an index has 32 bits.
inline constexpr std::size_t kIndexedMax = 0xffffffffu;
/// Throws EncodeError for a vector of n entries that `codec` cannot send so.
void require_indexable(std::size_t n, const char* codec);

/// ceil(a / b) without overflow.
constexpr std::size_t ceil_div(std::size_t a, std::size_t b) { return a / b + (a % b != 0 ? 1 : 0); }

/// Appends to the caller's span.
class Writer {
 public:
  explicit Writer(std::span<std::byte> out) : out_(out) {}
  void header(CodecId id, std::size_t n);
  void varint(std::uint64_t value);
  void u8(std::uint8_t value) { bytes(&value, 1); }
  void f32(float value) { bytes(&value, sizeof value); }
  void bytes(const void* from, std::size_t count) {
    if (count > 0) std::memcpy(skip(count), from, count);
  }
  /// The next count bytes, for the caller to fill.
  std::byte* skip(std::size_t count) {
    assert(count <= out_.size() - at_);
    std::byte* p = out_.data() + at_;
    at_ += count;
    return p;
  }
  std::size_t size() const { return at_; }

 private:
  std::span<std::byte> out_;
  std::size_t at_ = 0;
};

/// Takes bytes from the front; throws PayloadError where there are none left.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> in) : in_(in) {}
  std::span<const std::byte> take(std::size_t count) {
    if (count > in_.size()) refuse_short(count);
    const auto taken = in_.first(count);
    in_ = in_.subspan(count);
    return taken;
  }
  std::uint8_t u8() { return static_cast<std::uint8_t>(take(1)[0]); }
  std::uint64_t varint();
  /// A finite number; throws for NaN and Inf.
  float f32() {
    float value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    if (!std::isfinite(value)) refuse_number();
    return value;
  }
  /// Fills out with as many of them.
  void f32s(std::span<float> out);
  std::size_t left() const { return in_.size(); }
  /// Throws unless exactly count bytes are left.
  void expect_left(std::size_t count) const;

 private:
  [[noreturn]] void refuse_short(std::size_t count) const;
  [[noreturn]] static void refuse_number();
  std::span<const std::byte> in_;
};

/// Magic, version, id and n; the reader then stands at the codec's own part.
struct Header {
  std::uint8_t id;
  std::uint64_t entries;
};
Header read_header(Reader& in);

/// A bucket size as buckets are written (varint): a multiple of 32 up to kBucketMax.
inline constexpr std::size_t kBucketMax = std::size_t{1} << 20;
std::size_t read_bucket(Reader& in);

/// Entries of one piece of a long vector that is worked on bucket by bucket: about kSlice.
constexpr std::size_t slice_of(std::size_t bucket) {
  return bucket < kSlice ? kSlice / bucket * bucket : bucket;
}

/// Largest |x[i]|; 0 for none. No NaN.
float largest_magnitude(std::span<const float> x);
/// First index of NaN or Inf in x, or x.size().
std::size_t first_not_finite(std::span<const float> x);
/// Throws the EncodeError of a NaN or Inf at entry i of n.
[[noreturn]] void refuse_entry(std::size_t i, std::size_t n, float value);
/// Throws EncodeError naming the first NaN or Inf.
void require_finite(std::span<const float> x);
/// Throws EncodeError where out is shorter than needed.
void require_room(std::span<const std::byte> out, std::size_t needed);

/// Packed signs as words, copied to aligned memory a piece at a time: one piece is 4096 entries.
inline constexpr std::size_t kPiece = 4096;
using PieceWords = std::array<std::uint32_t, kPiece / 32>;

/// Writes ceil(n/8) bytes of signs.
void write_signs(Writer& out, std::span<const float> x);
/// Throws where bits past the last of n signs are set.
void require_no_signs_past(std::span<const std::byte> signs, std::size_t n);

}  // namespace gossamer::compress::wire
