#pragma once
// Scratch memory that grows to the largest size asked for and is then reused.
#include <cstddef>
#include <memory>
#include <new>
#include <span>

namespace gossamer::optim {

template <class T>
class Scratch {
 public:
  /// n elements, 64-byte aligned, contents undefined; former pointers stay valid while n does not exceed them
  /// all.
  std::span<T> need(std::size_t n) {
    if (n > capacity_) {
      data_.reset(static_cast<T*>(::operator new(n * sizeof(T), kAlignment)));
      capacity_ = n;
    }
    return {data_.get(), n};
  }
  T* data() const { return data_.get(); }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(T* p) const { ::operator delete(p, kAlignment); }
  };
  std::unique_ptr<T, Free> data_;
  std::size_t capacity_ = 0;
};

}  // namespace gossamer::optim
