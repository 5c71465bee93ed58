#pragma once
// What the kernels of all codecs share.
#include <grid.cuh>

#include <bit>
#include <cstddef>
#include <cstdint>

#include "gossamer/compress/device.h"

namespace gossamer::compress::cuda {

constexpr std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }
constexpr std::uint32_t magnitude_of(float x) { return bits_of(x) & 0x7fffffffu; }
constexpr bool is_finite(float x) { return magnitude_of(x) < 0x7f800000u; }
constexpr float absolute(float x) { return std::bit_cast<float>(magnitude_of(x)); }
constexpr double absolute(double x) {
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(x) & ~(std::uint64_t{1} << 63));
}
constexpr bool is_negative(float x) { return (bits_of(x) >> 31) != 0; }

/// The vector to encode, v = g + residual, or with momentum correction v = residual + u, u =
/// momentum·velocity + g; and where what the payload leaves out of it goes. residual, next and both
/// velocities may be null.
struct Input {
  const float* g;
  const float* residual = nullptr;
  float* next = nullptr;
  const float* velocity = nullptr;
  float* next_velocity = nullptr;
  float momentum = 0;

  __device__ float moved(std::size_t i) const {
    return velocity != nullptr ? momentum * velocity[i] + g[i] : g[i];
  }
  __device__ float value(std::size_t i) const {
    return residual != nullptr ? residual[i] + moved(i) : moved(i);
  }
  /// decoded is what the payload says of entry i. Once for each entry, by the thread that read v last.
  __device__ void keep(std::size_t i, float v, float decoded) const {
    if (next == nullptr) return;
    if (next_velocity != nullptr) next_velocity[i] = decoded != 0 ? 0.0f : moved(i);
    next[i] = next_velocity != nullptr && decoded == 0 ? v : v - decoded;
  }
  /// After keep(i, v, 0), for the few entries that were sent.
  __device__ void sent(std::size_t i, float v, float decoded) const {
    if (next == nullptr || (next_velocity != nullptr && decoded == 0)) return;
    if (next_velocity != nullptr) next_velocity[i] = 0;
    next[i] = v - decoded;
  }
};

__device__ inline void refuse_entry(DeviceResult* result, std::size_t i, DeviceError why) {
  atomicMin(&result->first_bad, static_cast<unsigned long long>(i));
  result->error = why;
}
__device__ inline void refuse_payload(DeviceResult* result, DeviceError why) { result->error = why; }
/// Whether an earlier kernel, or another block, found the payload malformed; the same answer in all lanes.
__device__ inline bool refused(const DeviceResult* result) {
  return __any_sync(kAllLanes, result->error != DeviceError::none) != 0;
}

/// Writes the low `count` bytes of word, at any address.
__device__ inline void put_bytes(std::byte* at, std::uint32_t word, std::size_t count) {
  if (count == 4 && reinterpret_cast<std::uintptr_t>(at) % 4 == 0) {
    *reinterpret_cast<std::uint32_t*>(at) = word;
    return;
  }
  for (std::size_t k = 0; k < count; ++k) at[k] = static_cast<std::byte>(word >> (8 * k));
}

/// The word at any address of a 4-byte aligned buffer, of which `left` bytes are there from `at` on; zeros
/// beyond.
__device__ inline std::uint32_t get_word(const std::byte* at, std::size_t left) {
  const unsigned skew = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(at) % 4);
  if (left >= 8 - skew || (skew == 0 && left >= 4)) {
    const auto* words = reinterpret_cast<const std::uint32_t*>(at - skew);
    return skew == 0 ? words[0] : __funnelshift_r(words[0], words[1], 8 * skew);
  }
  std::uint32_t word = 0;
  for (std::size_t k = 0; k < least(left, 4); ++k) word |= static_cast<std::uint32_t>(at[k]) << (8 * k);
  return word;
}
__device__ inline float get_float(const std::byte* at) { return std::bit_cast<float>(get_word(at, 4)); }

/// A warp writes 32 words of a body of `bytes` bytes, lane's word as number w (w of lane 0 plus lane), in
/// aligned stores wherever the body starts.
__device__ inline void put_words(std::byte* body, std::size_t bytes, std::size_t w, std::uint32_t word) {
  const std::size_t skew = reinterpret_cast<std::uintptr_t>(body) % 4;
  const std::uint32_t before = __shfl_up_sync(kAllLanes, word, 1);
  const std::size_t at = 4 * w;
  if (skew == 0) {
    if (at < bytes) put_bytes(body + at, word, least(4, bytes - at));
    return;
  }
  // The aligned word that ends 4 − skew bytes into this lane's: its first bytes are the lane's before.
  const unsigned shift = 8 * static_cast<unsigned>(skew);
  const bool first = lane_of_warp() == 0;
  const std::uint32_t merged = first ? word : __funnelshift_r(before, word, 32 - shift);
  const std::size_t from = first ? at : at - skew, to = least(bytes, at + 4 - skew);
  if (from < to) put_bytes(body + from, merged, to - from);
  const std::size_t rest = at + 4 - skew, end = least(bytes, at + 4);
  if (lane_of_warp() == kWarp - 1 && rest < end) put_bytes(body + rest, word >> (32 - shift), end - rest);
}

}  // namespace gossamer::compress::cuda
