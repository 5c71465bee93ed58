#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "codecs.h"
#include "gaps.h"

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
    return wire::kHeaderMax + wire::kVarintMax + 1 + gaps_max_bytes(k, n) + k * sizeof(float);
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
    write_gaps(writer, indices, rice);
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
  if (rice > kRiceMax) throw PayloadError("payload claims a Rice parameter of " + std::to_string(rice));
  // Each value takes four bytes: a claimed k beyond what is there ends here, before any loop.
  if (k > in.left() / sizeof(float)) throw PayloadError("payload truncated: fewer values than it claims");
  GapReader gaps(in.take(in.left() - static_cast<std::size_t>(k) * sizeof(float)), rice, n);
  for (std::uint64_t j = 0; j < k; ++j) acc[gaps.next()] += weight * in.f32();
  gaps.finish();
}

}  // namespace gossamer::compress
