#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "codecs.h"

namespace gossamer::compress {
namespace {

std::uint32_t magnitude_bits(float x) { return std::bit_cast<std::uint32_t>(x) & 0x7fffffffu; }

/// What to keep: every magnitude above `threshold`, and the first `ties` that equal it.
struct Cut {
  std::uint32_t threshold;
  std::size_t ties;
};

/// The k-th largest magnitude, exactly: a histogram of the leading 11 bits finds its bin, selection within
/// the bin the rest. scratch ≥ x.size().
Cut find_cut(std::span<const float> x, std::size_t k, std::span<std::uint32_t> scratch) {
  // Four histograms in turn, for neighbours often fall into the same bin.
  std::array<std::array<std::uint64_t, 2048>, 4> histogram{};
  for (std::size_t i = 0; i < x.size(); ++i) ++histogram[i % 4][magnitude_bits(x[i]) >> 20];
  std::size_t above = 0, bin = 2048;
  for (std::size_t in_bin = 0; above + in_bin < k;) {
    above += in_bin;
    --bin;
    in_bin = histogram[0][bin] + histogram[1][bin] + histogram[2][bin] + histogram[3][bin];
  }
  std::size_t count = 0;
  for (const float v : x) {
    scratch[count] = magnitude_bits(v);
    count += (scratch[count] >> 20) == bin ? 1 : 0;
  }
  const auto candidates = scratch.first(count);
  const std::size_t rank = k - above;  // ≥ 1
  const auto nth = candidates.begin() + static_cast<std::ptrdiff_t>(rank - 1);
  std::nth_element(candidates.begin(), nth, candidates.end(), std::greater<>());
  const auto larger = std::count_if(candidates.begin(), nth, [&](std::uint32_t m) { return m > *nth; });
  return {*nth, rank - static_cast<std::size_t>(larger)};
}

/// Ascending indices of the entries that cut keeps, into scratch; returns those used.
std::span<std::uint32_t> select(std::span<const float> x, Cut cut, std::span<std::uint32_t> scratch) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::uint32_t m = magnitude_bits(x[i]);
    if (m < cut.threshold) continue;
    if (m == cut.threshold) {
      if (cut.ties == 0) continue;
      --cut.ties;
    }
    scratch[count++] = static_cast<std::uint32_t>(i);
  }
  return scratch.first(count);
}

/// Bits go in and out lowest first.
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

class BitReader {
 public:
  explicit BitReader(std::span<const std::byte> in) : in_(in) {}
  std::uint64_t take(unsigned count) {
    refill(count);
    const std::uint64_t value = pending_ & ((std::uint64_t{1} << count) - 1);
    drop(count);
    return value;
  }
  /// Ones up to the next zero; throws where there are more than limit.
  std::uint64_t ones(std::uint64_t limit) {
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
  void finish() const {
    if (!in_.empty() || have_ >= 8 || pending_ != 0)
      throw PayloadError("payload holds bits after its last index");
  }

 private:
  void refill(unsigned count) {
    while (have_ <= 56 && !in_.empty()) {
      pending_ |= static_cast<std::uint64_t>(in_.front()) << have_;
      in_ = in_.subspan(1);
      have_ += 8;
    }
    if (have_ < count) throw PayloadError("payload truncated: its indices end early");
  }
  void drop(unsigned count) {
    pending_ = count < 64 ? pending_ >> count : 0;
    have_ -= count;
  }
  std::span<const std::byte> in_;
  std::uint64_t pending_ = 0;
  unsigned have_ = 0;
};

/// Rice code of a gap: gap >> r ones, a zero, the low r bits.
void put_gap(BitWriter& out, std::uint32_t gap, unsigned r) {
  std::uint32_t ones = gap >> r;
  for (; ones >= 32; ones -= 32) out.put(0xffffffffu, 32);
  out.put((std::uint64_t{1} << ones) - 1, ones);
  out.put(0, 1);
  out.put(gap & ((std::uint64_t{1} << r) - 1), r);
}

/// r = ⌊log₂(n/k)⌋ never needs more than k·(r+3) bits; its neighbours are tried for fewer.
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

/// The k = max(1, ⌈density·n⌉) entries of largest magnitude, exact values; ties go to the lowest index (Aji &
/// Heafield 2017, "Sparse communication for distributed gradient descent"). Contractive with δ = k/n.
/// Payload: header, varint k, u8 Rice parameter r, the gaps between indices in Rice code, padded to a byte, k
/// × fp32. Vectors under 2³² entries.
class TopK final : public Codec {
 public:
  explicit TopK(double density) : density_(density) {}

