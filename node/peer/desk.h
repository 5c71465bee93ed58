#pragma once
// A Desk hands a peer's state from the thread that runs it to one that asks for a snapshot.
#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "archive.h"
#include "gossamer/node/errors.h"
#include "gossamer/node/peer.h"
#include "replica.h"
#include "worker.h"

namespace gossamer::node {

inline Snapshot snapshot_of(State state) {
  Snapshot snapshot{0, std::vector<float>(parameters_in(state)), to_bytes(state)};
  std::uint64_t before = 0;
  Archive control = Archive::restoring(state).part("control");
  control.value("round", snapshot.round);
  control.value("rounds_before", before);
  snapshot.round += before;
  return snapshot;
}

/// Where one thread asks for a snapshot and the run's thread hands it over.
class Desk {
 public:
  /// Waits for it. Throws Error where the run ends first.
  State ask(Round after) {
    std::unique_lock lock(mutex_);
    turned_.wait(lock, [this] { return stage_ == Stage::none || ended_; });
    if (ended_) end();
    stage_ = Stage::wanted;
    after_ = after;
    turned_.wait(lock, [this] { return stage_ == Stage::there || ended_; });
    if (stage_ != Stage::there) end();
    stage_ = Stage::none;
    turned_.notify_all();
    return std::move(state_);
  }
  /// The run's thread, whenever something happened.
  void turn(Worker& worker) {
    const std::lock_guard lock(mutex_);
    const bool waits = stage_ == Stage::held || stage_ == Stage::saving;
    if (waits && worker_ != worker.number())
      stage_ = Stage::wanted;  // a view ended, and what it would answer
    if (stage_ == Stage::wanted) {
      worker_ = worker.number();
      worker.hold_after(std::max(after_, worker.rounds() + 1));
      stage_ = Stage::held;
    }
    if (stage_ == Stage::held && worker.holds()) {
      stage_ = Stage::saving;
      worker.save();
    }
    if (stage_ == Stage::saved) {
      stage_ = Stage::there;
      worker.resume();
      turned_.notify_all();
    }
  }
  void saved(State state) {
    const std::lock_guard lock(mutex_);
    state_ = std::move(state);
    stage_ = Stage::saved;
  }
  void run_ended() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    turned_.notify_all();
  }

 private:
  enum class Stage { none, wanted, held, saving, saved, there };
  [[noreturn]] static void end() {
    throw Error(Error::Code::misuse, "the run ended before the round of which a snapshot was asked for");
  }

  std::mutex mutex_;
  std::condition_variable turned_;
  Stage stage_ = Stage::none;
  Round after_ = 0;
  std::uint64_t worker_ = 0;  ///< that was told to hold
  bool ended_ = false;
  State state_;
};

}  // namespace gossamer::node
