#include <array>
#include <cmath>

#include "codecs.h"
#include "permutation.h"
#include "sparse.h"

namespace gossamer::compress {
namespace {

/// k = max(1, ⌈density·n⌉) indices drawn uniformly without repetition, with the values there; the indices are
/// not sent but drawn again from a seed in the payload, which comes from the RandomKey (Stich, Cordonnier &
/// Jaggi 2018, "Sparsified SGD with memory", definition 2.1; shared seeds: Konečný et al. 2016).
///
/// scale=0 (the default, for error feedback and CHOCO): the values as they are. Biased; contractive with δ =
/// k/n, E‖C[v]−v‖² = (1 − k/n)‖v‖².
/// scale=1 (for plain averaging): times n/k, unbiased, relative variance n/k − 1; contractive only for a
/// density above ½. A value that leaves float's range is refused.
///
/// Payload: header, varint k, u64 seed, k × fp32. Vectors under 2³² entries.
class RandK final : public SparseCodec {
 public:
  RandK(double density, bool scaled) : density_(density), scaled_(scaled) {}

  std::string spec() const override {
    return "randk:density=" + to_text(density_) + ",scale=" + (scaled_ ? "1" : "0");
  }
  std::string_view name() const override { return "randk"; }
  Traits traits() const override {
    const bool contractive = !scaled_ || density_ > 0.5;
    const double each = scaled_ ? 2 * density_ - 1 : density_;  // (1−ω)/(1+ω), ω = n/k − 1
    const double delta = contractive ? each : 0;
    return {
        .unbiased = scaled_, .contractive = contractive, .delta = delta, .promised = delta, .sparse = true};
  }
  std::size_t max_bytes(std::size_t n) const override {
    return wire::kHeaderMax + wire::kVarintMax + sizeof(std::uint64_t) + kept(n) * sizeof(float);
  }

 private:
  Sent encode_sparse(const Source& v, SelectionState&, RandomKey key, Workspace& workspace,
                     std::span<std::byte> out) const override {
    const std::size_t n = v.g.size(), k = kept(n);
    wire::require_room(out, max_bytes(n));
    if (n == 0) return {.bytes = write_front(out, 0, 0).size()};
    wire::require_indexable(n, "randk");
    const float factor = scaled_ ? static_cast<float>(static_cast<double>(n) / static_cast<double>(k)) : 1.0f;
    const std::uint64_t seed = seed_of(key);
    const Permutation index = Permutation::of(seed, static_cast<std::uint32_t>(n));
    // Before anything is formed.
    for (std::uint32_t j = 0; scaled_ && j < k; ++j) {
      const float value = v.at(index(j));
      if (std::isfinite(value) && !std::isfinite(value * factor)) refuse(index(j), value, factor);
    }
    const std::span<const float> x = form(v, workspace);
    const auto indices = workspace.words(k);
    for (std::uint32_t j = 0; j < k; ++j) indices[j] = index(j);
    wire::Writer writer = write_front(out, n, k);
    writer.bytes(&seed, sizeof seed);
    const std::size_t front = writer.size();
    for (const std::uint32_t i : indices) writer.f32(x[i] * factor);
    return {writer.size(), indices, ValueForm::fp32, out.first(writer.size()).subspan(front)};
  }
  std::size_t kept(std::size_t n) const { return kept_entries(density_, n); }
  static wire::Writer write_front(std::span<std::byte> out, std::size_t n, std::size_t k) {
    wire::Writer writer(out);
    writer.header(wire::CodecId::randk, n);
    writer.varint(k);
    return writer;
  }
  static std::uint64_t seed_of(const RandomKey& key) {
    EntryBits::Group bits;
    EntryBits(key).group(0, bits);
    std::uint64_t seed = 0;
    for (std::size_t i = 0; i < 4; ++i) seed = seed << 16 | bits[i];
    return seed;
  }
  [[noreturn]] static void refuse(std::uint32_t i, float value, float factor) {
    throw EncodeError("cannot encode: entry " + std::to_string(i) + " is " + std::to_string(value) +
                      ", and times n/k = " + std::to_string(factor) +
                      " beyond float's range; use scale=0 or clip");
  }

  double density_;
  bool scaled_;
};

}  // namespace

std::unique_ptr<const Codec> make_randk(Parameters& parameters) {
  const double density = parameters.real("density", 0.01, "a number above 0 and at most 1",
                                         [](double d) { return d > 0 && d <= 1; });
  constexpr std::array<std::string_view, 2> kScales = {"0", "1"};
  return std::make_unique<RandK>(density, parameters.choice("scale", kScales) == 1);
}

void decode_randk(wire::Reader& in, float weight, std::span<float> acc, Threads*) {
  const std::size_t n = acc.size();
  const std::uint64_t k = in.varint();
  if (k > n || (k == 0 && n > 0) || n > wire::kIndexedMax) {
    throw PayloadError("payload claims " + std::to_string(k) + " of " + std::to_string(n) + " entries");
  }
  if (k == 0) return;
  std::uint64_t seed;
  std::memcpy(&seed, in.take(sizeof seed).data(), sizeof seed);
  in.expect_left(static_cast<std::size_t>(k) * sizeof(float));
  const Permutation index = Permutation::of(seed, static_cast<std::uint32_t>(n));
  for (std::uint64_t j = 0; j < k; ++j) acc[index(static_cast<std::uint32_t>(j))] += weight * in.f32();
}

}  // namespace gossamer::compress