  std::string spec() const override { return "topk:density=" + to_text(density_); }
  std::string_view name() const override { return "topk"; }
  Traits traits() const override { return {.contractive = true}; }

  std::size_t max_bytes(std::size_t n) const override {
    const std::size_t k = kept(n);
    const std::size_t rice = k == 0 ? 0 : static_cast<std::size_t>(std::bit_width(n / k)) - 1;
    return wire::kHeaderMax + wire::kVarintMax + 1 + wire::ceil_div(k * (rice + 3), 8) + k * sizeof(float);
  }

  std::size_t encode(std::span<const float> x, RandomKey, Workspace& workspace,
                     std::span<std::byte> out) const override {
    const std::size_t n = x.size(), k = kept(n);
    wire::require_room(out, max_bytes(n));
    if (n > 0xffffffffu)
      throw EncodeError("cannot encode: topk takes vectors under 2^32 entries; slice the layer");
    wire::require_finite(x);
    wire::Writer writer(out);
    writer.header(wire::CodecId::topk, n);
    writer.varint(k);
    if (k == 0) return writer.size();
    const auto scratch = workspace.words(n + 1);
    const auto indices = select(x, find_cut(x, k, scratch), scratch);
    assert(indices.size() == k);
    const unsigned rice = best_rice(indices, n);
    writer.u8(static_cast<std::uint8_t>(rice));
    BitWriter bits(writer);
    std::uint32_t next = 0;
    for (const std::uint32_t i : indices) {
      put_gap(bits, i - next, rice);
      next = i + 1;
    }
    bits.finish();
    for (const std::uint32_t i : indices) writer.f32(x[i]);
    return writer.size();
  }

 private:
  std::size_t kept(std::size_t n) const {
    if (n == 0) return 0;
    const double k = std::ceil(density_ * static_cast<double>(n));
    return std::clamp<std::size_t>(static_cast<std::size_t>(k), 1, n);
  }

  double density_;
};

}  // namespace

std::unique_ptr<const Codec> make_topk(Parameters& parameters) {
  return std::make_unique<TopK>(parameters.real("density", 0.01, "a number above 0 and at most 1",
                                                [](double d) { return d > 0 && d <= 1; }));
}

void decode_topk(wire::Reader& in, float weight, std::span<float> acc) {
  const std::size_t n = acc.size();
  const std::uint64_t k = in.varint();
  if (k > n || (k == 0 && n > 0)) {
    throw PayloadError("payload claims " + std::to_string(k) + " of " + std::to_string(n) + " entries");
  }
  if (k == 0) return;
  const unsigned rice = in.u8();
  if (rice > 32) throw PayloadError("payload claims a Rice parameter of " + std::to_string(rice));
  // Each value takes four bytes: a claimed k beyond what is there ends here, before any loop.
  if (k > in.left() / sizeof(float)) throw PayloadError("payload truncated: fewer values than it claims");
  BitReader gaps(in.take(in.left() - static_cast<std::size_t>(k) * sizeof(float)));
  std::size_t next = 0;
  for (std::uint64_t j = 0; j < k; ++j) {
    const std::uint64_t gap = (gaps.ones((n - next) >> rice) << rice) | gaps.take(rice);
    if (gap >= n - next) throw PayloadError("payload holds an index past its last entry");
    next += static_cast<std::size_t>(gap);
    acc[next++] += weight * in.f32();
  }
  gaps.finish();
}

}  // namespace gossamer::compress
