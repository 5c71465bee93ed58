#pragma once
// The selection kernels in plain C++: all of them where Highway is absent, the tails where it is there.
#include <algorithm>
#include <array>
#include <cmath>

#include "kernels_inline.h"
#include "select_kernels.h"

namespace gossamer::compress::plain {

inline void append(EntryList& list, std::uint32_t index, float value) {
  list.indices[list.size] = index;
  list.values[list.size++] = value;
}

inline bool has_room(EntryList& list) {
  list.full = list.full || list.size + kListGroup > list.room;
  return !list.full;
}

/// Entry i goes to lane i mod 32; twice as many lanes as elsewhere, so that an addition need not wait for the
/// one before it where lanes are 16 a register.
struct MomentLanes {
  static constexpr std::size_t kCount = 2 * kLanes;
  std::array<float, kCount> sum{}, l1{}, l2_squared{};
  std::array<MagnitudeBits, kCount> largest{};

  /// Entries from lane 0 on.
  void add(const float* x, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t lane = i % kCount;
      sum[lane] += x[i];
      l1[lane] += std::fabs(x[i]);
      l2_squared[lane] += x[i] * x[i];
      largest[lane] = std::max(largest[lane], magnitude_bits(x[i]));
    }
  }
  MomentSums total() const {
    return {combine(sum), combine(l1), combine(l2_squared),
            *std::max_element(largest.begin(), largest.end())};
  }

 private:
  static float combine(const std::array<float, kCount>& lanes) {
    std::array<float, kLanes> half;
    for (std::size_t j = 0; j < kLanes; ++j) half[j] = lanes[j] + lanes[j + kLanes];
    return combine_lanes(half);
  }
};

class MomentTree {
 public:
  void add(const MomentSums& sums) {
    first_.add(sums.sum, sums.l1);
    second_.add(0, sums.l2_squared);
    largest_ = std::max(largest_, sums.largest);
  }
  MomentSums total() const { return {first_.l1(), first_.l2_squared(), second_.l2_squared(), largest_}; }

 private:
  BlockTree first_, second_;
  MagnitudeBits largest_ = 0;
};

/// The moments of a vector that comes in groups: lanes of the block at hand, and a tree of those before it.
struct MomentBlocks {
  MomentLanes lanes;
  MomentTree tree;
  std::size_t filled = 0;  ///< entries of the block at hand

  void add(const float* x, std::size_t n) {
    lanes.add(x, n);
    filled += n;
    if (filled == kBlock) close();
  }
  void close() {
    tree.add(lanes.total());
    lanes = {};
    filled = 0;
  }
  MomentSums total() {
    if (filled > 0) close();
    return tree.total();
  }
};

/// One group of at most kListGroup entries; false, with nothing written, where one of them is not finite.
inline bool emit_group(const Source& source, MagnitudeBits threshold, std::uint32_t first, EntryList& list,
                       std::size_t& count, MomentBlocks* moments) {
  std::array<float, kListGroup> v, u;
  const std::size_t n = source.g.size();
  bool finite = true;
  for (std::size_t i = 0; i < n; ++i) {
    u[i] = source.velocity == nullptr ? source.g[i] : source.momentum * source.velocity[i] + source.g[i];
    v[i] = source.sum == nullptr ? u[i] : source.sum[i] + u[i];
    finite = finite && magnitude_bits(v[i]) < kInfinityBits;
  }
  if (!finite) return false;
  if (moments != nullptr) moments->add(v.data(), n);
  const bool stores = has_room(list);
  for (std::size_t i = 0; i < n; ++i) {
    if (source.sum != nullptr) source.sum[i] = v[i];
    if (source.velocity != nullptr) source.velocity[i] = u[i];
    if (magnitude_bits(v[i]) < threshold) continue;
    ++count;
    if (stores) append(list, first + static_cast<std::uint32_t>(i), v[i]);
  }
  return true;
}

/// From entry `start` on, with the count so far.
inline Emitted emit_reaching_from(const Source& source, std::size_t start, std::size_t count,
                                  MagnitudeBits threshold, std::uint32_t first, EntryList& list,
                                  MomentBlocks* moments) {
  const std::size_t n = source.g.size();
  for (std::size_t i = start; i < n; i += kListGroup) {
    const Source group = source.part(i, std::min(kListGroup, n - i));
    if (!emit_group(group, threshold, first + static_cast<std::uint32_t>(i), list, count, moments))
      return {count, i};
  }
  return {count, n};
}

inline std::size_t emit_equal_from(std::span<const float> v, std::size_t start, std::size_t count,
                                   MagnitudeBits magnitude, std::size_t enough, std::uint32_t first,
                                   EntryList& list) {
  for (std::size_t i = start; i < v.size() && count < enough; ++i) {
    if (magnitude_bits(v[i]) != magnitude) continue;
    ++count;
    if (has_room(list)) append(list, first + static_cast<std::uint32_t>(i), v[i]);
  }
  return count;
}

inline bool all_finite(const Source& source) {
  for (std::size_t i = 0; i < source.g.size(); ++i) {
    if (!std::isfinite(source.at(i))) return false;
  }
  return true;
}

inline std::size_t count_reaching(std::span<const float> v, MagnitudeBits threshold) {
  std::size_t count = 0;
  for (const float x : v) count += static_cast<std::size_t>(magnitude_bits(x) >= threshold);
  return count;
}

}  // namespace gossamer::compress::plain
