#pragma once
#include <cstddef>

namespace gossamer::compress::cuda {

/// Cuts workspace memory into arrays, each at a multiple of 16 bytes; with no memory, it only counts.
class Arena {
 public:
  explicit Arena(void* memory) : memory_(static_cast<std::byte*>(memory)) {}
  template <class T>
  T* take(std::size_t count) {
    auto* const here = memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_ + bytes_);
    bytes_ += (count * sizeof(T) + 15) / 16 * 16;
    return here;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* memory_;
  std::size_t bytes_ = 0;
};

}  // namespace gossamer::compress::cuda
