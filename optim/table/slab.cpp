#include "slab.h"

#include <algorithm>
#include <cstring>

namespace gossamer::optim {
namespace {

constexpr std::size_t kLevelChunks = 64;  // of one size
constexpr std::size_t kUnitBytes = std::size_t{1} << 14;

}  // namespace

Slab::Slab(std::size_t row_bytes, PagePool& pool) : row_bytes_(row_bytes), pool_(&pool) {}

bool Slab::reserve() {
  if (free_ != kNone || next_ != end_) return true;
  const std::size_t chunk = chunks_.size();
  if (chunk == kMostChunks) return false;
  const std::uint64_t unit = std::max<std::uint64_t>(1, kUnitBytes / row_bytes_);
  const std::uint64_t rows = std::min<std::uint64_t>(kMostRows, unit << (2 * (chunk / kLevelChunks)));
  std::byte* const at = pool_->take((rows * row_bytes_ + Pages::kPage - 1) / Pages::kPage * Pages::kPage);
  if (!at) return false;
  chunks_.push_back(at);
  next_ = static_cast<std::uint32_t>(chunk) << kPlaceBits;
  end_ = next_ + static_cast<std::uint32_t>(rows);
  return true;
}

std::uint32_t Slab::take() {
  if (free_ == kNone) return next_++;
  const std::uint32_t taken = free_;
  std::memcpy(&free_, row(taken), sizeof free_);
  return taken;
}

void Slab::free(std::uint32_t number) {
  std::memcpy(row(number), &free_, sizeof free_);
  free_ = number;
}

}  // namespace gossamer::optim
