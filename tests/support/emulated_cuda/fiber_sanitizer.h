#pragma once
// The stack of a fiber, and what AddressSanitizer is told when one is entered and left.
#include <cstddef>
#include <memory>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace gossamer::emulated {

class FiberStack {
 public:
  void allocate(std::size_t bytes) {
    memory_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
    bytes_ = bytes;
  }
  std::byte* data() const { return memory_.get(); }
  std::size_t size() const { return bytes_; }

#if defined(__SANITIZE_ADDRESS__)
  void before_entering() { __sanitizer_start_switch_fiber(&scheduler_fake_, memory_.get(), bytes_); }
  void after_entering() { __sanitizer_finish_switch_fiber(fake_, &scheduler_, &scheduler_bytes_); }
  void before_leaving() { __sanitizer_start_switch_fiber(&fake_, scheduler_, scheduler_bytes_); }
  void after_leaving() { __sanitizer_finish_switch_fiber(scheduler_fake_, nullptr, nullptr); }

 private:
  void* fake_ = nullptr;
  void* scheduler_fake_ = nullptr;
  const void* scheduler_ = nullptr;
  std::size_t scheduler_bytes_ = 0;
#else
  void before_entering() {}
  void after_entering() {}
  void before_leaving() {}
  void after_leaving() {}
#endif

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::size_t bytes_ = 0;
};

}  // namespace gossamer::emulated
