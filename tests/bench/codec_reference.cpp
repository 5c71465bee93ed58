#include "codec_reference.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>

namespace gossamer::node::reference {
namespace {

constexpr int kLevels = 7;

/// Marsaglia 2003, "Xorshift RNGs": 64 bits, three shifts.
class Xorshift {
 public:
  explicit Xorshift(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u | 1) {}
  /// In [0, 1), 24 bits.
  float uniform() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<float>(state_ >> 40) * 0x1p-24f;
  }

 private:
  std::uint64_t state_;
};

float largest_magnitude(std::span<const float> x) {
  float largest = 0;
  for (const float v : x) largest = std::max(largest, std::fabs(v));
  return largest;
}

/// A level of 0 … 7, rounded up with the chance that makes it right in the mean; factor = 7/norm.
int level_of(float x, float factor, Xorshift& random) {
  const float position = std::fabs(x) * factor;
  return std::min(static_cast<int>(position + random.uniform()), kLevels);
}

std::uint32_t magnitude_bits(float x) { return std::bit_cast<std::uint32_t>(x) & 0x7fffffffu; }

/// All above the threshold, and of those that equal it the first few that are still missing.
void gather(std::span<const float> x, std::uint32_t threshold, std::size_t k, Entries& out) {
  std::size_t above = 0;
  for (const float v : x) above += magnitude_bits(v) > threshold ? 1 : 0;
  std::size_t equal = k - above;
  out.indices.clear();
  out.values.clear();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::uint32_t m = magnitude_bits(x[i]);
    if (m < threshold || (m == threshold && equal == 0)) continue;
    if (m == threshold) --equal;
    out.indices.push_back(static_cast<std::uint32_t>(i));
    out.values.push_back(x[i]);
  }
}

class BitWriter {
 public:
  explicit BitWriter(BitString& out) : out_(out) {
    out.bytes.clear();
    out.bits = 0;
  }
  void bit(std::uint32_t value) {
    if (out_.bits % 8 == 0) out_.bytes.push_back(0);
    out_.bytes.back() = static_cast<std::uint8_t>(out_.bytes.back() | value << (out_.bits % 8));
    ++out_.bits;
  }
  void number(std::uint32_t value, int width) {
    while (width-- > 0) bit(value >> width & 1);
  }
  void norm(float value) { number(std::bit_cast<std::uint32_t>(value), 32); }
  /// Elias 1975: the number, before it its width − 1, and so on down to 1; then a zero. value ≥ 1.
  void omega(std::uint32_t value) {
    std::array<std::uint32_t, 6> groups{};
    int count = 0;
    for (; value > 1; value = static_cast<std::uint32_t>(std::bit_width(value)) - 1) groups[count++] = value;
    while (count-- > 0) number(groups[count], static_cast<int>(std::bit_width(groups[count])));
    bit(0);
  }

 private:
  BitString& out_;
};

class BitReader {
 public:
  explicit BitReader(const BitString& in) : in_(in) {}
  std::uint32_t bit() {
    const std::uint32_t value = in_.bytes[at_ / 8] >> (at_ % 8) & 1;
    ++at_;
    return value;
  }
  std::uint32_t number(std::uint32_t width, std::uint32_t value = 0) {
    for (; width > 0; --width) value = value << 1 | bit();
    return value;
  }
  float norm() { return std::bit_cast<float>(number(32)); }
  std::uint32_t omega() {
    std::uint32_t value = 1;
    while (bit() != 0) value = number(value, 1);
    return value;
  }

 private:
  const BitString& in_;
  std::size_t at_ = 0;
};

/// Signed levels of one bucket.
using Bucket = std::array<int, kBucket>;

/// Returns the norm.
float quantise(std::span<const float> x, Xorshift& random, Bucket& levels) {
  const float norm = largest_magnitude(x);
  const float factor = norm > 0 ? static_cast<float>(kLevels) / norm : 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const int level = level_of(x[i], factor, random);
    levels[i] = x[i] < 0 ? -level : level;
  }
  return norm;
}

