#include "pages.h"

#include <sys/mman.h>

#include <cassert>
#include <cstdint>
#include <new>
#include <utility>

#include "gossamer/optim/large_vector.h"

namespace gossamer::optim {
namespace {

constexpr std::size_t kPoolHugeFrom = 4 * kHugePage;  // what is taken in advance is then a fourth at most

std::byte* map_zeroed(std::size_t bytes) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return at == MAP_FAILED ? nullptr : static_cast<std::byte*>(at);
}

/// Starts at a huge page: what lies around it is unmapped again, so that no more than `bytes` can be
/// resident.
std::byte* map_aligned(std::size_t bytes) {
  std::byte* at = map_zeroed(bytes + kHugePage);
  if (!at) return nullptr;
  const std::size_t before = (kHugePage - reinterpret_cast<std::uintptr_t>(at) % kHugePage) % kHugePage;
  if (before > 0) munmap(at, before);
  munmap(at + before + bytes, kHugePage - before);
  prefer_huge_pages(at + before, bytes);
  return at + before;
}

}  // namespace

bool Budget::take(std::size_t bytes) {
  std::size_t used = used_;
  do {
    if (limit_ != 0 && (used > limit_ || bytes > limit_ - used)) return false;
  } while (!used_.compare_exchange_weak(used, used + bytes));
  std::size_t peak = peak_;
  while (peak < used + bytes && !peak_.compare_exchange_weak(peak, used + bytes)) {
  }
  return true;
}

Pages::Pages(Budget& budget, std::size_t bytes) {
  assert(bytes > 0 && bytes % kPage == 0);
  if (!budget.take(bytes)) return;
  data_ = bytes >= kHugePage ? map_aligned(bytes) : map_zeroed(bytes);
  if (!data_) {
    budget.give(bytes);
    throw std::bad_alloc();
  }
  budget_ = &budget;
  size_ = bytes;
}

Pages::Pages(Pages&& other) noexcept { *this = std::move(other); }

Pages& Pages::operator=(Pages&& other) noexcept {
  std::swap(budget_, other.budget_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Pages::~Pages() {
  if (!data_) return;
  munmap(data_, size_);
  budget_->give(size_);
}

std::byte* PagePool::keep(Pages pages) {
  if (!pages.data()) return nullptr;
  taken_ += pages.size();
  pages_.push_back(std::move(pages));
  return pages_.back().data();
}

std::byte* PagePool::take(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes > kHugePage || taken_ < kPoolHugeFrom) return keep(Pages(budget_, bytes));
  if (bytes > rest_bytes_) {
    std::byte* const huge = keep(Pages(budget_, kHugePage));
    if (!huge) return keep(Pages(budget_, bytes));
    rest_ = huge;
    rest_bytes_ = kHugePage;
  }
  rest_bytes_ -= bytes;
  return std::exchange(rest_, rest_ + bytes);
}

}  // namespace gossamer::optim
