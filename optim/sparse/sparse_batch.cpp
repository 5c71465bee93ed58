#include <algorithm>
#include <bit>
#include <cassert>

#include "gossamer/optim/sparse.h"

namespace gossamer::optim {
namespace {

constexpr std::size_t kFirstSlots = 1024;

/// Fibonacci hashing (Knuth, TAOCP 3, section 6.4): the upper bits of the product depend on all of the key.
std::size_t slot_of(std::uint64_t key, std::uint32_t shift) { return (key * 0x9E3779B97F4A7C15ULL) >> shift; }

}  // namespace

void SparseBatch::clear(bool bias) {
  bias_ = bias;
  field_count_ = 1;
  for (auto* of_numbers : {&begins_, &index_, &fields_}) of_numbers->clear();
  for (auto* of_keys : {&keys_, &hashes_, &positions_}) of_keys->clear();
  values_.clear();
  labels_.clear();
  begins_.push_back(0);
  if (slots_.empty()) slots_.resize(kFirstSlots);
  std::fill(slots_.begin(), slots_.end(), 0U);
  shift_ = 64 - static_cast<std::uint32_t>(std::countr_zero(slots_.size()));
  if (bias) insert(kBiasKey, slot_of(kBiasKey, shift_));
}

/// At most a third of the slots are used: most keys are where they are looked for first.
std::uint32_t SparseBatch::insert(std::uint64_t key, std::size_t slot) {
  keys_.push_back(key);
  const auto place = static_cast<std::uint32_t>(keys_.size() - 1);
  slots_[slot] = place + 1;
  if (keys_.size() * 3 > slots_.size()) grow();
  return place;
}

void SparseBatch::grow() {
  slots_.assign(slots_.size() * 2, 0U);
  --shift_;
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    std::size_t s = slot_of(keys_[i], shift_);
    while (slots_[s] != 0) s = (s + 1) & mask;
    slots_[s] = static_cast<std::uint32_t>(i + 1);
  }
}

void SparseBatch::place(std::span<const std::uint64_t> keys, std::uint32_t* places) {
  for (std::size_t i = 0; i < keys.size();) {
    // The slots stay where they are until a key is new.
    const std::uint32_t* slots = slots_.data();
    const std::uint64_t* known = keys_.data();
    const std::size_t mask = slots_.size() - 1;
    const std::uint32_t shift = shift_;
    for (; i < keys.size(); ++i) {
      const std::uint64_t key = keys[i];
      std::size_t s = slot_of(key, shift);
      while (slots[s] != 0 && known[slots[s] - 1] != key) s = (s + 1) & mask;
      if (slots[s] == 0) {
        places[i++] = insert(key, s);
        break;
      }
      places[i] = slots[s] - 1;
    }
  }
}

void SparseBatch::add(const Sample& sample) {
  const std::size_t first = index_.size(), count = sample.keys.size(), end = first + count;
  assert(sample.values.size() == count && (sample.fields.empty() || sample.fields.size() == count));
  assert(end <= UINT32_MAX);
  index_.resize(end);
  place(sample.keys, index_.data() + first);
  values_.insert(values_.end(), sample.values.begin(), sample.values.end());
  if (sample.fields.empty()) {
    fields_.resize(end, 0U);
  } else {
    fields_.insert(fields_.end(), sample.fields.begin(), sample.fields.end());
    for (const std::uint32_t field : sample.fields) field_count_ = std::max(field_count_, field + 1);
  }
  begins_.push_back(static_cast<std::uint32_t>(end));
  labels_.push_back(sample.label);
  hashes_.push_back(sample.hash);
  positions_.push_back(sample.position);
}

}  // namespace gossamer::optim
