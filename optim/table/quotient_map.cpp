#include "quotient_map.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace gossamer::optim {
namespace {

constexpr std::uint64_t kParts = 32;       // by one of which the array grows
constexpr std::uint64_t kFreeParts = 3;    // of these are kept free: fewer, and searches are long
constexpr std::uint64_t kLeastHomes = 64;  // below this, the tail would be most of the array
constexpr unsigned kNarrowest = 5;         // bytes of a stored number
constexpr std::uint64_t kSparse = 16;      // homes per number from which on it does not help to grow
constexpr int kTries = 8;                  // sizes tried where numbers stand too close together

std::uint64_t full_at(std::uint64_t homes) { return homes - homes * kFreeParts / kParts; }

/// Slots after the last home.
std::uint64_t tail_slots(std::uint64_t homes) { return std::min(QuotientMap::kFarthest, 32 + homes / 16); }

}  // namespace

QuotientMap::Shape QuotientMap::shape_for(std::uint64_t homes) const {
  Shape shape;
  homes = std::max(homes, kLeastHomes);
  const auto step = [&](std::uint64_t n) { return ((std::uint64_t{1} << key_bits_) - 1) / n + 1; };
  // 8 bytes hold r whole and are always wide enough
  while (shape.width > kNarrowest && (kFarthest + 4) * step(homes) <= std::uint64_t{1}
                                                                          << (8 * (shape.width - 1) - 1))
    --shape.width;
  const std::size_t stride = shape.width + value_bytes_;
  const std::size_t least = homes + tail_slots(homes);
  const std::size_t needed = least * stride + least / kGroup + kBeside;
  shape.bytes = (needed + Pages::kPage - 1) / Pages::kPage * Pages::kPage;
  shape.slots = (shape.bytes - kBeside) * kGroup / (kGroup * stride + 1);
  shape.homes = shape.slots - tail_slots(homes);
  shape.step = step(shape.homes);
  shape.inverse = ~std::uint64_t{0} / shape.step;
  return shape;
}

void QuotientMap::adopt(const Shape& shape, Pages pages) {
  const std::size_t stride = shape.width + value_bytes_;
  pages_ = std::move(pages);
  homes_ = shape.homes;
  slots_ = shape.slots;
  step_ = shape.step;
  width_ = shape.width;
  mask_ = ~std::uint64_t{0} >> (64 - 8 * width_);
  most_ = full_at(homes_);
  inverse_.store(shape.inverse, std::memory_order_relaxed);
  stride_.store(stride, std::memory_order_relaxed);
  behind_ = reinterpret_cast<std::uint8_t*>(pages_.data() + 2 * kPad + slots_ * stride);
  base_.store(pages_.data() + kPad, std::memory_order_relaxed);
}

void QuotientMap::fill_gaps(std::uint64_t from, std::uint64_t to) {
  for (std::uint64_t p = from; p < to; ++p) store(slot(p), (p + 1) * step_);
}

bool QuotientMap::move_to(QuotientMap& to) const {
  std::uint64_t next = 0, group = 0;
  bool fits = true;
  each(0, [&](std::uint64_t r, const std::byte* value) {
    const std::uint64_t h = to.home(r), p = std::max(h, next);
    fits = p - h < kFarthest && p + kLastGaps < to.slots_;
    if (!fits) return false;
    to.fill_gaps(next, p);
    to.set_groups(group, h, next);
    std::byte* const at = to.slot(p);
    store(at, r);
    copy_value(at + to.width_, value);
    next = p + 1;
    return true;
  });
  if (fits) to.fill_gaps(next, to.slots_);
  if (fits) to.set_groups(group, to.slots_, next);
  to.count_ = count_;
  return fits;
}

bool QuotientMap::rebuild(std::uint64_t homes) {
  for (int tries = 0; tries < kTries; ++tries, homes += homes / kParts + 1) {
    const Shape shape = shape_for(homes);
    if (count_ > full_at(shape.homes)) continue;
    Pages pages(*budget_, shape.bytes);
    if (!pages.data()) return false;
    QuotientMap fresh(key_bits_, value_bytes_, *budget_);
    fresh.adopt(shape, std::move(pages));
    if (!move_to(fresh)) continue;
    adopt(shape, std::move(fresh.pages_));  // the old pages go to fresh, and with it
    return true;
  }
  return false;
}

bool QuotientMap::grow() {
  if (homes_ > kSparse * kLeastHomes && count_ < homes_ / kSparse) return false;
  return rebuild(homes_ + homes_ / kParts);
}

void QuotientMap::shrink() {
  if (pages_.size() > Pages::kPage && count_ < most_ / 2) rebuild(count_ + count_ / 8);
}

std::byte* QuotientMap::insert(std::uint64_t r) {
  if (count_ >= most_) return nullptr;
  const std::uint64_t first = lower_bound(r);
  const std::size_t stride = stride_.load(std::memory_order_relaxed);
  std::byte *const at = slot(first), *free = at;
  std::uint64_t next = (first + 1) * step_, farthest = next - r, p = first;
  for (;; free += stride, next += step_, ++p) {  // all up to the gap move on by a slot
    const std::uint64_t below = (next - load(free)) & mask_;
    if (below == 0) break;
    farthest = std::max(farthest, below + step_);
  }
  if (farthest > kFarthest * step_ || p + kLastGaps >= slots_) return nullptr;
  std::memmove(at + stride, at, static_cast<std::size_t>(free - at));
  store_inside(at, r);
  move_groups(home(r), p, 1);
  ++count_;
  return at + width_;
}

void QuotientMap::erase(std::byte* value) {
  const std::size_t stride = stride_.load(std::memory_order_relaxed);
  std::byte* const at = value - width_;
  std::uint64_t p = static_cast<std::uint64_t>(at - slot(0)) / stride;
  const std::uint64_t h = home((p + 1) * step_ - below_next(at, p));
  std::byte* end = at + stride;  // of those that may move back by a slot: not at home, no gap
  for (;; end += stride, ++p) {
    const std::uint64_t below = below_next(end, p + 1);
    if (below == 0 || below <= step_) break;
  }
  std::memmove(at, at + stride, static_cast<std::size_t>(end - at) - stride);
  store_inside(end - stride, (p + 1) * step_);
  move_groups(h, p, -1);
  --count_;
}

}  // namespace gossamer::optim
