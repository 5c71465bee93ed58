#pragma once
// Ascending indices as the gaps between them, in Rice code: gap >> r ones, a zero, the low r bits; lowest
// bits of each byte first, padded to a byte.
#include <cstddef>
#include <cstdint>
#include <span>

#include "wire.h"

namespace gossamer::compress {

inline constexpr unsigned kRiceMax = 32;

/// The Rice parameter that codes these indices of n entries in the fewest bits, near ⌊log₂(n/k)⌋, which never
/// needs more than k·(⌊log₂(n/k)⌋ + 3). indices is not empty.
unsigned best_rice(std::span<const std::uint32_t> indices, std::size_t n);
void write_gaps(wire::Writer& out, std::span<const std::uint32_t> indices, unsigned rice);
/// Bytes that best_rice and write_gaps need at most for any `most` or fewer of n entries.
std::size_t gaps_max_bytes(std::size_t most, std::size_t n);

/// Reads the indices of one payload, in order; throws PayloadError for one past the last entry.
class GapReader {
 public:
  GapReader(std::span<const std::byte> in, unsigned rice, std::size_t n) : in_(in), rice_(rice), n_(n) {}
  std::size_t next();
  /// Throws where anything but padding is left.
  void finish() const;

 private:
  std::uint64_t take(unsigned count);
  /// Ones up to the next zero; throws where there are more than limit.
  std::uint64_t ones(std::uint64_t limit);
  void refill(unsigned count);
  void drop(unsigned count);
  std::span<const std::byte> in_;
  unsigned rice_;
  std::size_t n_, next_ = 0;
  std::uint64_t pending_ = 0;
  unsigned have_ = 0;
};

}  // namespace gossamer::compress
