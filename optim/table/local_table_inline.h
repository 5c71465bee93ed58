#pragma once
// What the table's calls share: the order of their keys, the shards that they hold.
#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "local_table.h"
#include "random.h"

namespace gossamer::optim {

inline constexpr std::size_t kAhead = 24;  // keys looked up ahead of the one that is read
inline constexpr std::size_t kKeysAtOnce =
    512;                                       // for which shards are held, and that stay in the first cache
inline constexpr std::size_t kManyKeys = 256;  // of one call: all shards are held
inline constexpr std::uint64_t kTurn = 5;      // odd: from call to call, every shard is the first
inline constexpr std::size_t kHeld = 16;       // rows outside the map brought near at a time
/// Keys whose memory is asked for one right after the other. A request waits for the translation of its
/// address, and keeps what follows waiting: only of requests that stand close together do many wait at the
/// same time.
inline constexpr std::size_t kBurst = 64;

/// Holds some of the shards for reading. Others that hold more than one take them in this order too, and who
/// changes a shard holds no other: nobody waits in a circle.
class SharedLocks {
 public:
  SharedLocks(std::span<const std::unique_ptr<Shard>> shards, std::uint64_t which)
      : shards_(shards), which_(which) {
    for_each([](const Shard& shard) { shard.mutex().lock_shared(); });
  }
  ~SharedLocks() {
    for_each([](const Shard& shard) { shard.mutex().unlock_shared(); });
  }
  SharedLocks(const SharedLocks&) = delete;
  SharedLocks& operator=(const SharedLocks&) = delete;

 private:
  template <class Use>
  void for_each(const Use& use) const {
    for (std::uint64_t left = which_; left != 0; left &= left - 1)
      use(*shards_[static_cast<std::size_t>(std::countr_zero(left))]);
  }
  const std::span<const std::unique_ptr<Shard>> shards_;
  const std::uint64_t which_;
};

class LocalTable::Order {
 public:
  explicit Order(const LocalTable& table) : table_(table) {
    const std::lock_guard lock(table.idle_mutex_);
    if (table.idle_.empty()) {
      order_ = std::make_unique<BatchOrder>();
    } else {
      order_ = std::move(table.idle_.back());
      table.idle_.pop_back();
    }
  }
  ~Order() {
    const std::lock_guard lock(table_.idle_mutex_);
    table_.idle_.push_back(std::move(order_));
  }
  BatchOrder* operator->() const { return order_.get(); }

 private:
  const LocalTable& table_;
  std::unique_ptr<BatchOrder> order_;
};

inline void LocalTable::prefetch(std::span<const MixedKey> sorted, std::size_t i) const {
  if (i < sorted.size()) prefetch(sorted[i].mixed);
}

template <class Use>
void LocalTable::for_runs(std::span<const MixedKey> sorted, const Use& use) const {
  // each call begins at another shard, so that threads do not all wait for the same ones
  const std::uint64_t turn = (turns_.fetch_add(1, std::memory_order_relaxed) * kTurn) % shards_.size();
  const auto from = std::partition_point(sorted.begin(), sorted.end(),
                                         [&](const MixedKey& key) { return shard_of(key.mixed) < turn; });
  const auto start = static_cast<std::size_t>(from - sorted.begin());
  const auto runs = [&](std::size_t first, std::size_t stop) {
    for (std::size_t i = first; i < std::min(stop, first + kAhead); ++i) prefetch(sorted[i].mixed);
    for (std::size_t end = first; first < stop; first = end) {
      const std::size_t shard = shard_of(sorted[first].mixed);
      while (end < stop && shard_of(sorted[end].mixed) == shard) ++end;
      use(Run{shard, first, end});
    }
  };
  runs(start, sorted.size());
  runs(0, start);
}

template <class Use>
void LocalTable::read(std::span<const std::uint64_t> keys, PulledRows* notes, const Use& use) const {
  std::array<std::uint64_t, kKeysAtOnce> own_mixed;
  std::array<const std::byte*, kKeysAtOnce> own_places;
  std::uint64_t noted = 0;  // shards whose moves are
  for (std::size_t start = 0; start < keys.size(); start += kKeysAtOnce) {
    const std::size_t n = std::min(kKeysAtOnce, keys.size() - start);
    std::uint64_t* const mixed = notes ? notes->keys.data() + start : own_mixed.data();
    const std::byte** const places = notes ? notes->places.data() + start : own_places.data();
    for (std::size_t i = 0; i < n; ++i) mixed[i] = mix(keys[start + i] ^ salt_);
    std::uint64_t touched = ~std::uint64_t{0} >> (64 - shards_.size());  // by many keys mostly all
    if (n < kManyKeys) {
      touched = 0;
      for (std::size_t i = 0; i < n; ++i) touched |= std::uint64_t{1} << shard_of(mixed[i]);
    }
    const SharedLocks locks(shards_, touched);
    if (notes) noted = note_moves(touched, noted, *notes);
    const Block block{n, start, mixed, places};
    if (shape_.inside())
      read_block<true>(block, use);
    else
      read_block<false>(block, use);
  }
}

/// Buckets are asked for a burst ahead of the one that is read. inside: whether rows stand in the map. use is
/// a copy, so that what it holds need not be read again after each write.
template <bool inside, class Use>
void LocalTable::read_block(const Block& block, Use use) const {
  const unsigned shift = 64 - shard_bits_;
  const std::uint64_t numbers = ~std::uint64_t{0} >> shard_bits_;
  const std::uint64_t* const all = block.mixed;
  const auto* const shards = shards_.data();
  std::array<BucketMap::Home, 2 * kBurst> homes;
  const auto seek = [&](std::size_t first) {
    for (std::size_t i = first; i < std::min(block.n, first + kBurst); ++i)
      homes[i % homes.size()] = shards[all[i] >> shift]->map().seek(all[i] & numbers);
  };
  std::array<std::size_t, kBurst> away;  // those to be looked for once more
  seek(0);
  for (std::size_t first = 0; first < block.n; first += kBurst) {
    const std::size_t end = std::min(block.n, first + kBurst);
    seek(end);
    std::size_t aways = 0;
    for (std::size_t i = first; i < end; ++i) {
      const Shard& shard = *shards[all[i] >> shift];
      bool is_away = false;
      std::byte* const value = shard.map().find_home(homes[i % homes.size()], is_away);
      if (is_away) {
        away[aways++] = i;
        continue;
      }
      block.places[i] = inside ? value : shard.place_found(value);
      if (inside) use(shard, value, block.start + i);
    }
    for (const std::size_t i : std::span(away).first(aways)) {
      const Shard& shard = *shards[all[i] >> shift];
      block.places[i] = shard.place_found(shard.map().find_away(homes[i % homes.size()]));
      if (inside) use(shard, block.places[i], block.start + i);
    }
    if (!inside)
      for (std::size_t i = first; i < end; ++i)
        use(*shards[all[i] >> shift], block.places[i], block.start + i);
  }
}

}  // namespace gossamer::optim
