#pragma once
// A Slab holds rows of one size and names them by number.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "pages.h"

namespace gossamer::optim {

/// Rows stay where they are; freed ones are used again. Grows by 64 chunks of 16 KiB, then 64 of four times
/// that, and so on: never by much more than a sixteenth. One thread at a time while anything is changed;
/// several may read.
class Slab {
 public:
  /// row_bytes: a multiple of 4. The pool outlives the slab.
  Slab(std::size_t row_bytes, PagePool& pool);
  /// Whether take would find a row; takes memory for it where there is some.
  bool reserve();
  /// A row, its content undefined. After a reserve that was true.
  std::uint32_t take();
  void free(std::uint32_t row);
  std::byte* row(std::uint32_t number) const {
    const std::uint32_t unit = number / unit_rows_;  // rows of a chunk of the first level
    const auto level = static_cast<unsigned>(std::bit_width(3 * (unit / kLevelChunks) + 1) - 1) / 2;
    const std::uint32_t chunk = (unit - first_unit(level)) >> (2 * level);
    const std::uint32_t first = (first_unit(level) + (chunk << (2 * level))) * unit_rows_;
    return chunks_[level * kLevelChunks + chunk] + std::size_t{number - first} * row_bytes_;
  }

 private:
  static constexpr std::uint32_t kLevelChunks = 64;
  static constexpr std::size_t kUnitBytes = std::size_t{1} << 14;
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  static std::uint32_t first_unit(unsigned level) { return kLevelChunks * (((1U << (2 * level)) - 1) / 3); }

  const std::size_t row_bytes_;
  const std::uint32_t unit_rows_;
  PagePool* pool_;
  std::vector<std::byte*> chunks_;
  std::uint32_t made_ = 0, room_ = 0;  ///< rows ever taken, rows that there is memory for
  std::uint32_t free_ = kNone;         ///< the last one freed; it holds the number of the one before
};

}  // namespace gossamer::optim
