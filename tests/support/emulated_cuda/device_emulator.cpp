#include "device_emulator.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

#include "fiber.h"
#include "streams.h"

namespace gossamer::emulated {
namespace {

constexpr std::size_t kResident = 3;  ///< blocks that run at once
constexpr std::size_t kStack = std::size_t{1} << 17;
constexpr unsigned kWarp = 32;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "emulated CUDA device: %s\n", what.c_str());
  std::abort();
}

struct Block;
struct Warp;

struct Fiber {
  FiberStack stack{kStack};
  Place place;
  Block* block = nullptr;
  Warp* warp = nullptr;
};

struct Warp {
  const char* kind = nullptr;
  std::vector<Fiber*> waiting;
  std::array<std::uint64_t, kWarp> values{}, complete{};
  bool exited = false;  ///< some lane has ended
};

struct Block {
  std::vector<Warp> warps;
  std::vector<Fiber*> waiting;  ///< at the barrier
  std::size_t alive = 0;
  std::map<const void*, std::unique_ptr<std::byte[]>> shared;
};

/// All state of the one emulated device.
class Device {
 public:
  void seed(std::uint64_t seed) { random_.seed(seed); }

  void run(std::size_t blocks, unsigned threads, const std::function<void()>& body) {
    if (blocks == 0 || blocks > 0x7fffffffu) fail("a grid of " + std::to_string(blocks) + " blocks");
    if (threads == 0 || threads > 1024 || threads % kWarp != 0)
      fail("a block of " + std::to_string(threads) + " threads");
    if (current_ != nullptr) fail("a kernel launched by a kernel");
    body_ = &body;
    blocks_ = blocks;
    threads_ = threads;
    // Blocks start in an order that is near, but not quite, ascending, as on a device.
    std::vector<std::size_t> order(blocks);
    for (std::size_t b = 0; b < blocks; ++b) order[b] = b;
    for (std::size_t b = 0; b < blocks; b += 8)
      std::shuffle(order.begin() + static_cast<std::ptrdiff_t>(b),
                   order.begin() + static_cast<std::ptrdiff_t>(std::min(b + 8, blocks)), random_);
    std::size_t next = 0;
    while (next < blocks || !resident_.empty()) {
      while (next < blocks && resident_.size() < kResident) start(order[next++]);
      step();
    }
  }

  Fiber& current() {
    if (current_ == nullptr) fail("a device function called outside a kernel");
    return *current_;
  }

  void make_ready(std::vector<Fiber*>& fibers) {
    ready_.insert(ready_.end(), fibers.begin(), fibers.end());
    fibers.clear();
  }
  void make_ready(Fiber* fiber) { ready_.push_back(fiber); }

  /// Leaves the current fiber until it is made ready.
  void leave() { current_->stack.leave(scheduler_); }

 private:
  void start(std::size_t index) {
    auto block = std::make_unique<Block>();
    block->warps.resize(threads_ / kWarp);
    block->alive = threads_;
    for (unsigned t = 0; t < threads_; ++t) {
      Fiber* const fiber = take_fiber();
      fiber->place = {{t, 0, 0},
                      {static_cast<unsigned>(index), 0, 0},
                      {threads_, 1, 1},
                      {static_cast<unsigned>(blocks_), 1, 1}};
      fiber->block = block.get();
      fiber->warp = &block->warps[t / kWarp];
      fiber->stack.start_at(&Device::enter);
      ready_.push_back(fiber);
    }
    resident_.push_back(std::move(block));
  }

  void step() {
    if (ready_.empty()) fail("every thread waits for one that never comes to the barrier");
    std::swap(ready_[random_() % ready_.size()], ready_.back());
    current_ = ready_.back();
    ready_.pop_back();
    current_->stack.enter(scheduler_);
    if (ended_) end(current_);
    ended_ = false;
    current_ = nullptr;
  }

  void end(Fiber* fiber) {
    Block* const block = fiber->block;
    if (!fiber->warp->waiting.empty())
      fail(std::string("a lane ended while others wait in ") + fiber->warp->kind);
    fiber->warp->exited = true;
    free_.push_back(fiber);
    if (--block->alive == 0) {
      std::erase_if(resident_, [&](const auto& b) { return b.get() == block; });
    } else if (block->waiting.size() == block->alive) {
      make_ready(block->waiting);
    }
  }

  Fiber* take_fiber() {
    if (free_.empty()) {
      fibers_.push_back(std::make_unique<Fiber>());
      return fibers_.back().get();
    }
    Fiber* const fiber = free_.back();
    free_.pop_back();
    return fiber;
  }

  static void enter();

  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> free_, ready_;
  std::vector<std::unique_ptr<Block>> resident_;
  const std::function<void()>* body_ = nullptr;
  std::size_t blocks_ = 0;
  unsigned threads_ = 0;
  Fiber* current_ = nullptr;
  bool ended_ = false;
  Scheduler scheduler_;
};

Device& device() {
  static Device one;
  return one;
}

void Device::enter() {
  Device& d = device();
  d.current_->stack.entered();
  (*d.body_)();
  d.ended_ = true;
  d.leave();
}

}  // namespace

const Place& place() { return device().current().place; }

void set_seed(std::uint64_t seed) {
  drain_streams();
  device().seed(seed);
  seed_streams(seed);
}

/// One grid at a time, whichever thread has it run.
void run_grid(std::size_t blocks, unsigned threads, const std::function<void()>& body) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  device().run(blocks, threads, body);
}

void* shared(const void* id, std::size_t bytes) {
  auto& memory = device().current().block->shared[id];
  if (memory == nullptr) {
    memory = std::make_unique<std::byte[]>(bytes);
    std::memset(memory.get(), 0xa5, bytes);
  }
  return memory.get();
}

void pause() {
  device().make_ready(&device().current());
  device().leave();
}

void wait_for_block() {
  Block& block = *device().current().block;
  block.waiting.push_back(&device().current());
  if (block.waiting.size() == block.alive) device().make_ready(block.waiting);
  device().leave();
}

const std::uint64_t* exchange_in_warp(const char* kind, unsigned mask, std::uint64_t value) {
  Fiber& self = device().current();
  Warp& warp = *self.warp;
  if (mask != 0xffffffffu || warp.exited) fail(std::string(kind) + " by a part of a warp");
  if (!warp.waiting.empty() && std::strcmp(warp.kind, kind) != 0)
    fail(std::string("lanes of one warp meet in ") + kind + " and " + warp.kind);
  warp.kind = kind;
  warp.values[self.place.thread.x % kWarp] = value;
  warp.waiting.push_back(&self);
  // The values stay until all lanes are here again, and so until all have read them.
  if (warp.waiting.size() == kWarp) {
    warp.complete = warp.values;
    device().make_ready(warp.waiting);
  }
  device().leave();
  return warp.complete.data();
}

}  // namespace gossamer::emulated
