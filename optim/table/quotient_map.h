#pragma once
// A QuotientMap holds a few bytes by a number r of n bits, in one sorted array with gaps, and stores fewer
// than n bits of each r.
//
// The array has `homes` homes of `step` = ⌈2ⁿ/homes⌉ values each; r belongs to home ⌊r/step⌋. Linear probing
// with the smaller r first (Celis, Larson, Munro: Robin Hood Hashing, FOCS 1985; ordered as in Amble, Knuth:
// Ordered Hash Tables, 1974) keeps the array sorted: r stands at its home or a little after it, never more
// than kFarthest slots, and the array can be rebuilt, thinned out and resumed in one sweep.
//
// The place thus says what the high bits of r are (quotienting, Cleary: Compact Hash Tables Using
// Bidirectional Linear Probing, 1984): a slot stores r mod 2^(8·width) only, with width so large that the
// stretch of values that can stand near one slot is shorter than half of 2^(8·width); two stored numbers are
// compared by the sign of their difference modulo that. A gap at slot p stores the first value of home p+1,
// which can never stand at p: it is larger than all that a search passes, so that a search has one comparison
// per slot.
//
// One byte for each kGroup homes says how far after them their numbers begin. Between two such places
// numbers are spread evenly, so that r stands a slot or two from where it is guessed to: mostly one line of
// memory is read.
//
// It grows by a thirty-second part at a time, when it is nine tenths full, into new pages: with many maps (a
// table's shards), one growing at a time, little is ever held twice.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "pages.h"

namespace gossamer::optim {

/// One thread at a time while anything is changed; several may read. Pointers to values hold until the next
/// change.
class QuotientMap {
 public:
  static constexpr unsigned kMostKeyBits = 62;
  static constexpr std::uint64_t kFarthest = 255;  ///< slots between a number and its home

  /// key_bits: n ≤ kMostKeyBits. The budget outlives the map.
  QuotientMap(unsigned key_bits, std::size_t value_bytes, Budget& budget)
      : key_bits_(key_bits), value_bytes_(value_bytes), budget_(&budget) {}

  std::size_t size() const { return count_; }
  std::size_t bytes() const { return pages_.size(); }
  std::size_t slot_bytes() const { return stride_; }
  /// The bytes of r; nullptr where r is not in the map.
  std::byte* find(std::uint64_t r) const {
    if (count_ == 0) return nullptr;
    std::byte* const at = slot(lower_bound(r));
    return ((load(at) ^ r) & mask_) == 0 ? at + width_ : nullptr;
  }
  /// About where r stands, if it does, for find_near; brings what it will read towards the cache.
  const std::byte* guess(std::uint64_t r) const {
    if (count_ == 0) return nullptr;

    const std::uint64_t h = home(r), group = h / kGroup;
    const std::uint64_t begin = group * kGroup + behind_[group],
                        end = (group + 1) * kGroup + behind_[group + 1];
    const std::uint64_t p = begin + (2 * (h % kGroup) + 1) * (end - begin) / (2 * kGroup);
    const std::size_t stride = stride_.load(std::memory_order_relaxed);
    const std::byte* const first = slot(std::max(begin, p < h + 1 ? h : p - 1));
    for (std::size_t at = 0; at < 3 * stride; at += 64) __builtin_prefetch(first + at);
    __builtin_prefetch(first + 3 * stride - 1);
    return first;
  }
  /// find(r) from guess(r), while nothing has changed.
  std::byte* find_near(const std::byte* guess, std::uint64_t r) const {
    if (!guess) return nullptr;

    const std::size_t stride = stride_.load(std::memory_order_relaxed);
    const std::byte* at = search(guess, r, stride);
    if (((load(at) ^ r) & mask_) == 0) return const_cast<std::byte*>(at) + width_;
    const std::uint64_t high_r = r << (64 - 8 * width_);
    const std::byte* const first = slot(home(r));  // the slot before may be a gap that holds r itself
    while (at > first && less(at - stride, high_r) == 0) at -= stride;
    return ((load(at) ^ r) & mask_) == 0 ? const_cast<std::byte*>(at) + width_ : nullptr;
  }
  /// Room for the bytes of r, which is not in the map; they are undefined. nullptr where there is none:
  /// grow() may make it.
  std::byte* insert(std::uint64_t r);
  /// Makes room. false, and nothing has changed: the budget has none, or most slots are free and the numbers
  /// only stand too close together (who knows how keys are mixed could choose them so).
  bool grow();
  /// Gives memory back where less than half of it is needed, and the budget has room for old and new at once.
  void shrink();
  /// Removes what find or insert gave.
  void erase(std::byte* value);
  /// Brings the place of r towards the cache. Any thread, at any time.
  void prefetch(std::uint64_t r) const {
    const std::size_t offset = near_home(r) * stride_.load(std::memory_order_relaxed);
    const std::uintptr_t at =
        reinterpret_cast<std::uintptr_t>(base_.load(std::memory_order_relaxed)) + offset;
    for (const std::size_t line : {0, 64, 128})
      __builtin_prefetch(reinterpret_cast<const void*>(at + line), 0, 2);
  }
  /// keep(r, value bytes) → whether it stays; each once, in rising order of r.
  template <class Keep>
  void retain(const Keep& keep);
  /// use(r, value bytes) for all numbers ≥ first in rising order, until it returns false. The values may be
  /// changed.
  template <class Use>
  void each(std::uint64_t first, const Use& use) const;

