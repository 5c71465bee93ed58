#include "batch_order.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "random.h"

namespace gossamer::optim {
namespace {

constexpr unsigned kMostOrderBits = 16;  // counters of a counting sort that stay in the cache
constexpr std::size_t kFew = 16;

bool stands_before(const MixedKey& a, const MixedKey& b) {
  return a.mixed != b.mixed ? a.mixed < b.mixed : a.index < b.index;
}

/// Most buckets of the counting sort hold one or two keys, in the order of the call.
void sort_few(std::span<MixedKey> keys) {
  if (keys.size() > kFew) return std::sort(keys.begin(), keys.end(), stands_before);
  for (std::size_t i = 1; i < keys.size(); ++i)
    for (std::size_t k = i; k > 0 && keys[k].mixed < keys[k - 1].mixed; --k) std::swap(keys[k], keys[k - 1]);
}

}  // namespace

std::span<const MixedKey> BatchOrder::sort(std::span<const std::uint64_t> keys, std::uint64_t salt,
                                           unsigned bits) {
  bits = std::max(bits, std::min(kMostOrderBits, static_cast<unsigned>(std::bit_width(keys.size()))));
  const unsigned shift = 64 - bits;
  sorted_.resize(keys.size());
  ends_.assign((std::size_t{1} << bits) + 1, 0);
  for (const std::uint64_t key : keys) ++ends_[(mix(key ^ salt) >> shift) + 1];
  for (std::size_t b = 1; b < ends_.size(); ++b) ends_[b] += ends_[b - 1];
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::uint64_t mixed = mix(keys[i] ^ salt);  // once more is cheaper than to read it back
    sorted_[ends_[mixed >> shift]++] = {mixed, static_cast<std::uint32_t>(i)};
  }
  std::size_t first = 0;
  for (std::size_t b = 0; b + 1 < ends_.size(); ++b) {  // ends_[b] has become the end of b
    const std::size_t end = ends_[b];
    sort_few(std::span(sorted_).subspan(first, end - first));
    first = end;
  }
  return sorted_;
}

ShardSplit BatchOrder::split(std::span<const std::uint64_t> mixed, unsigned bits) {
  const unsigned shift = 64 - bits;
  ShardSplit split{indices(mixed.size()).data(), {}};
  std::array<std::uint32_t, 64> at{};
  for (const std::uint64_t m : mixed) ++at[m >> shift];
  std::uint32_t before = 0;
  for (std::uint32_t& first : at) first = std::exchange(before, before + first);
  for (std::size_t i = 0; i < mixed.size(); ++i)
    split.places[at[mixed[i] >> shift]++] = static_cast<std::uint32_t>(i);
  split.ends = at;
  return split;
}

std::span<float> BatchOrder::floats(std::size_t n) {
  if (floats_.size() < n) floats_.resize(n);
  return {floats_.data(), n};
}

std::span<std::uint32_t> BatchOrder::indices(std::size_t n) {
  if (places_.size() < n) places_.resize(n);
  return {places_.data(), n};
}

}  // namespace gossamer::optim
