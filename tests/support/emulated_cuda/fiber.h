#pragma once
// A stack of its own to run on. Switching is by setjmp, without a system call; where AddressSanitizer watches
// by swapcontext, and it is told.
#include <setjmp.h>
#include <ucontext.h>

#include <cstddef>
#include <memory>

#if defined(__SANITIZE_ADDRESS__)
#define GOSSAMER_FIBERS_WATCHED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GOSSAMER_FIBERS_WATCHED
#endif
#endif
#ifdef GOSSAMER_FIBERS_WATCHED
#include <sanitizer/common_interface_defs.h>
#endif

namespace gossamer::emulated {

/// Where fibers return to; one for all of them.
struct Scheduler {
  ucontext_t context;
  jmp_buf jump;
};

class FiberStack {
 public:
  explicit FiberStack(std::size_t bytes)
      : memory_(std::make_unique_for_overwrite<std::byte[]>(bytes)), bytes_(bytes) {}

  /// entry is called when it is next entered; it must not return.
  [[gnu::noinline]] void start_at(void (*entry)()) {
    getcontext(&context_);
    context_.uc_stack.ss_sp = memory_.get();
    context_.uc_stack.ss_size = bytes_;
    context_.uc_link = nullptr;
    makecontext(&context_, entry, 0);
    started_ = false;
  }

#ifdef GOSSAMER_FIBERS_WATCHED
  /// By the scheduler: goes on where the fiber left, and returns when it leaves.
  void enter(Scheduler& scheduler) {
    __sanitizer_start_switch_fiber(&scheduler_fake_, memory_.get(), bytes_);
    swapcontext(&scheduler.context, &context_);
    __sanitizer_finish_switch_fiber(scheduler_fake_, nullptr, nullptr);
  }
  /// By the fiber, as the first thing that entry does.
  void entered() { __sanitizer_finish_switch_fiber(fake_, &scheduler_stack_, &scheduler_bytes_); }
  void leave(Scheduler& scheduler) {
    __sanitizer_start_switch_fiber(&fake_, scheduler_stack_, scheduler_bytes_);
    swapcontext(&context_, &scheduler.context);
    entered();
  }

 private:
  void* fake_ = nullptr;
  void* scheduler_fake_ = nullptr;
  const void* scheduler_stack_ = nullptr;
  std::size_t scheduler_bytes_ = 0;
#else
  [[gnu::noinline]] void enter(Scheduler& scheduler) {
    if (_setjmp(scheduler.jump) != 0) return;
    if (started_) _longjmp(jump_, 1);
    started_ = true;
    setcontext(&context_);
  }
  void entered() {}
  [[gnu::noinline]] void leave(Scheduler& scheduler) {
    if (_setjmp(jump_) == 0) _longjmp(scheduler.jump, 1);
  }

 private:
  jmp_buf jump_;
#endif

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::size_t bytes_;
  ucontext_t context_;
  bool started_ = false;
};

}  // namespace gossamer::emulated
