#include "shard.h"

#include <algorithm>
#include <numeric>

namespace gossamer::optim {
namespace {

constexpr std::size_t kEvictedPart = 16;  // of a shard's rows, where memory is used up
constexpr std::size_t kAgeBins = 64;
constexpr int kMakeTries = 32;  // more are only needed for keys chosen to stand too close together

/// Which rows go where memory is used up: zero ones, then by age, the oldest first, up to a quota.
class Eviction {
 public:
  Eviction(std::size_t quota, std::uint32_t oldest) : quota_(quota), oldest_(oldest) {}
  void count(std::uint32_t age, bool zero) {
    if (zero)
      ++zeros_;
    else if (age > 0)
      ++rows_[bin(age)];
  }
  void decide() {
    std::size_t going = zeros_;
    while (first_ > 0 && going < quota_) going += rows_[--first_];
    if (first_ == kAgeBins || going <= quota_) return;
    partial_ = first_;
    left_ = rows_[first_] - (going - quota_);
  }
  bool goes(std::uint32_t age, bool zero) {
    if (zero) return true;
    if (age == 0 || bin(age) < first_) return false;
    if (bin(age) != partial_) return true;
    return left_ > 0 && left_-- > 0;
  }

 private:
  std::size_t bin(std::uint32_t age) const { return (std::uint64_t{age} - 1) * kAgeBins / oldest_; }
  const std::size_t quota_;
  const std::uint32_t oldest_;
  std::array<std::size_t, kAgeBins> rows_{};
  std::size_t zeros_ = 0, left_ = 0, first_ = kAgeBins, partial_ = kAgeBins;
};

}  // namespace

RowShape::RowShape(const TableSpec& spec)
    : part(&find_row_optimizer(spec.optimizer)),
      optimizer(part->make(spec)),
      width(spec.width),
      floats(part->info.floats * spec.width),
      words(floats),
      statistics(spec.statistics),
      versions(spec.versions || part->counts),
      touches(spec.memory > 0 || spec.evict_after > 0 || spec.evict_zeros_after > 0) {
  if (statistics) shows_at = words, words += 2;
  if (versions) version_at = words++;
  if (touches) touched_at = words++;
}

void Admission::tighten() {
  unsigned asked = asked_;
  if (asked < Sightings::kMost &&
      asked_.compare_exchange_strong(asked, std::min(2 * asked, Sightings::kMost)))
    ++tightened_;
}

void Admission::memory_taken() {
  const std::size_t limit = budget_->limit();
  if (limit != 0 && budget_->used() > limit - limit / 8 && asked() == wanted_) tighten();
}

void Admission::rows_evicted(std::size_t evicted, std::size_t all_rows) {
  if ((evicted_ += evicted) < all_rows / 2) return;
  evicted_ = 0;
  tighten();
}

void Admission::rows_swept() {
  if (budget_->used() < budget_->limit() / 2) asked_ = wanted_;
}

Shard::Shard(const RowShape& shape, unsigned key_bits, std::size_t shards, std::span<std::uint8_t> filter,
             Admission& admission, Budget& budget, PagePool& pool)
    : shape_(shape),
      shards_(shards),
      map_(key_bits, shape.inside() ? shape.bytes() : sizeof(std::uint32_t), budget),
      slab_(shape.bytes(), pool),
      sightings_(filter),
      admission_(&admission),
      limited_(budget.limit() != 0) {}

bool Shard::admits(std::uint64_t r, std::size_t times) {
  const unsigned asked = admission_->asked();
  if (asked <= 1 || sightings_.see(r, times) >= asked) return true;
  ++counts_.waiting;
  return false;
}

std::byte* Shard::make(std::uint64_t r, std::uint32_t now) {
  if (shape_.inside()) ++moves_;
  for (int tries = 0; tries < kMakeTries; ++tries) {
    std::byte* const value = shape_.inside() || slab_.reserve() ? map_.insert(r) : nullptr;
    if (value) {
      ++counts_.admitted;
      admission_->memory_taken();
      if (shape_.inside()) return value;
      const std::uint32_t number = slab_.take();
      std::memcpy(value, &number, sizeof number);
      return slab_.row(number);
    }
    const bool grown = (shape_.inside() || slab_.reserve()) && map_.grow();
    if (!grown && (!limited_ || !reclaim(now))) break;
  }
  ++counts_.no_room;
  return nullptr;
}

template <class Gone>
void Shard::remove(const Gone& gone) {
  ++moves_;
  const auto stays = [&](std::uint64_t, std::byte* value) {
    const bool kept = !gone(row_at(place_of(value)));
    if (!kept && !shape_.inside()) {
      std::uint32_t number;
      std::memcpy(&number, value, sizeof number);
      slab_.free(number);
    }
    return kept;
  };
  map_.retain(stays);
}

bool Shard::reclaim(std::uint32_t now) {
  if (now == nothing_old_at_) return false;  // else a large step would look at all rows for each it drops
  const std::size_t before = rows();
  const auto zero = [&](const float* row) { return shape_.age(row, now) > 0 && shape_.zero(row); };
  std::uint32_t oldest = 0;
  each(0, [&](std::uint64_t, const float* row) {
    oldest = std::max(oldest, shape_.age(row, now));
    return true;
  });
  if (oldest == 0) {
    nothing_old_at_ = now;
    return false;
  }
  Eviction eviction(before / kEvictedPart + 1, oldest);
  each(0, [&](std::uint64_t, const float* row) {
    eviction.count(shape_.age(row, now), zero(row));
    return true;
  });
  eviction.decide();
  remove([&](const float* row) { return eviction.goes(shape_.age(row, now), zero(row)); });
  const std::size_t evicted = before - rows();
  counts_.evicted_full += evicted;
  admission_->rows_evicted(evicted, before * shards_);
  return evicted > 0;
}

std::size_t Shard::sweep(std::uint32_t now, std::uint64_t old, std::uint64_t zero) {
  if (old == 0 && zero == 0) return 0;
  const std::size_t before = rows();
  remove([&](const float* row) {
    const std::uint32_t age = shape_.age(row, now);
    if (old != 0 && age >= old) return ++counts_.evicted_old, true;
    if (zero != 0 && age >= zero && shape_.zero(row)) return ++counts_.evicted_zero, true;
    return false;
  });
  map_.shrink();
  admission_->rows_swept();
  return before - rows();
}

}  // namespace gossamer::optim