 private:
  static constexpr std::uint64_t kGroup = 8;

  struct Shape {
    std::uint64_t homes = 0, slots = 0, step = 1, inverse = 0;
    unsigned width = 8;
    std::size_t bytes = 0;
  };
  static std::uint64_t high(std::uint64_t a, std::uint64_t b) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>((Wide{a} * b) >> 64);
  }
  /// The home or the one before it.
  std::uint64_t near_home(std::uint64_t r) const { return high(r, inverse_.load(std::memory_order_relaxed)); }
  std::uint64_t home(std::uint64_t r) const {
    const std::uint64_t h = near_home(r);
    return h + ((h + 1) * step_ <= r ? 1 : 0);
  }
  /// There are kPad bytes more before the first slot and after the last, because 8 bytes are read at a time.
  static constexpr std::size_t kPad = sizeof(std::uint64_t), kBeside = 2 * kPad + 2;
  static constexpr std::uint64_t kLastGaps = 4;  ///< slots that searches read past the last number
  std::byte* slot(std::uint64_t p) const { return base_.load(std::memory_order_relaxed) + p * stride_; }
  static std::uint64_t load(const std::byte* at) {
    std::uint64_t bits;
    std::memcpy(&bits, at, sizeof bits);
    return bits;
  }
  /// Writes 8 bytes: what it spoils after its own is written later, or is kept by store_inside.
  static void store(std::byte* at, std::uint64_t bits) { std::memcpy(at, &bits, sizeof bits); }
  /// Copies a value in words of 8 bytes: what it spoils after its slot is written later.
  void copy_value(std::byte* to, const std::byte* from) const {
    for (std::size_t at = 0; at < value_bytes_; at += sizeof(std::uint64_t)) store(to + at, load(from + at));
  }
  void store_inside(std::byte* at, std::uint64_t r) const { store(at, (load(at) & ~mask_) | (r & mask_)); }
  /// How far the number at slot p lies below the first value of home p+1; 0 where p is a gap.
  std::uint64_t below_next(const std::byte* at, std::uint64_t p) const {
    return ((p + 1) * step_ - load(at)) & mask_;
  }
  /// Slot of the first number ≥ r or gap, at or after r's home. Mostly it is among the first 16, and found by
  /// halves without a branch that the processor would guess wrong.
  std::uint64_t lower_bound(std::uint64_t r) const {
    const unsigned shift = 64 - 8 * width_;
    const std::size_t stride = stride_.load(std::memory_order_relaxed);
    const std::uint64_t h = home(r), high_r = r << shift;
    const std::byte* const first = slot(h) + width_ - sizeof(std::uint64_t);  // ends with the number
    const auto less = [&](std::size_t offset) {  // all ones where that slot holds less than r
      return static_cast<std::uint64_t>(static_cast<std::int64_t>(load(first + offset) - high_r) >> 63);
    };
    const std::uint64_t by8 = less(7 * stride);
    const std::uint64_t by4 = less((by8 & (8 * stride)) + 3 * stride);
    const std::uint64_t by2 = less((by8 & (8 * stride)) + (by4 & (4 * stride)) + stride);
    const std::size_t even = (by8 & (8 * stride)) + (by4 & (4 * stride)) + (by2 & (2 * stride));
    const std::uint64_t by1 = less(even);
    std::uint64_t n = (by8 & 8) + (by4 & 4) + (by2 & 2) + (by1 & 1);
    for (std::size_t offset = even + (by1 & stride); less(offset) != 0; offset += stride) ++n;
    return h + n;
  }
  /// Whether that slot holds less than a number with these upper bits: all ones, or 0.
  std::uint64_t less(const std::byte* at, std::uint64_t high_r) const {
    return static_cast<std::uint64_t>(
        static_cast<std::int64_t>(load(at + width_ - sizeof(std::uint64_t)) - high_r) >> 63);
  }
  /// As lower_bound, by slots' addresses, for one of the first few from `from` on.
  const std::byte* search(const std::byte* from, std::uint64_t r, std::size_t stride) const {
    const std::uint64_t high_r = r << (64 - 8 * width_);
    from += less(from + stride, high_r) & (2 * stride);
    from += less(from, high_r) & stride;
    while (less(from, high_r) != 0) from += stride;
    return from;
  }
  /// The bytes of groups after that of home h, up to slot p, change by `by`: all before p has moved by a
  /// slot.
  void move_groups(std::uint64_t h, std::uint64_t p, int by) {
    for (std::uint64_t group = h / kGroup + 1; group * kGroup <= p; ++group)
      behind_[group] = static_cast<std::uint8_t>(behind_[group] + by);
  }
  /// Sets the bytes of groups from `group` up to that of home h, where the numbers before h end at slot
  /// `next`.
  void set_groups(std::uint64_t& group, std::uint64_t h, std::uint64_t next) {
    for (; group * kGroup <= h; ++group)
      behind_[group] = static_cast<std::uint8_t>(std::max(next, group * kGroup) - group * kGroup);
  }
  Shape shape_for(std::uint64_t homes) const;
  void adopt(const Shape& shape, Pages pages);
  bool rebuild(std::uint64_t homes);
  bool move_to(QuotientMap& to) const;
  void fill_gaps(std::uint64_t from, std::uint64_t to);

