#pragma once
// The sample that a threshold is estimated from: runs of one cache line each, one from every equal part of
// the vector. For the CPU and for CUDA devices.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "gossamer/compress/codec.h"

namespace gossamer::compress {

inline constexpr std::size_t kSampleRun = 16;  ///< entries of one line

struct Sample {
  std::size_t runs = 0;  ///< 0: the vector is too small for a sample
  std::size_t rank = 0;  ///< of the threshold in the sample; 0: it lies below the sample
  std::size_t entries() const { return runs * kSampleRun; }
};

/// For a threshold that about `wanted` ≥ 1 of n entries reach, and with `surely` at least about as many:
/// about 12·weight entries of that size are in the sample.
inline Sample plan_sample(std::size_t n, double wanted, bool surely, double weight) {
  const auto size = static_cast<double>(n);
  const double entries = std::min(std::max(12 * weight * size / wanted, 2048.0), size / 4);
  const std::size_t runs = static_cast<std::size_t>(entries) / kSampleRun;
  if (runs < 8) return {};
  Sample sample{runs, 0};
  const double mean = wanted * static_cast<double>(sample.entries()) / size;
  const double rank = surely ? mean + 2.5 * std::sqrt(mean) + 1 : mean;
  if (rank > static_cast<double>(sample.entries())) return sample;
  sample.rank = std::max<std::size_t>(1, static_cast<std::size_t>(rank));
  return sample;
}

constexpr std::uint64_t mixed(std::uint64_t z) {  // finaliser of SplitMix64 (Steele et al. 2014)
  z += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/// What places the sample's lines.
constexpr std::uint64_t draw_of(const RandomKey& key) {
  std::uint64_t draw = key.seed;
  const std::uint64_t parts[] = {key.peer, key.layer, key.round};
  for (const std::uint64_t part : parts) draw = draw * 0xd1342543de82ef95u + part + 1;
  return draw << 20;
}

/// The first entry of run j of `runs` in a vector of n.
constexpr std::size_t start_of_run(std::size_t n, std::size_t runs, std::uint64_t draw, std::size_t j) {
  const std::size_t lines = n / kSampleRun, from = lines * j / runs, to = lines * (j + 1) / runs;
  return (from + (mixed(draw + j) >> 32) * (to - from) / (std::uint64_t{1} << 32)) * kSampleRun;
}

}  // namespace gossamer::compress