float value_of(std::uint32_t level, bool negative, float norm) {
  const float size = norm * static_cast<float>(level) / static_cast<float>(kLevels);
  return negative ? -size : size;
}

/// Bits of up to 8 entries ≥ 0; takes from each what it is decoded to.
std::uint8_t signs_of(float* e, std::size_t count, const float (&value)[2]) {
  unsigned byte = 0;
  for (std::size_t j = 0; j < count; ++j) {
    const unsigned positive = e[j] >= 0 ? 1 : 0;
    byte |= positive << j;
    e[j] -= value[positive];
  }
  return static_cast<std::uint8_t>(byte);
}

}  // namespace

void onebit_encode_feedback(std::span<const float> g, std::span<float> e, Signs& out) {
  for (std::size_t start = 0; start < g.size(); start += kBucket) {
    const std::size_t end = std::min(start + kBucket, g.size());
    const auto accumulate = [&](std::size_t i) { return std::fabs(e[i] += g[i]); };
    float even = 0, odd = 0;  // a single sum would wait for its own last addition
    std::size_t i = start;
    for (; i + 1 < end; i += 2) {
      even += accumulate(i);
      odd += accumulate(i + 1);
    }
    if (i < end) even += accumulate(i);
    const float scale = (even + odd) / static_cast<float>(end - start), value[2] = {-scale, scale};
    out.scale[start / kBucket] = scale;
    i = start;
    for (; i + 8 <= end; i += 8) out.bits[i / 8] = signs_of(e.data() + i, 8, value);
    if (i < end) out.bits[i / 8] = signs_of(e.data() + i, end - i, value);
  }
}

void onebit_decode(const Signs& in, std::span<float> y) {
  for (std::size_t start = 0; start < y.size(); start += kBucket) {
    const float value[2] = {-in.scale[start / kBucket], in.scale[start / kBucket]};
    const std::size_t end = std::min(start + kBucket, y.size());
    for (std::size_t i = start; i < end; ++i) y[i] = value[in.bits[i / 8] >> (i % 8) & 1];
  }
}

void onebit_decode_add(const Signs& in, float weight, std::span<float> y) {
  for (std::size_t start = 0; start < y.size(); start += kBucket) {
    const float scale = weight * in.scale[start / kBucket], value[2] = {-scale, scale};
    const std::size_t end = std::min(start + kBucket, y.size());
    for (std::size_t i = start; i < end; ++i) y[i] += value[in.bits[i / 8] >> (i % 8) & 1];
  }
}

void qsgd4_encode(std::span<const float> x, std::uint64_t seed, Levels& out) {
  Xorshift random(seed);
  for (std::size_t start = 0; start < x.size(); start += kBucket) {
    const std::size_t end = std::min(start + kBucket, x.size());
    const float norm = largest_magnitude(x.subspan(start, end - start));
    const float factor = norm > 0 ? static_cast<float>(kLevels) / norm : 0;
    out.norm[start / kBucket] = norm;
    const auto field = [&](std::size_t i) {
      return i < end ? level_of(x[i], factor, random) | (std::signbit(x[i]) ? 8 : 0) : 0;
    };
    for (std::size_t i = start; i < end; i += 2) {
      const int low = field(i);
      out.fields[i / 2] = static_cast<std::uint8_t>(low | field(i + 1) << 4);
    }
  }
}

void qsgd4_decode(const Levels& in, std::span<float> y) {
  for (std::size_t i = 0; i < y.size(); ++i) {
    const int field = in.fields[i / 2] >> (i % 2 * 4) & 15;
    const float size = in.norm[i / kBucket] * static_cast<float>(field & 7) / static_cast<float>(kLevels);
    y[i] = (field & 8) != 0 ? -size : size;
  }
}

