#pragma once
// Reads and parses ahead: blocks of samples in the order of their text, whichever thread parsed them.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "line_format.h"
#include "sample_block.h"
#include "text.h"

namespace gossamer::optim {

/// Bytes of text and samples that are held, and the most that ever were. Thread-safe.
class MemoryMeter {
 public:
  void add(std::size_t bytes) {
    const std::uint64_t now = held_.fetch_add(bytes) + bytes;
    std::uint64_t most = most_.load();
    while (now > most && !most_.compare_exchange_weak(most, now)) {
    }
  }
  void remove(std::size_t bytes) { held_.fetch_sub(bytes); }
  std::uint64_t held() const { return held_; }
  std::uint64_t most() const { return most_; }

 private:
  std::atomic<std::uint64_t> held_{0}, most_{0};
};

class BlockQueue {
 public:
  /// Holds at most `memory` bytes of text and blocks that next() has not given out. threads = 0: next() reads
  /// and parses.
  BlockQueue(const SampleStreamSpec& spec, std::size_t memory, MemoryMeter& meter);
  ~BlockQueue();
  BlockQueue(const BlockQueue&) = delete;
  BlockQueue& operator=(const BlockQueue&) = delete;

  enum class Found { block, nothing_yet, end };
  using Clock = std::chrono::steady_clock;
  /// The next block, whose bytes() the caller takes off the meter once it is gone; waits no longer than
  /// `deadline`, if there is one. What reading threw is thrown in its turn, and by every later call.
  Found next(std::optional<Clock::time_point> deadline, std::unique_ptr<SampleBlock>& block);
  /// Of what has not been parsed yet.
  void share_anew(const SampleStreamSpec& spec);

 private:
  struct Ready {
    std::unique_ptr<SampleBlock> block;
    std::exception_ptr error;
  };
  struct Piece {
    TextPiece text{};
    std::uint64_t turn = 0;
    std::size_t entries = 0, reserved = 0;  ///< at most; bytes
  };
  void work();
  std::optional<Piece> read(bool wait);
  bool step(bool wait);
  bool reserve(std::size_t bytes, std::size_t own);
  void release(std::size_t bytes);
  std::unique_ptr<SampleBlock> parse(Piece& piece);
  void deliver(std::uint64_t turn, Ready ready);
  void pause(Clock::time_point until);
  std::shared_ptr<const SampleShare> share();

  std::size_t memory_, piece_bytes_;
  MemoryMeter& meter_;
  std::atomic<bool> stop_{false};
  std::unique_ptr<LineFormat> format_;
  std::unique_ptr<TextSource> text_;

  std::mutex reading_;  ///< whoever has it reads the next piece
  std::uint64_t read_ = 0;
  bool ended_ = false;

  std::mutex mutex_;  ///< of what follows
  std::condition_variable changed_;
  std::shared_ptr<const SampleShare> share_;
  std::size_t reserved_ = 0;
  std::map<std::uint64_t, Ready> ready_;  ///< by turn
  std::uint64_t turn_ = 0;                ///< of the next block to give out
  std::optional<std::uint64_t> end_;      ///< the turn after the last
  std::vector<std::jthread> threads_;
};

}  // namespace gossamer::optim
