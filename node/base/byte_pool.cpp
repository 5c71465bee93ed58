#include "byte_pool.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

namespace gossamer::node {
namespace {

#if defined(__SANITIZE_ADDRESS__)
#define GOSSAMER_WATCHED  // by a sanitizer, which is to see that nobody reads a block that is free
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GOSSAMER_WATCHED
#endif
#endif

/// Smaller blocks are the allocator's business.
constexpr std::size_t kLine = 64, kLeast = 4096;
/// Of blocks that nobody reads, at most so many bytes are kept.
#ifdef GOSSAMER_WATCHED
constexpr std::size_t kMostFree = 0;
#else
constexpr std::size_t kMostFree = std::size_t{128} << 20;
#endif

struct Drop {
  void operator()(std::byte* block) const { ::operator delete[](block, std::align_val_t{kLine}); }
};
using Memory = std::unique_ptr<std::byte[], Drop>;

class Pool {
 public:
  Memory take(std::size_t size) {
    {
      const std::lock_guard lock(mutex_);
      if (auto block = free_.take(size)) return std::move(*block);
    }
    return Memory(static_cast<std::byte*>(::operator new[](size, std::align_val_t{kLine})));
  }
  void give_back(Memory block, std::size_t size) noexcept try {
    std::vector<Memory> gone;  // is freed without the lock
    const std::lock_guard lock(mutex_);
    gone = free_.give_back(std::move(block), size);
  } catch (const std::bad_alloc&) {  // then it is not kept
  }

 private:
  std::mutex mutex_;
  FreeBlocks<Memory> free_{kMostFree};
};

/// Never ends: threads may have blocks when the program ends.
Pool& pool() {
  static Pool* const all = new Pool;
  return *all;
}

}  // namespace

std::size_t size_class(std::size_t bytes) {
  if (bytes < kLeast) return bytes;
  const std::size_t grain = std::bit_floor(bytes) / 8;
  return (bytes + grain - 1) / grain * grain;
}

ByteBlock take_block(std::size_t bytes) {
  const std::size_t size = size_class(bytes);
  if (size < kLeast) {
    std::shared_ptr<std::byte[]> small(new std::byte[std::max<std::size_t>(size, 1)]);
    const std::span<std::byte> all(small.get(), size);
    return {std::move(small), all};
  }
  std::byte* const block = pool().take(size).release();
  return {{block, [size](std::byte* b) { pool().give_back(Memory(b), size); }}, {block, size}};
}

}  // namespace gossamer::node
