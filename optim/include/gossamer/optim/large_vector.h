#pragma once
// Vectors of the size of a model.
#include <cstddef>
#include <new>
#include <vector>

namespace gossamer::optim {

inline constexpr std::size_t kHugePage = std::size_t{1} << 21;

/// Asks the system to back memory that nothing was written to with huge pages: each is one page fault in
/// place of 512, and takes one entry of the processor's table of pages. Advice alone: small pages do as well.
void prefer_huge_pages(void* at, std::size_t bytes) noexcept;

/// Memory on 64-byte boundaries; from two huge pages on it begins with one, and prefers them.
template <class T>
struct LargeAllocator {
  using value_type = T;
  LargeAllocator() = default;
  template <class U>
  LargeAllocator(const LargeAllocator<U>&) noexcept {}

  T* allocate(std::size_t n) {
    if (n > static_cast<std::size_t>(-1) / 2 / sizeof(T)) throw std::bad_array_new_length();
    void* at = ::operator new(n * sizeof(T), alignment(n));
    if (alignment(n) != kLine) prefer_huge_pages(at, n * sizeof(T));
    return static_cast<T*>(at);
  }
  void deallocate(T* at, std::size_t n) noexcept { ::operator delete(at, alignment(n)); }
  template <class U>
  bool operator==(const LargeAllocator<U>&) const noexcept {
    return true;
  }

 private:
  static constexpr std::align_val_t kLine{64};
  static std::align_val_t alignment(std::size_t n) {
    return n * sizeof(T) < 2 * kHugePage ? kLine : std::align_val_t{kHugePage};
  }
};

template <class T>
using LargeVector = std::vector<T, LargeAllocator<T>>;

}  // namespace gossamer::optim
