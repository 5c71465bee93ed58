#pragma once
// Which entries of a vector are large: the k of largest magnitude, or between k and 1.5k of them where that
// is faster to find.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "gossamer/compress/codec.h"

namespace gossamer::compress {

/// exact, trimmed, radix and hierarchical give exactly the k largest, ties to the lowest index. The others
/// give every entry at or above some magnitude, of which there are at least k and at most ⌊1.5k⌋; where equal
/// magnitudes make that impossible, or their search ends without it, exactly the k largest as exact does. No
/// method loses a large entry for a smaller one.
enum class Selection {
  exact,    ///< threshold from a sample that surely lets k pass, then selection among those listed
  sampled,  ///< threshold from a random sample of 1 % (Lin et al. 2018, "Deep gradient compression", §4)
  trimmed,  ///< drop what lies under mean + r·(max − mean), then exact (Fang et al. 2019, "RedSync", alg. 2)
  bisect,   ///< binary search of the threshold in [mean, max] (RedSync, algorithm 3)
  ldte_bs,  ///< threshold of a fitted Laplace distribution, then binary search (Chen, Liu & Han 2020)
  reuse,    ///< the threshold of the last time while it fits, else sampled (RedSync, §5.2.2)
  /// ldte_bs as published: fitted at k/n itself, each count a pass over the vector, until the count fits or
  /// the interval is under 2⁻²⁰ of the largest magnitude (the paper leaves this δ open).
  ldte_bs_paper,
  radix,  ///< the k-th largest digit by digit, by histograms of the whole vector (Alabi et al. 2012)
  /// exact among those that pass the threshold of a sample of 1 %; lowered where fewer than k pass ("Deep
  /// gradient compression", §4, whose own loses gradients there).
  hierarchical,
};

/// Whether a method gives exactly k.
constexpr bool selects_exactly(Selection method) {
  return method == Selection::exact || method == Selection::trimmed || method == Selection::radix ||
         method == Selection::hierarchical;
}

/// Entries that a density keeps of n: max(1, ⌈density·n⌉), 0 of none. density, above 0 and at most 1, means
/// the decimal that it was written as: what the product's rounding puts above a whole number is that number
/// (0.07 of 100 is 7).
std::size_t kept_entries(double density, std::size_t n);

/// Names of the methods, in the order of the enumeration; the first is the default.
std::span<const std::string_view> selection_names();

/// Most entries that a method may select where k are asked for.
std::size_t selection_max(Selection method, std::size_t k, std::size_t n);

/// Views into the workspace (words and more_floats), good until it is used again.
struct Selected {
  std::span<const std::uint32_t> indices;  ///< ascending
  std::span<const float> values;           ///< values[j] is x[indices[j]]
};

/// x is finite (NaN gives any selection of the right count), 1 ≤ k ≤ x.size() < 2³² or both 0. key draws the
/// sample. The same on every machine.
Selected select_largest(Selection method, std::span<const float> x, std::size_t k, RandomKey key,
                        SelectionState& state, Workspace& workspace);

}  // namespace gossamer::compress