  const unsigned key_bits_;
  const std::size_t value_bytes_;
  Budget* budget_;
  Pages pages_;
  std::size_t count_ = 0, most_ = 0;  ///< most_: numbers up to which insert has room
  std::uint64_t homes_ = 0, slots_ = 0, step_ = 1, mask_ = 0;
  unsigned width_ = 8;
  std::uint8_t* behind_ = nullptr;         ///< of each group, its first number's slot after its first home
  std::atomic<std::byte*> base_{nullptr};  ///< what prefetch reads beside a change is atomic
  std::atomic<std::uint64_t> inverse_{0};  ///< of step_
  std::atomic<std::size_t> stride_{0};     ///< bytes of a slot
};

template <class Keep>
void QuotientMap::retain(const Keep& keep) {
  if (count_ == 0) return;
  std::uint64_t next = 0, group = 0;
  for (std::uint64_t p = 0; p < slots_; ++p) {
    std::byte* const from = slot(p);
    const std::uint64_t below = below_next(from, p);
    if (below == 0) continue;
    const std::uint64_t r = (p + 1) * step_ - below, h = home(r);
    if (!keep(r, from + width_)) {
      --count_;
      continue;
    }
    set_groups(group, h, next);
    const std::uint64_t to = h > next ? h : next;  // never after p: fewer stand before it than before
    if (to != p) std::memmove(slot(to) + width_, from + width_, value_bytes_);
    for (; next < to; ++next) store_inside(slot(next), (next + 1) * step_);
    store_inside(slot(to), r);
    next = to + 1;
  }
  set_groups(group, slots_, next);
  for (; next < slots_; ++next) store_inside(slot(next), (next + 1) * step_);
}

template <class Use>
void QuotientMap::each(std::uint64_t first, const Use& use) const {
  for (std::uint64_t p = count_ == 0 ? slots_ : lower_bound(first); p < slots_; ++p) {
    std::byte* const at = slot(p);
    const std::uint64_t below = below_next(at, p);
    if (below != 0 && !use((p + 1) * step_ - below, at + width_)) return;
  }
}

}  // namespace gossamer::optim
