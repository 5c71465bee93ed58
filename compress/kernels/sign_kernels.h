#pragma once
// One pass over the memory for the sign codecs: buckets are scanned while their entries are on the way. CPU,
// Highway, dispatched at run time.
#include <cstddef>
#include <cstdint>
#include <span>

#include "gossamer/compress/codec.h"

namespace gossamer::compress {

/// Which two sums over a bucket are wanted.
enum class Sums {
  l1,     ///< Σ|v| and nothing
  norms,  ///< Σ|v| and Σv²
  sides   ///< Σ of the entries ≥ 0, Σ of those < 0
};
/// In the order of norms() in kernels.h: 16 lanes by index in the bucket mod 16, over blocks of 4096, lanes
/// then blocks combined pairwise. Where an entry is NaN or Inf, so is a sum; the reverse does not hold.
struct BucketSums {
  float first = 0, second = 0;
  std::uint32_t positive =
      0;  ///< Sums::sides: how many entries are ≥ 0; those that are NaN count as anything
};

/// A run of buckets to be scanned, all of `bucket` entries but the last, which may be shorter.
struct SignScan {
  const float* g;
  std::size_t n;
  std::size_t bucket;  ///< a multiple of 32
  BucketSums* sums;    ///< of each bucket, out
  std::byte* signs;    ///< ceil(d/8) bytes per bucket, out: bit i%8 of byte i/8 is 1 where v_i ≥ 0
  std::size_t stride;  ///< from the signs of one bucket to those of the next
};

/// Sums and signs of v = g.
void scan_signs(Sums kind, const SignScan& scan);
/// Sums and signs of v = g + e, where e = p − (p ≥ 0 ? plus : minus) with the pending pair of each bucket. In
/// p is left v, but e where v is NaN or Inf. Returns the first index where it is, n where there is none.
std::size_t scan_signs(Sums kind, const SignScan& scan, float* p, const SignPair* pending);

/// out ← x − y, of n entries.
void subtract(const float* x, const float* y, float* out, std::size_t n);

/// Entries whose signs lie together and stand for one pair of values.
struct SignLeaf {
  const std::byte* signs;  ///< ceil(n/8) bytes
  std::size_t n;
  SignPair pair;
};
/// acc += what the leaves stand for, one after the other.
void add_leaves(std::span<const SignLeaf> leaves, float* acc);

}  // namespace gossamer::compress
