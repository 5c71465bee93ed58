#pragma once
// Vectors and codecs that the tests share.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "gossamer/compress/codec.h"

namespace gossamer::compress::test {

using Vector = std::vector<float>;
using Bytes = std::vector<std::byte>;

inline double uniform(std::mt19937_64& random) {
  return (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53;
}

inline double normal(std::mt19937_64& random) {
  const double radius = std::sqrt(-2 * std::log(uniform(random)));
  return radius * std::cos(6.283185307179586 * uniform(random));
}

inline Vector gaussian(std::size_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Vector v(n);
  for (float& x : v) x = static_cast<float>(normal(random));
  return v;
}

inline Vector laplacian(std::size_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Vector v(n);
  for (float& x : v) {
    const double u = uniform(random) - 0.5;
    x = static_cast<float>(std::copysign(std::log(1 - 2 * std::fabs(u)), u));
  }
  return v;
}

/// Gaussian entries with the given chance of each to be there at all.
inline Vector sparse(std::size_t n, double density, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Vector v(n);
  for (float& x : v) x = uniform(random) < density ? static_cast<float>(normal(random)) : 0.0f;
  return v;
}

/// Magnitudes spread evenly over the exponents from `low` to `high`.
inline Vector wide(std::size_t n, double low, double high, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Vector v(n);
  for (float& x : v) {
    const double size = std::exp2(low + (high - low) * uniform(random));
    x = static_cast<float>(uniform(random) < 0.5 ? -size : size);
  }
  return v;
}

struct Named {
  std::string name;
  Vector v;
};

/// One vector of each kind that has broken a codec somewhere. n > 0.
inline std::vector<Named> families(std::size_t n, std::uint64_t seed) {
  std::vector<Named> all;
  all.push_back({"gaussian", gaussian(n, seed)});
  all.push_back({"laplacian", laplacian(n, seed)});
  all.push_back({"half sparse", sparse(n, 0.5, seed)});
  all.push_back({"5 % dense", sparse(n, 0.05, seed)});
  all.push_back({"0.1 % dense", sparse(n, 0.001, seed)});
  all.push_back({"constant", Vector(n, -0.25f)});
  all.push_back({"zero", Vector(n, 0.0f)});
  all.push_back({"one entry", Vector(n, 0.0f)});
  all.back().v[n / 2] = -7.5f;
  all.push_back({"one huge entry", gaussian(n, seed)});
  all.back().v[n / 3] = 1e6f;
  all.push_back({"tiny", wide(n, -149, -130, seed)});
  all.push_back({"huge", wide(n, 120, 127.9, seed)});
  all.push_back({"all exponents", wide(n, -149, 127.9, seed)});
  Vector ramp(n);
  for (std::size_t i = 0; i < n; ++i) ramp[i] = static_cast<float>(i) - static_cast<float>(n) / 2;
  all.push_back({"ramp", ramp});
  Vector negative_zero(n, -0.0f);
  negative_zero[0] = 1;
  all.push_back({"negative zeros", negative_zero});
  return all;
}

/// Every codec of the table at its defaults, and what else its parameters can say.
inline std::vector<std::string> all_specs() {
  std::vector<std::string> specs;
  for (const CodecRow& row : codec_table()) specs.emplace_back(row.name);
  for (const char* more : {"onebit:bucket=32",
                           "onebit:bucket=8192",
                           "onebit_scaled:lambda=auto",
                           "onebit_scaled:lambda=0.5,bound=0.95",
                           "onebit_scaled:bound=0.3",
                           "onebit_scaled:bucket=32",
                           "onebit_scaled:bucket=96",
                           "onebit_scaled:bucket=65536",
                           "onebit_scaled:lambda=0.8,bound_abs=2",
                           "onebit_scaled:bound_abs=1e-30,bucket=96",
                           "onebit_scaled:lambda=0.5,bound_abs=1e30",
                           "onebit_scaled:lambda=auto,bound_abs=0.5,bucket=8192",
                           "qsgd:bits=2",
                           "qsgd:bits=8",
                           "qsgd:bits=2,bucket=128,norm=l2",
                           "qsgd:norm=l2,bits=4",
                           "qsgd:bits=8,norm=l2,bucket=32",
                           "qsgd:bits=4,bucket=160",
                           "qsgd:bits=4,bucket=64,random=hash",
                           "qsgd:levels=2",
                           "qsgd:levels=3,norm=l2,bucket=32",
                           "qsgd:levels=16",
                           "qsgd:levels=16,coding=elias,bucket=160",
                           "qsgd:levels=126,random=hash",
                           "qsgd:levels=100,coding=auto",
                           "qsgd:levels=5,coding=rans",
                           "qsgd:levels=128",
                           "qsgd:levels=128,norm=l2,coding=elias,bucket=8192",
                           "qsgd:levels=1000,coding=auto,random=hash",
                           "qsgd:levels=65535",
                           "qsgd:levels=65535,coding=elias,bucket=160",
                           "qsgd:levels=sqrt,norm=l2,coding=elias_dense,bucket=65536",
                           "qsgd:levels=sqrt,bucket=32",
                           "onebit_two:bucket=32",
                           "onebit_two:bucket=8192",
                           "terngrad:clip=none",
                           "terngrad:clip=1",
                           "intq:bits=2",
                           "intq:bits=4,bucket=160",
                           "intq:bits=2,rounding=stochastic,bucket=32",
                           "intq:bits=8,rounding=stochastic",
                           "randk:density=0.3",
                           "randk:density=0.1,scale=1",
                           "randk:density=0.75,scale=1",
                           "randk:density=1",
                           "threshold:tau=1",
                           "threshold:tau=1e-30",
                           "topk:density=0.001",
                           "topk:density=0.3",
                           "topk:density=1",
                           "topk:values=fp16",
                           "topk:values=int8,density=0.1",
                           "topk:values=sign",
                           "topk:values=sign,density=1",
                           "topk:values=two_bit",
                           "topk:values=two_bit,density=0.3",
                           "topk:select=sampled",
                           "topk:select=trimmed,density=0.1",
                           "topk:select=bisect",
                           "topk:select=ldte_bs,density=0.001",
                           "topk:select=ldte_bs,density=0.6",
                           "topk:select=reuse,values=sign",
                           "topk:select=ldte_bs_paper",
                           "topk:select=radix",
                           "topk:select=hierarchical,density=0.001",
                           "intq:coding=elias",
                           "intq:bits=4,coding=elias_dense",
                           "intq:coding=rice,rounding=stochastic",
                           "intq:bits=4,coding=rans,bucket=160",
                           "intq:bits=2,coding=elias",
                           "intq:coding=auto",
                           "qsgd:coding=elias",
                           "qsgd:coding=elias_dense,norm=l2",
                           "qsgd:bits=8,coding=rice",
                           "qsgd:coding=rans,bucket=160",
                           "qsgd:bits=2,norm=l2,coding=auto",
                           "qsgd:bits=8,coding=auto",
                           "terngrad:coding=elias",
                           "terngrad:coding=rans",
                           "terngrad:coding=auto,clip=none",
                           "topk:coding=rice",
                           "topk:coding=fixed,values=fp16",
                           "topk:coding=packed,density=0.1",
                           "topk:coding=elias",
                           "topk:coding=runs,density=0.001",
                           "topk:coding=bitmap,values=sign",
                           "threshold:tau=1,coding=rice",
                           "threshold:tau=2,coding=elias",
                           "threshold:tau=1,coding=bitmap"}) {
    specs.emplace_back(more);
  }
  return specs;
}

/// The number behind density= in a canonical spec.
inline double density_of(const Codec& codec) {
  const std::string spec = codec.spec();
  return std::stod(spec.substr(spec.find("density=") + 8));
}

inline bool is_l2(const Codec& codec) { return codec.spec().find("norm=l2") != std::string::npos; }

inline const std::vector<std::size_t>& sizes() {
  static const std::vector<std::size_t> all = {0,   1,   2,   15,  16,   17,   31,   32,   33,
                                               511, 512, 513, 600, 1024, 4095, 4096, 4097, 100003};
  return all;
}

/// A payload of exactly its own size, so that a sanitizer sees any read past it.
inline Bytes encode(const Codec& codec, std::span<const float> v, RandomKey key = {}) {
  Workspace workspace;
  Bytes out(codec.max_bytes(v.size()));
  const std::size_t used = codec.encode(v, key, workspace, out);
  if (used > out.size()) throw std::logic_error("more bytes than max_bytes");
  return Bytes(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(used));
}

/// A payload of one entry, but that it claims a vector of 2³² entries.
inline Bytes claiming_2_to_32(const Codec& codec) {
  Bytes payload = encode(codec, Vector{2.0f});
  const Bytes claim{std::byte{0x80}, std::byte{0x80}, std::byte{0x80}, std::byte{0x80}, std::byte{0x10}};
  payload.erase(payload.begin() + 3);  // behind magic, version and codec
  payload.insert(payload.begin() + 3, claim.begin(), claim.end());
  return payload;
}

inline Vector decode(std::span<const std::byte> payload, std::size_t n) {
  Vector v(n, 0.0f);
  decode_add(payload, 1.0f, v);
  return v;
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

inline double squared(std::span<const float> v) {
  double sum = 0;
  for (const float x : v) sum += static_cast<double>(x) * x;
  return sum;
}

inline double squared_error(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = static_cast<double>(a[i]) - b[i];
    sum += d * d;
  }
  return sum;
}

inline double largest(std::span<const float> v) {
  double m = 0;
  for (const float x : v) m = std::max(m, std::fabs(static_cast<double>(x)));
  return m;
}

}  // namespace gossamer::compress::test
