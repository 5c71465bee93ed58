#include "gossamer/optim/large_vector.h"

#include <sys/mman.h>

#include <cstdint>

namespace gossamer::optim {

void prefer_huge_pages(void* at, std::size_t bytes) noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(at);
  const std::size_t before = (kHugePage - begin % kHugePage) % kHugePage;
  if (before < bytes) madvise(static_cast<std::byte*>(at) + before, bytes - before, MADV_HUGEPAGE);
}

}  // namespace gossamer::optim
