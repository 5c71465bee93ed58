#pragma once
// Which entries of a vector are large: the k of largest magnitude, or between k and 1.5k of them where that
// is faster to find.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "gossamer/compress/codec.h"

namespace gossamer::compress {

/// exact and trimmed give exactly the k largest, ties to the lowest index. The others give every entry at or
/// above some magnitude, of which there are at least k and at most ⌊1.5k⌋; where equal magnitudes make that
/// impossible, or their search ends without it, exactly the k largest as exact does. No method loses a large
/// entry for a smaller one.
enum class Selection {
  exact,    ///< histogram of the leading magnitude bits, then selection within one bin
  sampled,  ///< threshold from a random sample of 1 % (Lin et al. 2018, "Deep gradient compression", §4)
  trimmed,  ///< drop what lies under mean + r·(max − mean), then exact (Fang et al. 2019, "RedSync", alg. 2)
  bisect,   ///< binary search of the threshold in [mean, max] (RedSync, algorithm 3)
  ldte_bs,  ///< threshold of a fitted Laplace distribution, then binary search (Chen, Liu & Han 2020)
  reuse,    ///< the threshold of the last time while it fits, else ldte_bs (RedSync, §5.2.2)
};

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
