#pragma once
// A Shard is the part of a table whose mixed keys begin with the same bits: a map, rows, a filter, a lock.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <shared_mutex>
#include <span>
#include <vector>

#include "bucket_map.h"
#include "prefetch.h"
#include "row_optimizer.h"
#include "sightings.h"
#include "slab.h"

namespace gossamer::optim {

/// What a row is made of, in words of 4 bytes: what the optimiser keeps, then shows and clicks, version, and
/// the step that touched it last, each where it is kept.
struct RowShape {
  /// Words up to which a row stands in the map itself.
  static constexpr std::size_t kMostInside = BucketMap::kMostValueBytes / sizeof(float);
  explicit RowShape(const TableSpec& spec);
  bool inside() const { return words <= kMostInside; }
  std::size_t bytes() const { return words * sizeof(float); }
  std::uint32_t version(const float* row) const { return versions ? word(row, version_at) : 0; }
  /// Of a row touched at `touched`: how many steps ago. Another thread's step may be later than `now`.
  std::uint32_t age(const float* row, std::uint32_t now) const {
    const std::uint32_t age = touches ? now - word(row, touched_at) : 0;
    return static_cast<std::int32_t>(age) < 0 ? 0 : age;
  }
  void touch(float* row, std::uint32_t now) const {
    if (touches) set_word(row, touched_at, now);
  }
  bool zero(const float* row) const { return optimizer->zero(row, width); }
  static std::uint32_t word(const float* row, std::size_t at) {
    return std::bit_cast<std::uint32_t>(row[at]);
  }
  static void set_word(float* row, std::size_t at, std::uint32_t value) {
    std::memcpy(row + at, &value, sizeof value);
  }

  const RowOptimizerPart* part;
  std::unique_ptr<RowOptimizer> optimizer;
  std::size_t width, floats, words;  ///< floats: the optimiser's
  bool statistics, versions, touches;
  std::size_t shows_at = 0, version_at = 0, touched_at = 0;  ///< clicks follow shows
};

/// As std::shared_mutex, but that readers let a writer pass who waits: pulls without a pause would otherwise
/// keep pushes waiting for ever, where the system's lock prefers readers.
class FairMutex {
 public:
  void lock() {
    ++waiting_;
    mutex_.lock();
    if (--waiting_ == 0) waiting_.notify_all();
  }
  void unlock() { mutex_.unlock(); }
  void lock_shared() {
    while (const unsigned waiting = waiting_) waiting_.wait(waiting);
    mutex_.lock_shared();
  }
  void unlock_shared() { mutex_.unlock_shared(); }

 private:
  std::shared_mutex mutex_;
  std::atomic<unsigned> waiting_{0};
};

/// How often a key is to be seen until it gets a row: more often while memory is short. Any thread.
class Admission {
 public:
  Admission(unsigned wanted, const Budget& budget) : wanted_(wanted), asked_(wanted), budget_(&budget) {}
  unsigned asked() const { return asked_.load(std::memory_order_relaxed); }
  unsigned tightened() const { return tightened_; }
  void memory_taken();
  void rows_evicted(std::size_t evicted, std::size_t all_rows);
  void rows_swept();

 private:
  void tighten();
  const unsigned wanted_;
  std::atomic<unsigned> asked_, tightened_{0};
  std::atomic<std::size_t> evicted_{0};
  const Budget* budget_;
};

struct ShardCounts {
  std::uint64_t admitted = 0, waiting = 0, no_room = 0, evicted_old = 0, evicted_zero = 0, evicted_full = 0;
};

/// The words of the row at a place.
inline float* row_at(std::byte* place) { return reinterpret_cast<float*>(place); }
inline const float* row_at(const std::byte* place) { return reinterpret_cast<const float*>(place); }

/// As memcpy, which for a few words takes longer to call than to do.
inline void copy_words(float* to, const float* from, std::size_t words) {
  constexpr std::size_t kFour = 4;
  std::size_t at = 0;
  for (; at + kFour <= words; at += kFour) std::memcpy(to + at, from + at, kFour * sizeof(float));
  if (at < words && at > 0)
    std::memcpy(to + words - kFour, from + words - kFour, kFour * sizeof(float));
  else
    for (; at < words; ++at) to[at] = from[at];
}

/// Callers hold the mutex, shared for what is const. A row's place, as find gives it, holds until the next
/// change, and past rows made later where rows do not stand in the map.
class Shard {
 public:
  Shard(const RowShape& shape, unsigned key_bits, std::size_t shards, std::span<std::uint8_t> filter,
        Admission& admission, Budget& budget, PagePool& pool);
  FairMutex& mutex() const { return mutex_; }
  std::size_t rows() const { return map_.size(); }

  void prefetch(std::uint64_t r) const { map_.prefetch(r); }  ///< needs no lock
  /// Where the row stands; nullptr where there is none. Brings rows outside the map towards the cache.
  std::byte* find(std::uint64_t r) const { return place_found(map_.find(r)); }
  /// The same in parts: those of the map, whose values place_found makes places of.
  const BucketMap& map() const { return map_; }
  std::byte* place_found(const std::byte* value) const {
    if (!value) return nullptr;
    std::byte* const place = place_of(value);
    if (!shape_.inside()) prefetch_row(place);
    return place;
  }
  /// How often places that were found have ceased to hold.
  std::uint64_t moves() const { return moves_; }
  void prefetch_row(const std::byte* place) const {
    constexpr std::size_t kMost = 1024;
    if (place) prefetch_bytes(place, std::min(shape_.bytes(), kMost));
  }
  /// Whether a number without a row has been seen often enough, after `times` more sightings.
  bool admits(std::uint64_t r, std::size_t times);
  /// A place for a row that is missing, its content undefined; nullptr where there is none, which is counted.
  std::byte* make(std::uint64_t r, std::uint32_t now);
  /// use(r, row's words) for all rows from r ≥ first on, in rising order, until it returns false.
  template <class Use>
  void each(std::uint64_t first, const Use& use) const {
    const auto show = [&](std::uint64_t r, const std::byte* value) {
      return use(r, row_at(place_of(value)));
    };
    map_.each(first, show);
  }
  /// Evicts rows untouched for so many steps, and those with zero weights for so many; 0: never.
  std::size_t sweep(std::uint32_t now, std::uint64_t old, std::uint64_t zero);
  ShardCounts counts() const { return counts_; }

 private:
  std::byte* place_of(const std::byte* value) const {
    if (shape_.inside()) return const_cast<std::byte*>(value);  // who may change rows is edit's concern
    std::uint32_t row;
    std::memcpy(&row, value, sizeof row);
    return slab_.row(row);
  }
  bool reclaim(std::uint32_t now);
  template <class Gone>
  void remove(const Gone& gone);

  const RowShape& shape_;
  const std::size_t shards_;
  mutable FairMutex mutex_;
  BucketMap map_;
  Slab slab_;  ///< of rows that do not stand in the map, which then holds their numbers
  Sightings sightings_;
  Admission* admission_;
  bool limited_;
  std::uint32_t nothing_old_at_ = 0;  ///< the last step in which reclaim found only rows of that step
  std::uint64_t moves_ = 0;
  ShardCounts counts_;
};

}  // namespace gossamer::optim
