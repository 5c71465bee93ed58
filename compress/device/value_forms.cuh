#pragma once
// How one value of a sparse payload becomes a field and back, in each of the forms of sparse_values.h.
// `State` is made once per thread; a payload's front of kFront bytes stands before its fields of kBits.
#include <cmath>

#include "half.cuh"
#include "values.h"

namespace gossamer::compress::cuda {

inline constexpr float kNotNumber = std::bit_cast<float>(0x7fc00000u);

/// A scale of a payload: 0 where it cannot be, which is refused.
__device__ inline float trusted_scale(const std::byte* at, DeviceResult* result) {
  const float scale = get_float(at);
  if (is_finite(scale) && !is_negative(scale)) return scale;
  refuse_payload(result, DeviceError::number);
  return 0;
}

struct WholeValues {
  static constexpr unsigned kBits = 32, kFront = 0;
  struct State {};
  __device__ static State encoder(const ValueScale&) { return {}; }
  __device__ static State decoder(const std::byte*, DeviceResult*) { return {}; }
  __device__ static void put_front(const ValueScale&, std::byte*) {}
  __device__ static std::uint32_t field(State, float v) { return bits_of(v); }
  /// NaN or Inf where the field stands for no number.
  __device__ static float value(State, std::uint32_t field) { return std::bit_cast<float>(field); }
};

struct HalfValues {
  static constexpr unsigned kBits = 16, kFront = 2;
  using State = HalfScale;
  __device__ static State encoder(const ValueScale& scale) {
    return half_scale(shared_exponent(scale.largest));
  }
  __device__ static State decoder(const std::byte* at, DeviceResult* result) {
    return read_half_scale(at, result);
  }
  __device__ static void put_front(const ValueScale& scale, std::byte* at) {
    put_bytes(at, static_cast<std::uint32_t>(shared_exponent(scale.largest)), 2);
  }
  __device__ static std::uint32_t field(const State& s, float v) { return half_field(s, v); }
  __device__ static float value(const State& s, std::uint32_t field) { return half_value(s, field); }
};

struct ByteValues {
  static constexpr unsigned kBits = 8, kFront = 4;
  static constexpr double kTop = 127;
  struct State {
    double scale, factor;
  };
  __device__ static State encoder(const ValueScale& scale) {
    const double largest = std::bit_cast<float>(scale.largest);
    return {largest, largest > 0 ? kTop / largest : 0};
  }
  __device__ static State decoder(const std::byte* at, DeviceResult* result) {
    return {trusted_scale(at, result), 0};
  }
  __device__ static void put_front(const ValueScale& scale, std::byte* at) {
    put_bytes(at, scale.largest, 4);
  }
  __device__ static std::uint32_t field(const State& s, float v) {
    const double level = std::floor(static_cast<double>(v) * s.factor + 0.5);
    return static_cast<std::uint8_t>(static_cast<std::int8_t>(level));
  }
  __device__ static float value(const State& s, std::uint32_t field) {
    const auto level = static_cast<std::int8_t>(static_cast<std::uint8_t>(field));
    return level == -128 ? kNotNumber : static_cast<float>(s.scale * level / kTop);
  }
};

struct SignValues {
  static constexpr unsigned kBits = 1, kFront = 4;
  struct State {
    float mean;
  };
  __device__ static State encoder(const ValueScale& scale) { return {scale.first}; }
  __device__ static State decoder(const std::byte* at, DeviceResult* result) {
    return {trusted_scale(at, result)};
  }
  __device__ static void put_front(const ValueScale& scale, std::byte* at) {
    put_bytes(at, bits_of(scale.first), 4);
  }
  __device__ static std::uint32_t field(State, float v) { return v >= 0 ? 1 : 0; }
  __device__ static float value(State s, std::uint32_t field) { return field != 0 ? s.mean : -s.mean; }
};

struct TwoBitValues {
  static constexpr unsigned kBits = 2, kFront = 8;
  struct State {
    float low, high;
    double middle;
  };
  __device__ static State encoder(const ValueScale& scale) {
    return {scale.first, scale.second, scale.middle};
  }
  __device__ static State decoder(const std::byte* at, DeviceResult* result) {
    return {trusted_scale(at, result), trusted_scale(at + 4, result), 0};
  }
  __device__ static void put_front(const ValueScale& scale, std::byte* at) {
    put_bytes(at, bits_of(scale.first), 4);
    put_bytes(at + 4, bits_of(scale.second), 4);
  }
  __device__ static std::uint32_t field(const State& s, float v) {
    const bool large = static_cast<double>(absolute(v)) > s.middle;
    return (is_negative(v) ? 0u : 1u) | (large ? 2u : 0u);
  }
  __device__ static float value(const State& s, std::uint32_t field) {
    const float size = (field & 2u) != 0 ? s.high : s.low;
    return (field & 1u) != 0 ? size : -size;
  }
};

}  // namespace gossamer::compress::cuda
