#include "slab.h"

#include <algorithm>
#include <cstring>

namespace gossamer::optim {

Slab::Slab(std::size_t row_bytes, PagePool& pool)
    : row_bytes_(row_bytes),
      unit_rows_(static_cast<std::uint32_t>(std::max<std::size_t>(1, kUnitBytes / row_bytes))),
      pool_(&pool) {}

bool Slab::reserve() {
  if (free_ != kNone || made_ < room_) return true;
  const std::uint64_t rows = std::uint64_t{unit_rows_} << (2 * (chunks_.size() / kLevelChunks));
  if (room_ + rows >= kNone) return false;
  std::byte* const chunk = pool_->take((rows * row_bytes_ + Pages::kPage - 1) / Pages::kPage * Pages::kPage);
  if (!chunk) return false;
  chunks_.push_back(chunk);
  room_ += static_cast<std::uint32_t>(rows);
  return true;
}

std::uint32_t Slab::take() {
  if (free_ == kNone) return made_++;
  const std::uint32_t taken = free_;
  std::memcpy(&free_, row(taken), sizeof free_);
  return taken;
}

void Slab::free(std::uint32_t number) {
  std::memcpy(row(number), &free_, sizeof free_);
  free_ = number;
}

}  // namespace gossamer::optim
