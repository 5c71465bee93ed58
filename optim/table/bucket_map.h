#pragma once
// A BucketMap holds 4, 8 or 12 bytes by a number r of n bits, in buckets of one cache line each, of two where
// values are of 12 bytes, and stores fewer than n bits of each r: a lookup reads one bucket, seldom two.
//
// There are B buckets; r belongs at home in bucket h = ⌊r·inverse/2⁶⁴⁺ᵏ⌋ with step = ⌈2ⁿ/B⌉, inverse =
// ⌊2⁶⁴⁺ᵏ/step⌋ and 2ᵏ near step, which is ⌊r/step⌋ or, where r is a multiple of step or nearly so, one less:
// its place says what its high bits are (quotienting, Cleary: Compact Hash Tables Using Bidirectional Linear
// Probing, 1984) and a slot stores the remainder r - h·step ≤ step + 1 only. Where its home is full, r stands
// in the one other bucket that home and remainder name (a cuckoo table of buckets: Dietzfelbinger, Weidling:
// Balanced Allocation and Dictionaries with Tightly Packed Constant Size Bins, 2007; the other bucket as in
// Fan, Andersen, Kaminsky, Mitzenmacher: Cuckoo Filter, CoNEXT 2014, section 3.1), and one bit of its slot
// says so; both places full, another number makes way for it. The other bucket lies in the same group of
// kGroup buckets, so that the numbers of a group are a stretch of all, and the map can be gone through in
// rising order.
//
// A bucket of s slots holds s times 32 low bits of remainders, then s values, and at its end s times what
// remainders have beyond 32 bits and the bit for "not at home", a few slots' to a word. With values of 4
// bytes 41 bits make s = 7, 53 bits 6, 63 bits 5: the more buckets, the fewer bits; with those of 8 bytes s
// is 4, of 12 bytes 7 with 48 bits, 6 with 63. The bucket's last bit says whether any number was ever turned
// away from this home: if not, it is the only one that a search for a missing number reads.
//
// It grows by a sixteenth part at a time, when it is nearly nine tenths full, into new pages: with many maps
// (a table's shards), one growing at a time, little is ever held twice.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "pages.h"

namespace gossamer::optim {

/// One thread at a time while anything is changed; several may read. Pointers to values hold until the next
/// change.
class BucketMap {
 public:
  static constexpr unsigned kMostKeyBits = 62;
  static constexpr std::size_t kMostValueBytes = 12;

  /// key_bits: n ≤ kMostKeyBits. value_bytes: 4, 8 or 12. The budget outlives the map.
  BucketMap(unsigned key_bits, std::size_t value_bytes, Budget& budget)
      : key_bits_(key_bits),
        value_bytes_(value_bytes),
        bucket_bytes_(value_bytes > 8 ? 2 * kLine : kLine),
        budget_(&budget) {}

  std::size_t size() const { return count_; }
  std::size_t bytes() const { return pages_.size(); }
  /// The bytes of r; nullptr where r is not in the map.
  std::byte* find(std::uint64_t r) const {
    const auto [h, rest] = spot(r);
    std::byte* const at = bucket(h);
    if (std::byte* const value = value_of(at, rest, 0)) return value;
    return turned_away(at) ? value_of(bucket(other(h, rest)), rest, 1) : nullptr;
  }
  /// find in parts, of which many numbers' can wait for memory together, while nothing changes: seek brings
  /// near the bucket of its home,
  struct Home {
    std::byte* bucket;
    std::uint64_t rest;
  };
  Home seek(std::uint64_t r) const {
    const auto [h, rest] = spot(r);
    std::byte* const at = bucket(h);
    bring_near(at);
    return {at, rest};
  }
  /// this gives the bytes of a number that is at home; else nullptr, and `away` becomes true where find_away,
  /// whose bucket is then brought near, is to say whether it is elsewhere.
  std::byte* find_home(const Home& home, bool& away) const {
    std::byte* const value = value_of(home.bucket, home.rest, 0);
    away = !value && turned_away(home.bucket);
    if (away) bring_near(other_bucket(home));
    return value;
  }
  std::byte* find_away(const Home& home) const { return value_of(other_bucket(home), home.rest, 1); }
  /// Room for the bytes of r, which is not in the map; they are undefined. nullptr where there is none:
  /// grow() may make it.
  std::byte* insert(std::uint64_t r);
  /// Makes room. false, and nothing has changed: the budget has none, or most slots are free and the numbers
  /// only stand too close together (who knows how keys are mixed could choose them so).
  bool grow();
  /// Gives memory back where less than half of it is needed, and the budget has room for old and new at once.
  void shrink();
  /// Brings the home of r towards the cache. Any thread, at any time.
  void prefetch(std::uint64_t r) const {
    const auto base = reinterpret_cast<std::uintptr_t>(base_.load(std::memory_order_relaxed));
    bring_near(reinterpret_cast<const std::byte*>(base + (home(r) * bucket_bytes_)));
  }
  /// keep(r, value bytes) → whether it stays; each once, in rising order of r.
  template <class Keep>
  void retain(const Keep& keep);
  /// use(r, value bytes) for all numbers ≥ first in rising order, until it returns false. The values may be
  /// changed.
  template <class Use>
  void each(std::uint64_t first, const Use& use) const;

