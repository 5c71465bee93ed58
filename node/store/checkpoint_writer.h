#pragma once
// CheckpointWriter writes checkpoints on a thread of its own, one at a time.
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "checkpoint.h"

namespace gossamer::node {

class CheckpointWriter {
 public:
  /// storage outlives it. layers: of the peer's model.
  CheckpointWriter(Storage& storage, const std::filesystem::path& folder, std::vector<optim::Layer> layers);
  /// Waits for what it has been given.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  bool busy() const;
  /// While not busy.
  void write(CheckpointHead head, SharedState state);
  /// Of this peer; after what is being written. What cannot be removed is left.
  void remove(const std::string& peer, std::vector<Round> rounds);
  struct Written {
    Round round = 0;
    std::string error;  ///< empty where it was committed
    std::uint64_t bytes = 0;
    double seconds = 0;
  };
  /// What ended since it was asked last.
  std::vector<Written> take();

 private:
  void loop();
  Written carry_out(const std::pair<CheckpointHead, SharedState>& what);

  CheckpointFolder folder_;
  std::vector<optim::Layer> layers_;
  mutable std::mutex mutex_;
  std::condition_variable turned_;
  struct Task {
    std::optional<std::pair<CheckpointHead, SharedState>> write;
    std::string peer;
    std::vector<Round> remove;
  };
  std::deque<Task> tasks_;
  std::vector<Written> done_;
  bool busy_ = false, ends_ = false;
  std::thread thread_;
};

}  // namespace gossamer::node
