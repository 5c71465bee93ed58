#pragma once
// Memory straight from the system, counted before it is taken.
#include <atomic>
#include <cstddef>
#include <mutex>
#include <vector>

namespace gossamer::optim {

/// Counts bytes under a limit. Any thread.
class Budget {
 public:
  explicit Budget(std::size_t limit) : limit_(limit) {}  ///< 0: no limit
  /// Whether so many more bytes may be taken; they then count until they are given back.
  bool take(std::size_t bytes);
  void give(std::size_t bytes) { used_ -= bytes; }
  std::size_t limit() const { return limit_; }
  std::size_t used() const { return used_; }
  std::size_t peak() const { return peak_; }  ///< the most ever used

 private:
  const std::size_t limit_;
  std::atomic<std::size_t> used_{0}, peak_{0};
};

/// Zeroed pages of which every byte is counted by a budget; given back to both at the end. Large ones ask the
/// system for huge pages, because a table is read at random places.
class Pages {
 public:
  static constexpr std::size_t kPage = 4096;
  Pages() = default;
  /// bytes: a multiple of kPage. Empty where the budget has no room. Throws std::bad_alloc where the system
  /// has none.
  Pages(Budget& budget, std::size_t bytes);
  Pages(Pages&& other) noexcept;
  Pages& operator=(Pages&& other) noexcept;
  ~Pages();
  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  Budget* budget_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Pages in pieces that many hold and none gives back before the end: once there are many, cut from huge
/// pages, in which memory is found at random places several times as fast. Any thread.
class PagePool {
 public:
  /// The budget outlives the pool.
  explicit PagePool(Budget& budget) : budget_(budget) {}
  /// As Pages, of which the pool stays the owner. nullptr where the budget has no room.
  std::byte* take(std::size_t bytes);

 private:
  std::byte* keep(Pages pages);
  Budget& budget_;
  std::mutex mutex_;
  std::vector<Pages> pages_;
  std::size_t taken_ = 0;      ///< bytes of those
  std::byte* rest_ = nullptr;  ///< of the last huge page
  std::size_t rest_bytes_ = 0;
};

}  // namespace gossamer::optim