 private:
  static constexpr std::size_t kLine = 64, kGroup = 256, kMostSlots = 7;
  alignas(2 * kLine) static constexpr std::byte kNoSlots[2 * kLine] = {};
  static constexpr std::uint64_t kTurnedAway = std::uint64_t{1} << 63;  ///< of a bucket's last word
  __extension__ using Wide = unsigned __int128;
  using FourWords = std::uint32_t __attribute__((vector_size(16)));
  using TwoWords = std::uint64_t __attribute__((vector_size(16)));

  struct Shape {
    unsigned slots = 0;  ///< of a bucket
    std::uint64_t buckets = 0, step = 1;
  };
  struct Entry {
    std::uint64_t r;
    std::byte* bucket;
    unsigned slot;
  };

  static std::uint64_t load(const std::byte* at) {
    std::uint64_t word;
    std::memcpy(&word, at, sizeof word);
    return word;
  }
  static void store(std::byte* at, std::uint64_t word) { std::memcpy(at, &word, sizeof word); }
  static FourWords load_four(const std::byte* at) {
    FourWords four;
    std::memcpy(&four, at, sizeof four);
    return four;
  }

  std::byte* bucket(std::uint64_t h) const {
    return base_.load(std::memory_order_relaxed) + h * bucket_bytes_;
  }
  struct Spot {
    std::uint64_t home, rest;
  };
  Spot spot(std::uint64_t r) const {
    const std::uint64_t h = home(r);
    return {h, r - h * step_};
  }
  std::uint64_t home(std::uint64_t r) const {
    const auto h = static_cast<std::uint64_t>((Wide{r} * inverse_.load(std::memory_order_relaxed)) >> 64);
    return h >> inverse_shift_.load(std::memory_order_relaxed);
  }
  /// The other bucket of a number that may stand in bucket h; its other one is h.
  std::uint64_t other(std::uint64_t h, std::uint64_t rest) const {
    const std::uint64_t by = (rest * 0x9E3779B97F4A7C15ULL >> 40) & (group_ - 1);
    return h ^ std::max<std::uint64_t>(by, 1);
  }
  std::byte* other_bucket(const Home& home) const {
    return bucket(other(
        static_cast<std::uint64_t>(home.bucket - bucket(0)) / kLine >> (bucket_bytes_ > kLine), home.rest));
  }
  std::size_t last_word() const { return bucket_bytes_ - 8; }
  bool turned_away(const std::byte* at) const { return (load(at + last_word()) & kTurnedAway) != 0; }
  void turn_away(std::byte* at) const { store(at + last_word(), load(at + last_word()) | kTurnedAway); }
  /// Both lines of a bucket.
  void bring_near(const std::byte* at) const {
    __builtin_prefetch(at);
    if (bucket_bytes_ > kLine) __builtin_prefetch(at + kLine);
  }

