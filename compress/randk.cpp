#include <algorithm>
#include <array>
#include <cmath>

#include "codecs.h"
#include "philox.h"
#include "sparse.h"

namespace gossamer::compress {
namespace {

/// A keyed permutation of 0 … n−1 that takes no memory: an eight-round Feistel network on pairs (left < a,
/// right < b), a·b ≥ n, walked on until it lands below n (Black & Rogaway 2002, "Ciphers with arbitrary
/// finite domains", sections 4 and 5). Its first k values are k distinct indices. n < 2³².
class Permutation {
 public:
  Permutation(std::uint64_t seed, std::uint32_t n) : n_(n) {
    a_ = static_cast<std::uint32_t>(std::sqrt(static_cast<double>(n)));
    while (std::uint64_t{a_} * a_ < n) ++a_;
    b_ = static_cast<std::uint32_t>(wire::ceil_div(n, a_));
    EntryBits::Group bits;
    EntryBits({.seed = seed}).group(0, bits);
    for (std::size_t r = 0; r < keys_.size(); ++r) {
      keys_[r] = bits[2 * r] | static_cast<std::uint32_t>(bits[2 * r + 1]) << 16;
    }
  }

  std::uint32_t operator()(std::uint32_t j) const {
    std::uint64_t at = j;
    do at = step(at);
    while (at >= n_);
    return static_cast<std::uint32_t>(at);
  }

 private:
  static constexpr std::size_t kRounds = 8;

  /// Even rounds move the left half by a hash of the right, odd ones the right by a hash of the left.
  std::uint64_t step(std::uint64_t at) const {
    auto left = static_cast<std::uint32_t>(at / b_), right = static_cast<std::uint32_t>(at % b_);
    for (std::size_t r = 0; r < kRounds; r += 2) {
      left = shifted(left, hash(right, r), a_);
      right = shifted(right, hash(left, r + 1), b_);
    }
    return std::uint64_t{left} * b_ + right;
  }
  static std::uint32_t shifted(std::uint32_t half, std::uint32_t random, std::uint32_t size) {
    const std::uint64_t sum = half + ((std::uint64_t{random} * size) >> 32);
    return static_cast<std::uint32_t>(sum >= size ? sum - size : sum);
  }
  /// Two keys and the finaliser of MurmurHash3 between them.
  std::uint32_t hash(std::uint32_t half, std::size_t round) const {
    std::uint32_t h = half * 0x9e3779b1u + keys_[2 * round];
    h = (h ^ (h >> 16)) * 0x85ebca6bu;
    h = (h ^ (h >> 13)) * 0xc2b2ae35u;
    h = (h ^ (h >> 16)) + keys_[2 * round + 1];
    h = (h ^ (h >> 15)) * 0x2c1b3c6du;
    return h ^ (h >> 16);
  }

  std::uint32_t n_, a_, b_;
  std::array<std::uint32_t, 2 * kRounds> keys_;
};

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
  Traits traits() const override { return {.unbiased = scaled_, .contractive = !scaled_ || density_ > 0.5}; }
  std::size_t max_bytes(std::size_t n) const override {
    return wire::kHeaderMax + wire::kVarintMax + sizeof(std::uint64_t) + kept(n) * sizeof(float);
  }

 private:
  Sent encode_sparse(const Source& v, SelectionState&, RandomKey key, Workspace& workspace,
                     std::span<std::byte> out) const override {
    const std::size_t n = v.g.size(), k = kept(n);
    wire::require_room(out, max_bytes(n));
    if (n == 0) return {.bytes = write_front(out, 0, 0).size()};
    if (n > 0xffffffffu)
      throw EncodeError("cannot encode: randk takes vectors under 2^32 entries; slice the layer");
    const float factor = scaled_ ? static_cast<float>(static_cast<double>(n) / static_cast<double>(k)) : 1.0f;
    const std::uint64_t seed = seed_of(key);
    const Permutation index(seed, static_cast<std::uint32_t>(n));
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
  std::size_t kept(std::size_t n) const {
    if (n == 0) return 0;
    const double k = std::ceil(density_ * static_cast<double>(n));
    return std::clamp<std::size_t>(static_cast<std::size_t>(k), 1, n);
  }
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
  if (k > n || (k == 0 && n > 0) || n > 0xffffffffu) {
    throw PayloadError("payload claims " + std::to_string(k) + " of " + std::to_string(n) + " entries");
  }
  if (k == 0) return;
  std::uint64_t seed;
  std::memcpy(&seed, in.take(sizeof seed).data(), sizeof seed);
  in.expect_left(static_cast<std::size_t>(k) * sizeof(float));
  const Permutation index(seed, static_cast<std::uint32_t>(n));
  for (std::uint64_t j = 0; j < k; ++j) acc[index(static_cast<std::uint32_t>(j))] += weight * in.f32();
}

}  // namespace gossamer::compress
