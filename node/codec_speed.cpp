#include "codec_speed.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace gossamer::node {
namespace {

constexpr std::size_t kLine = 16;  // floats of a 64-byte line

/// What one thread works on.
struct Part {
  std::span<const float> x;
  std::vector<std::byte> payload;
  std::size_t used = 0;
  AlignedFloats y;
  compress::Workspace workspace;
  compress::FeedbackState state;
};

std::vector<Part> parts_of(const compress::Codec& codec, std::span<const float> x, std::size_t threads) {
  const std::size_t share = std::max<std::size_t>(x.size() / threads, 1);
  std::vector<Part> parts(threads);
  for (std::size_t t = 0; t < threads; ++t) {
    parts[t].x = x.subspan(std::min(t * share, x.size() - share), share);
    parts[t].payload.resize(codec.max_bytes(share));
    parts[t].y.resize(share);
  }
  return parts;
}

void encode(const compress::Codec& codec, Part& part) {
  part.used = codec.encode(part.x, {.seed = 1}, part.workspace, part.payload);
}

void decode_into_zeros(Part& part) {
  std::fill(part.y.begin(), part.y.end(), 0.0f);
  compress::decode_add(std::span(part.payload).first(part.used), 1.0f, part.y);
}

double written_lines(std::span<const float> y) {
  std::size_t lines = 0;
  for (std::size_t start = 0; start < y.size(); start += kLine) {
    const auto line = y.subspan(start, std::min(kLine, y.size() - start));
    if (std::any_of(line.begin(), line.end(), [](float v) { return v != 0; })) ++lines;
  }
  return static_cast<double>(lines * kLine) / static_cast<double>(y.size());
}

}  // namespace

AlignedFloats laplacian(std::size_t entries) {
  std::mt19937_64 random(1);
  AlignedFloats x(entries);
  for (float& v : x) {
    // Inverse of the distribution function at a number in (-1/2, 1/2).
    const double u = (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53 - 0.5;
    v = static_cast<float>(std::copysign(std::log1p(-2 * std::fabs(u)), -u));
  }
  return x;
}

CodecSpeed measure_codec(const compress::Codec& codec, std::span<const float> x, std::size_t threads) {
  std::vector<Part> parts = parts_of(codec, x, threads);
  const double gigabytes = 4e-9 * static_cast<double>(parts[0].x.size() * threads);
  const auto speed = [&](const auto& work) {
    return gigabytes / median_seconds(threads, [&](std::size_t t) { work(parts[t]); });
  };
  CodecSpeed result{};
  result.encode = speed([&](Part& part) { encode(codec, part); });
  result.decode = speed(decode_into_zeros);
  result.bytes_per_entry = static_cast<double>(parts[0].used) / static_cast<double>(parts[0].x.size());
  result.written_lines = written_lines(parts[0].y);
  result.decode_add = speed(
      [](Part& part) { compress::decode_add(std::span(part.payload).first(part.used), 0.25f, part.y); });
  result.feedback = std::numeric_limits<double>::quiet_NaN();
  if (codec.traits().contractive)
    result.feedback = speed([&](Part& part) {
      part.used = codec.encode_feedback(part.x, part.state, {.seed = 1}, part.workspace, part.payload);
    });
  return result;
}

MessageSpeed measure_message(const compress::Codec& codec, std::span<const float> x) {
  std::vector<Part> parts = parts_of(codec, x, 1);
  Part& part = parts[0];
  constexpr Effort kEffort{.runs = 5};
  const double gigabytes = 4e-9 * static_cast<double>(x.size());
  MessageSpeed result{};
  result.encode = gigabytes / median_seconds(
                                  1, [&](std::size_t) { encode(codec, part); }, kEffort);
  result.decode = gigabytes / median_seconds(
                                  1, [&](std::size_t) { decode_into_zeros(part); }, kEffort);
  result.bytes_per_entry = static_cast<double>(part.used) / static_cast<double>(x.size());
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double v = x[i], d = static_cast<double>(part.y[i]) - v;
    error += d * d;
    norm += v * v;
  }
  result.relative_error = std::sqrt(error / norm);
  return result;
}

CodecFloor codec_floor(const CodecSpeed& speed, const MemoryLimits& limits) {
  const double p = speed.bytes_per_entry;
  CodecFloor floor{};
  floor.encode = limits.read * 4 / (4 + p);
  floor.feedback = limits.feedback * 12 / (12 + p);
  floor.decode = limits.write * 4 / (4 + p);
  floor.decode_add = limits.modify * 8 / (8 * speed.written_lines + p);
  return floor;
}

}  // namespace gossamer::node
