#pragma once
// Strings of bits in bytes, lowest bit of each byte first. Moved 8 bytes at a time; only near a buffer's end
// byte by byte.
#include <algorithm>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "gossamer/compress/codec.h"

namespace gossamer::compress {

/// The lowest count bits, count < 64.
constexpr std::uint64_t low_bits(unsigned count) { return (std::uint64_t{1} << count) - 1; }

/// The 8 bytes at `byte`, zeros past the end.
inline std::uint64_t load_word(std::span<const std::byte> in, std::size_t byte) {
  std::uint64_t word = 0;
  if (in.size() >= 8 && byte <= in.size() - 8) {
    std::memcpy(&word, in.data() + byte, 8);
  } else if (byte < in.size()) {
    std::memcpy(&word, in.data() + byte, in.size() - byte);
  }
  return word;
}

/// At least 57 bits from bit `at` on, zeros past the end.
inline std::uint64_t load_bits(std::span<const std::byte> in, std::uint64_t at) {
  return load_word(in, static_cast<std::size_t>(at >> 3)) >> (at & 7);
}

/// Appends to the front of a span that must hold all that is put (asserted); bytes behind what was written
/// may be overwritten.
class BitWriter {
 public:
  explicit BitWriter(std::span<std::byte> out)
      : begin_(out.data()), at_(out.data()), end_(out.data() + out.size()) {}

  static constexpr unsigned kPutMax = 56;  ///< bits

  /// value < 2^count, count ≤ kPutMax.
  void put(std::uint64_t value, unsigned count) {
    assert(count <= kPutMax && value <= low_bits(count));
    pending_ |= value << used_;
    used_ += count;
    if (end_ - at_ >= 8) [[likely]] {
      std::memcpy(at_, &pending_, 8);
    } else {
      store_near_end();
    }
    at_ += used_ >> 3;
    pending_ >>= used_ & ~7u;
    used_ &= 7;
  }
  /// Pads with zeros to a byte; returns the bytes written.
  std::size_t finish() {
    put(0, (8 - used_) & 7);
    return static_cast<std::size_t>(at_ - begin_);
  }

 private:
  void store_near_end() {
    const std::size_t whole = used_ >> 3;
    assert(whole <= static_cast<std::size_t>(end_ - at_));
    if (whole > 0) std::memcpy(at_, &pending_, whole);
  }

  std::byte *begin_, *at_, *end_;
  std::uint64_t pending_ = 0;
  unsigned used_ = 0;  ///< bits in pending_, under 8 between calls
};

/// Appends where there is room for what is put and 8 bytes more, which nothing checks.
class OpenBitWriter {
 public:
  explicit OpenBitWriter(std::byte* out = nullptr) : begin_(out), at_(out) {}

  /// value < 2^count, count ≤ 56.
  void put(std::uint64_t value, unsigned count) {
    pending_ |= value << used_;
    used_ += count;
    std::memcpy(at_, &pending_, 8);
    at_ += used_ >> 3;
    pending_ >>= used_ & ~7u;
    used_ &= 7;
  }
  /// Pads with zeros to a byte; returns the bytes written.
  std::size_t finish() {
    put(0, (8 - used_) & 7);
    return static_cast<std::size_t>(at_ - begin_);
  }

 private:
  std::byte *begin_, *at_;
  std::uint64_t pending_ = 0;
  unsigned used_ = 0;  ///< bits in pending_, under 8 between calls
};

/// Reads from the front. Past the end it finds zeros, and past_end() tells.
class BitReader {
 public:
  explicit BitReader(std::span<const std::byte> in) : at_(in.data()), end_(in.data() + in.size()) {}

  /// From here until drops add up to 56, bits() shows what comes next.
  void refill() {
    if (end_ - at_ >= 8) [[likely]] {
      std::uint64_t word;
      std::memcpy(&word, at_, 8);
      pending_ |= word << have_;
      at_ += (63 - have_) >> 3;
      have_ |= 56;
    } else {
      refill_near_end();
    }
  }
  std::uint64_t bits() const { return pending_; }
  /// count ≤ 56 since the last refill.
  void drop(unsigned count) {
    pending_ >>= count;
    have_ -= count;
  }
  std::uint64_t take(unsigned count) {
    refill();
    const std::uint64_t value = pending_ & low_bits(count);
    drop(count);
    return value;
  }
  /// True where more was dropped than there was.
  bool past_end() const { return have_ < borrowed_; }
  void require_not_past_end() const {
    if (past_end()) throw PayloadError("payload truncated: its codes end early");
  }
  /// Throws unless all is read but padding of zeros to a byte.
  void finish() const {
    require_not_past_end();
    const unsigned left = have_ - borrowed_;
    if (at_ != end_ || left >= 8 || (pending_ & low_bits(left)) != 0)
      throw PayloadError("payload holds bits after its last code");
  }

 private:
  void refill_near_end() {
    for (; have_ <= 56; have_ += 8) {
      if (at_ != end_) {
        pending_ |= static_cast<std::uint64_t>(*at_++) << have_;
      } else {
        borrowed_ += 8;
      }
    }
  }

  const std::byte *at_, *end_;
  std::uint64_t pending_ = 0;
  unsigned have_ = 0;      ///< bits in pending_ that count; any above are what at_ points to
  unsigned borrowed_ = 0;  ///< zeros given in place of bits past the end
};

}  // namespace gossamer::compress
