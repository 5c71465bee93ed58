#include "gaps.h"

#include <algorithm>

namespace gossamer::compress {
namespace {

/// Bits go out lowest first.
class BitWriter {
 public:
  explicit BitWriter(wire::Writer& out) : out_(out) {}
  void put(std::uint64_t value, unsigned count) {
    assert(count <= 32);
    pending_ |= value << used_;
    for (used_ += count; used_ >= 8; used_ -= 8, pending_ >>= 8) out_.u8(static_cast<std::uint8_t>(pending_));
  }
  void finish() {
    if (used_ > 0) out_.u8(static_cast<std::uint8_t>(pending_));
  }

 private:
  wire::Writer& out_;
  std::uint64_t pending_ = 0;
  unsigned used_ = 0;
};

void put_gap(BitWriter& out, std::uint32_t gap, unsigned r) {
  std::uint32_t ones = gap >> r;
  for (; ones >= 32; ones -= 32) out.put(0xffffffffu, 32);
  out.put((std::uint64_t{1} << ones) - 1, ones);
  out.put(0, 1);
  out.put(gap & ((std::uint64_t{1} << r) - 1), r);
}

}  // namespace

unsigned best_rice(std::span<const std::uint32_t> indices, std::size_t n) {
  const auto middle = static_cast<unsigned>(std::bit_width(n / indices.size())) - 1;
  unsigned best = middle;
  std::uint64_t least = ~std::uint64_t{0};
  for (unsigned r = middle > 2 ? middle - 2 : 0; r <= middle + 1; ++r) {
    std::uint64_t bits = indices.size() * (r + std::uint64_t{1});
    std::uint32_t next = 0;
    for (const std::uint32_t i : indices) {
      bits += (i - next) >> r;
      next = i + 1;
    }
    if (bits < least) {
      least = bits;
      best = r;
    }
  }
  return best;
}

void write_gaps(wire::Writer& out, std::span<const std::uint32_t> indices, unsigned rice) {
  BitWriter bits(out);
  std::uint32_t next = 0;
  for (const std::uint32_t i : indices) {
    put_gap(bits, i - next, rice);
    next = i + 1;
  }
  bits.finish();
}

std::size_t gaps_max_bytes(std::size_t most, std::size_t n) {
  if (most == 0) return 0;
  // k·(log₂(n/k) + 3) grows with k, and log₂(n/k) < bit_width(n/k).
  return wire::ceil_div(most * (static_cast<std::size_t>(std::bit_width(n / most)) + 3), 8);
}

std::size_t GapReader::next() {
  const std::size_t left = n_ - next_;
  const std::uint64_t high = ones(left >> rice_);
  const std::uint64_t gap = (high << rice_) | take(rice_);
  if (gap >= left) throw PayloadError("payload holds an index past its last entry");
  next_ += static_cast<std::size_t>(gap) + 1;
  return next_ - 1;
}

void GapReader::finish() const {
  if (!in_.empty() || have_ >= 8 || pending_ != 0)
    throw PayloadError("payload holds bits after its last index");
}

std::uint64_t GapReader::take(unsigned count) {
  refill(count);
  const std::uint64_t value = pending_ & ((std::uint64_t{1} << count) - 1);
  drop(count);
  return value;
}

std::uint64_t GapReader::ones(std::uint64_t limit) {
  for (std::uint64_t total = 0;;) {
    refill(1);
    const auto run = std::min(static_cast<unsigned>(std::countr_one(pending_)), have_);
    total += run;
    if (total > limit) throw PayloadError("payload holds an index past its last entry");
    drop(run);
    if (have_ == 0) continue;
    drop(1);
    return total;
  }
}

void GapReader::refill(unsigned count) {
  while (have_ <= 56 && !in_.empty()) {
    pending_ |= static_cast<std::uint64_t>(in_.front()) << have_;
    in_ = in_.subspan(1);
    have_ += 8;
  }
  if (have_ < count) throw PayloadError("payload truncated: its indices end early");
}

void GapReader::drop(unsigned count) {
  pending_ = count < 64 ? pending_ >> count : 0;
  have_ -= count;
}

}  // namespace gossamer::compress
