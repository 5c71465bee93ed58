#include "bucket_map.h"

#include <array>
#include <utility>

namespace gossamer::optim {
namespace {

constexpr std::uint64_t kGrowthParts = 16;  // by one of which it grows
constexpr std::uint64_t kFullPercent = 88;  // of the slots: fuller, and groups overflow by chance
constexpr std::uint64_t kSparseSlots = 16;  // slots per number from which on it does not help to grow
constexpr int kSizesTried = 8;              // sizes tried where numbers stand too close together
constexpr unsigned kDepth = 2;              // numbers that make way for each other

struct BucketShape {
  std::size_t value_bytes;
  unsigned slots, to_a_word, bits;  ///< bits: of a slot beyond 32
};
constexpr std::array<BucketShape, 6> kBucketShapes{
    {{4, 7, 7, 9}, {4, 6, 3, 21}, {4, 5, 2, 31}, {8, 4, 2, 31}, {12, 7, 4, 16}, {12, 6, 2, 31}}};

}  // namespace

/// The least bytes for so many slots, such that remainders fit. Free slots need a remainder of their own.
BucketMap::Shape BucketMap::shape_for(std::uint64_t all_slots) const {
  Shape best;
  const std::uint64_t all = std::uint64_t{1} << key_bits_;
  for (const BucketShape& of : kBucketShapes) {
    if (of.value_bytes != value_bytes_) continue;
    const unsigned bits = 31 + of.bits;  // and one says "not at home"
    const std::uint64_t fits = (all >> bits) + 1;
    std::uint64_t buckets =
        std::max({Pages::kPage / bucket_bytes_, fits, (all_slots + of.slots - 1) / of.slots});
    buckets = buckets <= kGroup ? std::bit_ceil(buckets) : (buckets + kGroup - 1) / kGroup * kGroup;
    if (best.slots == 0 || buckets < best.buckets) best = {of.slots, buckets, (all - 1) / buckets + 1};
  }
  return best;
}

void BucketMap::adopt(const Shape& shape, Pages pages) {
  const auto of = *std::find_if(kBucketShapes.begin(), kBucketShapes.end(), [&](const BucketShape& s) {
    return s.value_bytes == value_bytes_ && s.slots == shape.slots;
  });
  pages_ = std::move(pages);
  buckets_ = shape.buckets;
  group_ = std::min<std::uint64_t>(buckets_, kGroup);
  step_ = shape.step;
  slots_ = shape.slots;
  all_slots_ = (1U << slots_) - 1;
  values_at_ = sizeof(std::uint32_t) * slots_;
  high_mask_ = (std::uint64_t{1} << of.bits) - 1;
  free_rest_ = (std::uint64_t{1} << (31 + of.bits)) - 1;
  for (unsigned slot = 0; slot < slots_; ++slot) {
    word_[slot] =
        static_cast<std::uint8_t>(last_word() - 8 * ((slots_ - 1) / of.to_a_word - slot / of.to_a_word));
    shift_[slot] = static_cast<std::uint8_t>(slot % of.to_a_word * of.bits);
  }
  most_ = buckets_ * slots_ * kFullPercent / 100;
  const unsigned shift = std::max(2U, static_cast<unsigned>(std::bit_width(shape.step))) - 2;
  inverse_shift_.store(shift, std::memory_order_relaxed);
  inverse_.store(static_cast<std::uint64_t>(((Wide{1} << (64 + shift)) - 1) / shape.step),
                 std::memory_order_relaxed);
  base_.store(pages_.data(), std::memory_order_relaxed);
}

void BucketMap::free_buckets() {
  std::array<std::byte, 2 * kLine> empty{};
  for (unsigned slot = 0; slot < slots_; ++slot) set(empty.data(), slot, free_rest_, 1);
  for (std::uint64_t h = 0; h < buckets_; ++h) std::memcpy(bucket(h), empty.data(), bucket_bytes_);
}

void BucketMap::gather(std::uint64_t group, std::vector<Entry>& entries) const {
  entries.clear();
  for (std::uint64_t h = group * group_; h < (group + 1) * group_; ++h)
    for (unsigned slot = 0; slot < slots_; ++slot) {
      std::byte* const at = bucket(h);
      const std::uint64_t rest = rest_of(at, slot);
      if (rest == free_rest_) continue;
      const std::uint64_t its = (high(at, slot) & 1) != 0 ? other(h, rest) : h;
      entries.push_back({its * step_ + rest, at, slot});
    }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.r < b.r; });
}

