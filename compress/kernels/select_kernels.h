#pragma once
// The inner loops of selection: one pass over a vector that may be formed on the way, lists what is large and
// refuses what is not finite.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace gossamer::compress {

/// Bits of a magnitude, which as integers keep the order of the numbers.
using MagnitudeBits = std::uint32_t;
inline constexpr MagnitudeBits kInfinityBits = 0x7f800000u;  ///< nothing finite reaches it
constexpr MagnitudeBits magnitude_bits(float x) { return std::bit_cast<MagnitudeBits>(x) & 0x7fffffffu; }

/// The vector v to select from, as it is first read: g itself; with sum, v = sum + g; with velocity as well,
/// velocity ← momentum·velocity + g and v = sum + velocity. A pass that forms v writes it to sum. Each of
/// sum and velocity has g.size() entries.
struct Source {
  std::span<const float> g;
  float* sum = nullptr;
  float* velocity = nullptr;
  float momentum = 0;

  Source part(std::size_t start, std::size_t count) const {
    return {g.subspan(start, count), sum == nullptr ? nullptr : sum + start,
            velocity == nullptr ? nullptr : velocity + start, momentum};
  }
  /// v[i], where it is not formed yet.
  float at(std::size_t i) const {
    if (sum == nullptr) return g[i];
    return sum[i] + (velocity == nullptr ? g[i] : momentum * velocity[i] + g[i]);
  }
};

/// Entries one after the other, ascending. A pass stops listing for good where fewer than kListGroup places
/// are left.
struct EntryList {
  std::uint32_t* indices = nullptr;
  float* values = nullptr;
  std::size_t room = 0;
  std::size_t size = 0;
  bool full = false;
};

/// Entries are formed and checked so many at a time.
inline constexpr std::size_t kListGroup = 64;

/// Σv, Σ|v|, Σv² in 32 lanes over blocks of 4096, lanes then blocks combined pairwise: sums of pieces of 2ʲ
/// blocks, combined pairwise, are those of the whole. largest: of the magnitudes.
struct MomentSums {
  float sum, l1, l2_squared;
  MagnitudeBits largest;
};

struct Emitted {
  std::size_t count;   ///< entries that reach the threshold, listed or not
  std::size_t formed;  ///< below the size: the group that starts there holds NaN or Inf and is as it was
};
/// Forms v and appends to list every entry whose magnitude reaches threshold; entry 0 has index `first`.
/// Stops before a group that holds NaN or Inf. sums, where set, gets the moments of what was formed.
Emitted emit_reaching(const Source& source, MagnitudeBits threshold, std::uint32_t first, EntryList& list,
                      MomentSums* sums = nullptr);

/// Appends to list the entries of exactly this magnitude; stops soon after `enough` of them. Returns how
/// many.
std::size_t emit_equal(std::span<const float> v, MagnitudeBits magnitude, std::size_t enough,
                       std::uint32_t first, EntryList& list);

/// Whether all of v is, which is not formed.
bool all_finite(const Source& source);

/// How many magnitudes of v reach threshold.
std::size_t count_reaching(std::span<const float> v, MagnitudeBits threshold);

}  // namespace gossamer::compress
