#pragma once
// A FrameQueue holds frames that wait to leave over one connection.
#include <array>
#include <cassert>
#include <cstdint>
#include <deque>
#include <utility>

#include "frame.h"
#include "priority.h"

namespace gossamer::node {

class FrameQueue {
 public:
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  std::size_t size(std::uint32_t priority) const { return frames_[priority].size(); }
  std::size_t bytes() const { return bytes_; }

  void put(FrameBytes frame, std::uint32_t priority) {
    assert(priority < frames_.size());
    ++size_;
    bytes_ += frame.size();
    frames_[priority].push_back(std::move(frame));
  }
  /// The one that leaves next; there is one.
  const FrameBytes& front() const { return frames_[first()].front(); }
  void pop() { drop_oldest(first()); }
  /// Of those of that priority, of which there is one.
  void drop_oldest(std::uint32_t priority) {
    --size_;
    bytes_ -= frames_[priority].front().size();
    frames_[priority].pop_front();
  }
  /// What was meant for a view is of no use in the next one.
  void drop_parcels() {
    for (const std::uint32_t priority : {priority::kResent, priority::kMessages})
      while (!frames_[priority].empty()) drop_oldest(priority);
  }

 private:
  std::uint32_t first() const {
    std::uint32_t priority = 0;
    while (frames_[priority].empty()) ++priority;
    return priority;
  }
  std::array<std::deque<FrameBytes>, priority::kMessages + 1> frames_;
  std::size_t size_ = 0, bytes_ = 0;
};

}  // namespace gossamer::node
