#include "gossamer/compress/threads.h"

#include <stdexcept>

namespace gossamer::compress {
namespace {

/// Looks at `done` for a while before it sleeps: one layer takes less time than waking a thread.
template <class Done>
bool spin_until(const Done& done) {
  constexpr int kLooks = 20000;
  for (int i = 0; i < kLooks; ++i) {
    if (done()) return true;
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
  }
  return false;
}

}  // namespace

Threads::Threads(std::size_t count) : shares_(count) {
  if (count == 0) throw std::invalid_argument("a team of 0 threads; expected at least 1, the caller");
  for (std::size_t thread = 1; thread < count; ++thread)
    helpers_.emplace_back([this, thread] { help(thread); });
}

Threads::~Threads() {
  stop_ = true;
  jobs_.fetch_add(1);
  jobs_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

void Threads::run(const Job& job) {
  job_ = job;
  failed_ = nullptr;
  failed_piece_.store(job.pieces, std::memory_order_relaxed);
  std::size_t start = 0;
  for (std::size_t thread = 0; thread < shares_.size(); ++thread) {
    shares_[thread].next.store(start, std::memory_order_relaxed);
    start += job.pieces / shares_.size() + (thread < job.pieces % shares_.size() ? 1 : 0);
    shares_[thread].end = start;
  }
  state_.store(kOpen, std::memory_order_release);
  jobs_.fetch_add(1, std::memory_order_release);
  jobs_.notify_all();
  take_pieces(0);
  state_.fetch_and(~kOpen, std::memory_order_acq_rel);
  if (!spin_until([this] { return state_.load(std::memory_order_acquire) == 0; })) {
    for (std::uint32_t busy; (busy = state_.load(std::memory_order_acquire)) != 0;) state_.wait(busy);
  }
  if (failed_) std::rethrow_exception(failed_);
}

void Threads::help(std::size_t thread) {
  for (std::uint32_t seen = 0;;) {
    const auto changed = [&] { return jobs_.load(std::memory_order_acquire) != seen; };
    if (!spin_until(changed)) jobs_.wait(seen, std::memory_order_acquire);
    seen = jobs_.load(std::memory_order_acquire);
    if (stop_) return;
    if (!join()) continue;
    take_pieces(thread);
    if (state_.fetch_sub(1, std::memory_order_acq_rel) == 1) state_.notify_one();
  }
}

/// Whether there is a job still open; it may be a later one than that which woke the helper.
bool Threads::join() {
  std::uint32_t state = state_.load(std::memory_order_relaxed);
  while ((state & kOpen) != 0) {
    if (state_.compare_exchange_weak(state, state + 1, std::memory_order_acquire, std::memory_order_relaxed))
      return true;
  }
  return false;
}

void Threads::take_pieces(std::size_t thread) {
  for (std::size_t i = 0; i < shares_.size(); ++i) {
    Share& share = shares_[(thread + i) % shares_.size()];
    for (std::size_t piece; (piece = share.next.fetch_add(1, std::memory_order_relaxed)) < share.end;) {
      if (piece > failed_piece_.load(std::memory_order_relaxed)) break;
      try {
        job_.call(job_.work, piece, thread);
      } catch (...) {
        const std::lock_guard lock(failure_);
        if (piece >= failed_piece_.load(std::memory_order_relaxed)) continue;
        failed_ = std::current_exception();
        failed_piece_.store(piece, std::memory_order_relaxed);
      }
    }
  }
}

}  // namespace gossamer::compress
