#pragma once
// A Slab holds rows of one size and names them by number.
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
    return chunks_[number >> kPlaceBits] + std::size_t{number & (kMostRows - 1)} * row_bytes_;
  }

 private:
  static constexpr unsigned kPlaceBits = 22;  ///< of a number, which say where in its chunk a row is
  static constexpr std::uint32_t kMostRows = 1U << kPlaceBits;
  static constexpr std::size_t kMostChunks = (1U << (32 - kPlaceBits)) - 1;
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  const std::size_t row_bytes_;
  PagePool* pool_;
  std::vector<std::byte*> chunks_;
  std::uint32_t next_ = 0, end_ = 0;  ///< numbers that the last chunk has left
  std::uint32_t free_ = kNone;        ///< the last one freed; it holds the number of the one before
};

}  // namespace gossamer::optim