/// Brings a group's numbers home where there is room now, and forgets who was turned away before.
void BucketMap::settle(std::uint64_t group, const std::vector<Entry>& entries) {
  for (std::uint64_t h = group * group_; h < (group + 1) * group_; ++h)
    store(bucket(h) + last_word(), load(bucket(h) + last_word()) & ~kTurnedAway);
  for (const Entry& e : entries) {
    if ((high(e.bucket, e.slot) & 1) == 0) continue;
    std::byte* const at = bucket(home(e.r));
    if (const unsigned free = free_slot(at); free < slots_)
      move(e.bucket, e.slot, at, free);
    else
      turn_away(at);
  }
}

bool BucketMap::move_to(BucketMap& to) const {
  const auto copy = [&](std::uint64_t r, const std::byte* from) {
    std::byte* const value = to.insert(r);
    if (value) copy_value(value, from);
    return value != nullptr;
  };
  for (std::uint64_t h = 0; h < buckets_; ++h)  // in about the order of r: what it writes is in the cache
    for (unsigned slot = 0; slot < slots_; ++slot) {
      std::byte* const at = bucket(h);
      const std::uint64_t rest = rest_of(at, slot);
      if (rest == free_rest_) continue;
      const std::uint64_t its = (high(at, slot) & 1) != 0 ? other(h, rest) : h;
      if (!copy(its * step_ + rest, value(at, slot))) return false;
    }
  return true;
}

bool BucketMap::rebuild(std::uint64_t all_slots) {
  for (int tries = 0; tries < kSizesTried; ++tries, all_slots += all_slots / kGrowthParts + 1) {
    const Shape shape = shape_for(all_slots);
    if (count_ > shape.buckets * shape.slots * kFullPercent / 100) continue;
    Pages pages(*budget_, shape.buckets * bucket_bytes_);
    if (!pages.data()) return false;
    BucketMap fresh(key_bits_, value_bytes_, *budget_);
    fresh.adopt(shape, std::move(pages));
    fresh.free_buckets();
    if (!move_to(fresh)) continue;
    adopt(shape, std::move(fresh.pages_));  // the old pages go to fresh, and with it
    return true;
  }
  return false;
}

bool BucketMap::grow() {
  const std::uint64_t all = buckets_ * slots_;
  if (pages_.size() > Pages::kPage && count_ < all / kSparseSlots) return false;
  return rebuild(all + all / kGrowthParts);
}

void BucketMap::shrink() {
  if (pages_.size() > Pages::kPage && count_ < most_ / 2) rebuild(count_ + count_ / 4);
}

std::byte* BucketMap::put(std::uint64_t h, std::uint64_t rest, std::uint64_t away) {
  std::byte* const at = bucket(h);
  const unsigned slot = free_slot(at);
  if (slot == slots_) return nullptr;
  set(at, slot, rest, away);
  return value(at, slot);
}

/// A number changes from one of its buckets to the other.
void BucketMap::move(std::byte* from, unsigned slot, std::byte* to, unsigned free) {
  const std::uint64_t rest = rest_of(from, slot), away = high(from, slot) & 1;
  set(to, free, rest, away ^ 1);
  copy_value(value(to, free), value(from, slot));
  set(from, slot, free_rest_, 1);
  if (away == 0) turn_away(from);
}

/// A slot of bucket h becomes free, if others that stand there can move, of whom again up to depth - 1 others
/// make way.
bool BucketMap::make_way(std::uint64_t h, unsigned depth) {
  std::byte* const at = bucket(h);
  for (unsigned slot = 0; slot < slots_; ++slot) {
    const std::uint64_t to = other(h, rest_of(at, slot));
    if (free_slot(bucket(to)) == slots_ && (depth == 0 || !make_way(to, depth - 1))) continue;
    if (free_slot(at) < slots_) return true;  // who made way there came from here
    const unsigned free = free_slot(bucket(to));
    if (other(h, rest_of(at, slot)) != to || free == slots_) continue;
    move(at, slot, bucket(to), free);
    return true;
  }
  return false;
}

std::byte* BucketMap::insert(std::uint64_t r) {
  if (count_ >= most_) return nullptr;
  const auto [h, rest] = spot(r);
  const std::uint64_t away = other(h, rest);
  std::byte* value = put(h, rest, 0);
  if (!value) value = put(away, rest, 1);
  if (!value) value = make_way(h, kDepth) ? put(h, rest, 0) : nullptr;
  if (!value) value = make_way(away, kDepth) ? put(away, rest, 1) : nullptr;
  if (!value) return nullptr;
  if (value < bucket(h) || value >= bucket(h + 1)) turn_away(bucket(h));
  ++count_;
  return value;
}

}  // namespace gossamer::optim
