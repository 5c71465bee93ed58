#pragma once
// A KeyIndex maps 64-bit keys to 32-bit numbers: open addressing with linear probing, without tombstones.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace gossamer::compress {

class KeyIndex {
 public:
  std::size_t size() const { return size_; }

  std::optional<std::uint32_t> find(std::uint64_t key) const {
    if (slots_.empty()) return std::nullopt;
    for (std::size_t at = home(key);; at = next(at)) {
      if (slots_[at].number == kFree) return std::nullopt;
      if (slots_[at].key == key) return slots_[at].number;
    }
  }
  /// The key is not there; number < 2³² − 1.
  void insert(std::uint64_t key, std::uint32_t number) {
    if (size_ * 4 >= slots_.size() * 3) grow();
    put(key, number);
    ++size_;
  }
  void erase(std::uint64_t key) {
    std::size_t hole = home(key);
    while (slots_[hole].key != key || slots_[hole].number == kFree) hole = next(hole);
    --size_;
    // What stands behind moves up where the hole lies between its home and it.
    for (std::size_t at = next(hole); slots_[at].number != kFree; at = next(at)) {
      const std::size_t mask = slots_.size() - 1;
      if (((at - home(slots_[at].key)) & mask) < ((at - hole) & mask)) continue;
      slots_[hole] = slots_[at];
      hole = at;
    }
    slots_[hole].number = kFree;
  }

 private:
  static constexpr std::uint32_t kFree = UINT32_MAX;
  struct Slot {
    std::uint64_t key = 0;
    std::uint32_t number = kFree;
  };
  std::size_t home(std::uint64_t key) const {
    return static_cast<std::size_t>((key * 0x9E3779B97F4A7C15ull) >> shift_);
  }
  std::size_t next(std::size_t at) const { return (at + 1) & (slots_.size() - 1); }
  void put(std::uint64_t key, std::uint32_t number) {
    std::size_t at = home(key);
    while (slots_[at].number != kFree) at = next(at);
    slots_[at] = {key, number};
  }
  void grow() {
    std::vector<Slot> old(slots_.empty() ? 64 : slots_.size() * 2);
    old.swap(slots_);
    shift_ = 64 - static_cast<unsigned>(std::countr_zero(slots_.size()));
    for (const Slot& s : old)
      if (s.number != kFree) put(s.key, s.number);
  }

  std::vector<Slot> slots_;
  unsigned shift_ = 64;
  std::size_t size_ = 0;
};

}  // namespace gossamer::compress