  /// Bits beyond 32 of a slot's remainder, twice, plus 1 where it is not at home.
  std::uint64_t high(const std::byte* at, unsigned slot) const {
    return load(at + word_[slot]) >> shift_[slot] & high_mask_;
  }
  std::uint64_t rest_of(const std::byte* at, unsigned slot) const {
    std::uint32_t low;
    std::memcpy(&low, at + 4 * slot, sizeof low);
    return high(at, slot) >> 1 << 32 | low;
  }
  void set(std::byte* at, unsigned slot, std::uint64_t rest, std::uint64_t away) {
    const auto low = static_cast<std::uint32_t>(rest);
    std::memcpy(at + 4 * slot, &low, sizeof low);
    std::byte* const word = at + word_[slot];
    const std::uint64_t others = load(word) & ~(high_mask_ << shift_[slot]);
    store(word, others | (rest >> 32 << 1 | away) << shift_[slot]);
  }
  std::byte* value(std::byte* at, unsigned slot) const { return at + values_at_ + value_bytes_ * slot; }
  void copy_value(std::byte* to, const std::byte* from) const {
    for (std::size_t at = 0; at < value_bytes_; at += 4) std::memcpy(to + at, from + at, 4);
  }
  /// A bit for each slot whose lower 32 bits these are.
  unsigned matches(const std::byte* at, std::uint32_t low) const {
    const FourWords first = load_four(at) == low, second = load_four(at + 16) == low;
    const FourWords bits = (first & FourWords{1, 2, 4, 8}) | (second & FourWords{16, 32, 64, 128});
    const auto halves = reinterpret_cast<TwoWords>(bits);
    const std::uint64_t both = halves[0] | halves[1];
    return static_cast<unsigned>(both | both >> 32) & all_slots_;
  }
  std::byte* value_of(std::byte* at, std::uint64_t rest, std::uint64_t away) const {
    const std::uint64_t wanted = rest >> 32 << 1 | away;
    for (unsigned left = matches(at, static_cast<std::uint32_t>(rest)); left != 0; left &= left - 1)
      if (const auto slot = static_cast<unsigned>(std::countr_zero(left)); high(at, slot) == wanted)
        return value(at, slot);
    return nullptr;
  }
  /// No remainder is as large as a free slot's.
  bool is_free(const std::byte* at, unsigned slot) const { return rest_of(at, slot) == free_rest_; }
  /// The first free slot, or slots_.
  unsigned free_slot(const std::byte* at) const {
    for (unsigned left = matches(at, ~std::uint32_t{0}); left != 0; left &= left - 1)
      if (const auto slot = static_cast<unsigned>(std::countr_zero(left)); is_free(at, slot)) return slot;
    return slots_;
  }
  std::byte* put(std::uint64_t h, std::uint64_t rest, std::uint64_t away);
  bool make_way(std::uint64_t h, unsigned depth);
  void move(std::byte* from, unsigned slot, std::byte* to, unsigned free);
  void free_buckets();
  /// The numbers of a group's buckets in rising order.
  void gather(std::uint64_t group, std::vector<Entry>& entries) const;
  void settle(std::uint64_t group, const std::vector<Entry>& entries);

  Shape shape_for(std::uint64_t all_slots) const;
  void adopt(const Shape& shape, Pages pages);
  bool rebuild(std::uint64_t all_slots);
  bool move_to(BucketMap& to) const;

  const unsigned key_bits_;
  const std::size_t value_bytes_;
  const std::size_t bucket_bytes_;
  Budget* budget_;
  Pages pages_;
  std::size_t count_ = 0, most_ = 0;  ///< most_: numbers up to which insert has room
  std::uint64_t buckets_ = 0, group_ = 1, high_mask_ = 0, free_rest_ = 0;
  std::uint64_t step_ = std::uint64_t{1} << 63;
  std::size_t values_at_ = 0;
  unsigned slots_ = 0, all_slots_ = 0;
  std::uint8_t word_[kMostSlots] = {}, shift_[kMostSlots] = {};  ///< where a slot's high bits are
  /// What prefetch reads beside a change is atomic. An empty map has one bucket without slots, which nobody
  /// changes.
  std::atomic<std::byte*> base_{const_cast<std::byte*>(kNoSlots)};
  std::atomic<std::uint64_t> inverse_{0};
  std::atomic<unsigned> inverse_shift_{0};
};

template <class Keep>
void BucketMap::retain(const Keep& keep) {
  std::vector<Entry> entries;
  for (std::uint64_t group = 0; count_ > 0 && group < buckets_ / group_; ++group) {
    gather(group, entries);
    const auto gone = [&](const Entry& e) {
      if (keep(e.r, value(e.bucket, e.slot))) return false;
      set(e.bucket, e.slot, free_rest_, 1);
      --count_;
      return true;
    };
    const std::size_t before = entries.size();
    std::size_t kept = 0;
    for (const Entry& e : entries)  // in order
      if (!gone(e)) entries[kept++] = e;
    entries.resize(kept);
    if (kept < before) settle(group, entries);
  }
}

template <class Use>
void BucketMap::each(std::uint64_t first, const Use& use) const {
  if (count_ == 0) return;
  std::vector<Entry> entries;
  for (std::uint64_t group = home(first) / group_; group < buckets_ / group_; ++group) {
    gather(group, entries);
    for (const Entry& e : entries)
      if (e.r >= first && !use(e.r, value(e.bucket, e.slot))) return;
  }
}

}  // namespace gossamer::optim
