#include <algorithm>
#include <bit>
#include <cassert>

#include "gossamer/optim/sparse.h"

namespace gossamer::optim {
namespace {

constexpr std::size_t kFirstSlots = 1024, kFirstSamples = 64;
constexpr std::size_t kSlotsPerKey = 3;  // most keys are where they are looked for first

/// Fibonacci hashing (Knuth, TAOCP 3, section 6.4): the upper bits of the product depend on all of the key.
std::size_t slot_of(std::uint64_t key, std::uint32_t shift) { return (key * 0x9E3779B97F4A7C15ULL) >> shift; }

}  // namespace

void SparseBatch::clear(bool bias) {
  if (has_fields_) std::fill_n(fields_.begin(), entries_, 0U);
  bias_ = bias;
  has_fields_ = false;
  samples_ = entries_ = key_count_ = 0;
  if (begins_.empty()) begins_.resize(kFirstSamples + 1);
  begins_[0] = 0;
  if (slots_.empty())
    set_slots(kFirstSlots);
  else
    std::fill(slots_.begin(), slots_.end(), 0U);
  if (!bias) return;
  keys_[1] = kBiasKey;
  slots_[slot_of(kBiasKey, shift_)] = 1;
  key_count_ = 1;
}

/// As many slots, with the keys that are there.
void SparseBatch::set_slots(std::size_t slots) {
  slots_.assign(slots, 0U);
  keys_.resize(slots / kSlotsPerKey + 2);
  shift_ = 64 - static_cast<std::uint32_t>(std::countr_zero(slots));
  const std::size_t mask = slots - 1;
  for (std::size_t i = 1; i <= key_count_; ++i) {
    std::size_t s = slot_of(keys_[i], shift_);
    while (slots_[s] != 0) s = (s + 1) & mask;
    slots_[s] = static_cast<std::uint32_t>(i);
  }
}

/// For one sample of so many entries, as if all their keys were new.
void SparseBatch::make_room(std::size_t more_entries) {
  if (samples_ == labels_.size()) {
    const std::size_t room = std::max(kFirstSamples, 2 * samples_);
    begins_.resize(room + 1);
    labels_.resize(room);
    hashes_.resize(room);
    positions_.resize(room);
  }
  if (entries_ + more_entries > values_.size()) {
    const std::size_t room = std::max(entries_ + more_entries, 2 * entries_);
    index_.resize(room);
    fields_.resize(room);
    values_.resize(room);
  }
  const std::size_t slots = kSlotsPerKey * (key_count_ + more_entries);
  if (slots > slots_.size()) set_slots(std::bit_ceil(slots));
}

/// The places of those keys before which none is new; how many.
std::size_t SparseBatch::find_known(std::span<const std::uint64_t> keys, std::uint32_t* index) const {
  const std::size_t mask = slots_.size() - 1;
  const std::uint64_t* const known = keys_.data();
  const std::uint32_t* const slots = slots_.data();
  const std::uint32_t shift = shift_;
  std::size_t i = 0;
  for (; i < keys.size(); ++i) {
    const std::uint64_t key = keys[i];
    std::size_t s = slot_of(key, shift);
    std::uint32_t place = slots[s];
    while (known[place] != key && place != 0) place = slots[s = (s + 1) & mask];
    if (place == 0) break;
    index[i] = place - 1;
  }
  return i;
}

/// Whether a key is new is hard to foretell: all is written as if it were, and counts only then.
void SparseBatch::find_or_add(std::span<const std::uint64_t> keys, std::uint32_t* index) {
  const std::size_t mask = slots_.size() - 1;
  std::uint64_t* const known = keys_.data();
  std::uint32_t* const slots = slots_.data();
  const std::uint32_t shift = shift_;
  auto fresh = static_cast<std::uint32_t>(key_count_ + 1);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::uint64_t key = keys[i];
    std::size_t s = slot_of(key, shift);
    known[0] = key;  // a free slot ends the search by the same branch
    std::uint32_t place = slots[s];
    while (known[place] != key) place = slots[s = (s + 1) & mask];
    const std::uint32_t is_new = place == 0;
    place |= fresh & (0U - is_new);
    known[fresh] = key;
    slots[s] = place;
    fresh += is_new;
    index[i] = place - 1;
  }
  key_count_ = fresh - 1;
}

std::uint32_t SparseBatch::field_count() const {
  std::uint32_t most = 0;
  if (has_fields_)
    for (const std::uint32_t field : fields()) most = std::max(most, field);
  return most + 1;
}

void SparseBatch::add(const Sample& sample) {
  const std::size_t count = sample.keys.size(), end = entries_ + count;
  assert(sample.values.size() == count && (sample.fields.empty() || sample.fields.size() == count));
  assert(end <= UINT32_MAX);
  make_room(count);
  std::uint32_t* const index = index_.data() + entries_;
  const std::size_t before = key_count_, found = all_known_ ? find_known(sample.keys, index) : 0;
  if (found < count) find_or_add(sample.keys.subspan(found), index + found);
  all_known_ = key_count_ == before;
  float* const values = values_.data() + entries_;
  for (std::size_t i = 0; i < count; ++i) values[i] = sample.values[i];
  std::uint32_t* const fields = fields_.data() + entries_;
  for (std::size_t i = 0; i < sample.fields.size(); ++i) fields[i] = sample.fields[i];
  has_fields_ = has_fields_ || !sample.fields.empty();
  labels_[samples_] = sample.label;
  hashes_[samples_] = sample.hash;
  positions_[samples_] = sample.position;
  entries_ = end;
  begins_[++samples_] = static_cast<std::uint32_t>(end);
}

}  // namespace gossamer::optim