void qsgd4_decode_add(const Levels& in, float weight, std::span<float> y) {
  for (std::size_t i = 0; i < y.size(); ++i) {
    const int field = in.fields[i / 2] >> (i % 2 * 4) & 15;
    const float size = in.norm[i / kBucket] * static_cast<float>(field & 7) / static_cast<float>(kLevels);
    y[i] += weight * ((field & 8) != 0 ? -size : size);
  }
}

void largest_by_nth_element(std::span<const float> x, std::size_t k, std::vector<float>& scratch,
                            Entries& out) {
  scratch.resize(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) scratch[i] = std::fabs(x[i]);
  const auto kth = scratch.end() - static_cast<std::ptrdiff_t>(k);
  std::nth_element(scratch.begin(), kth, scratch.end());
  gather(x, magnitude_bits(*kth), k, out);
}

void largest_by_radix(std::span<const float> x, std::size_t k, Entries& out) {
  std::uint32_t prefix = 0, known = 0;
  std::size_t wanted = k;
  for (int shift = 24; shift >= 0; shift -= 8) {
    std::array<std::uint32_t, 256> count{};
    for (const float v : x) {
      const std::uint32_t m = magnitude_bits(v);
      if ((m & known) == prefix) ++count[m >> shift & 255];
    }
    std::uint32_t digit = 255;
    for (; count[digit] < wanted; --digit) wanted -= count[digit];
    prefix |= digit << shift;
    known |= std::uint32_t{255} << shift;
  }
  gather(x, prefix, k, out);
}

void elias_sparse_encode(std::span<const float> x, std::uint64_t seed, BitString& out) {
  BitWriter writer(out);
  Xorshift random(seed);
  Bucket levels;
  for (std::size_t start = 0; start < x.size(); start += kBucket) {
    const std::size_t count = std::min(kBucket, x.size() - start);
    writer.norm(quantise(x.subspan(start, count), random, levels));
    std::uint32_t gap = 1;
    for (std::size_t i = 0; i < count; ++i, ++gap) {
      if (levels[i] == 0) continue;
      writer.omega(gap);
      writer.bit(levels[i] < 0 ? 1 : 0);
      writer.omega(static_cast<std::uint32_t>(std::abs(levels[i])));
      gap = 0;
    }
    writer.omega(gap + static_cast<std::uint32_t>(kBucket - count));  // to one past the end of the bucket
  }
}

void elias_sparse_decode(const BitString& in, std::span<float> y) {
  BitReader reader(in);
  std::fill(y.begin(), y.end(), 0.0f);
  for (std::size_t start = 0; start < y.size(); start += kBucket) {
    const float norm = reader.norm();
    for (std::size_t i = start + reader.omega() - 1; i < start + kBucket; i += reader.omega()) {
      const bool negative = reader.bit() != 0;
      y[i] = value_of(reader.omega(), negative, norm);
    }
  }
}

void elias_dense_encode(std::span<const float> x, std::uint64_t seed, BitString& out) {
  BitWriter writer(out);
  Xorshift random(seed);
  Bucket levels;
  for (std::size_t start = 0; start < x.size(); start += kBucket) {
    const std::size_t count = std::min(kBucket, x.size() - start);
    writer.norm(quantise(x.subspan(start, count), random, levels));
    for (std::size_t i = 0; i < count; ++i) {
      writer.omega(static_cast<std::uint32_t>(std::abs(levels[i])) + 1);
      if (levels[i] != 0) writer.bit(levels[i] < 0 ? 1 : 0);
    }
  }
}

void elias_dense_decode(const BitString& in, std::span<float> y) {
  BitReader reader(in);
  float norm = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (i % kBucket == 0) norm = reader.norm();
    const std::uint32_t level = reader.omega() - 1;
    y[i] = value_of(level, level > 0 && reader.bit() != 0, norm);
  }
}

}  // namespace gossamer::node::reference
