#include "codec_speed.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace gossamer::node {
namespace {

constexpr std::size_t kLine = 16;  // floats of a 64-byte line

/// One message, there and back.
class Message {
 public:
  Message(const compress::Codec& codec, std::span<const float> x, compress::Threads* threads)
      : codec_(codec),
        x_(x),
        threads_(threads),
        payload_(codec.max_bytes(x.size())),
        y_(x.size()),
        workspace_(threads) {}

  void encode() { used_ = codec_.encode(x_, {.seed = 1}, workspace_, payload_); }
  void encode_feedback() { used_ = codec_.encode_feedback(x_, state_, {.seed = 1}, workspace_, payload_); }
  void decode_add() { compress::decode_add(std::span(payload_).first(used_), 0.25f, y_, threads_); }
  void decode_into_zeros() {
    const std::size_t pieces = (y_.size() + compress::kSlice - 1) / compress::kSlice;
    compress::for_each_piece(threads_, pieces, [&](std::size_t piece, std::size_t) {
      const std::size_t start = piece * compress::kSlice;
      const auto slice = std::span(y_).subspan(start, std::min(compress::kSlice, y_.size() - start));
      std::fill(slice.begin(), slice.end(), 0.0f);
    });
    compress::decode_add(std::span(payload_).first(used_), 1.0f, y_, threads_);
  }
  std::span<const float> y() const { return y_; }
  double bytes_per_entry() const { return static_cast<double>(used_) / static_cast<double>(x_.size()); }

 private:
  const compress::Codec& codec_;
  std::span<const float> x_;
  compress::Threads* threads_;
  std::vector<std::byte> payload_;
  std::size_t used_ = 0;
  AlignedFloats y_;
  compress::Workspace workspace_;
  compress::FeedbackState state_;
};

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

CodecSpeed measure_codec(const compress::Codec& codec, std::span<const float> x, compress::Threads* threads) {
  Message message(codec, x, threads);
  const double gigabytes = 4e-9 * static_cast<double>(x.size());
  const auto speed = [&](void (Message::*work)()) {
    return gigabytes / median_seconds(1, [&](std::size_t) { (message.*work)(); });
  };
  CodecSpeed result{};
  result.encode = speed(&Message::encode);
  result.decode = speed(&Message::decode_into_zeros);
  result.bytes_per_entry = message.bytes_per_entry();
  result.written_lines = written_lines(message.y());
  result.decode_add = speed(&Message::decode_add);
  result.feedback = std::numeric_limits<double>::quiet_NaN();
  if (codec.traits().feedback()) result.feedback = speed(&Message::encode_feedback);
  return result;
}

MessageSpeed measure_message(const compress::Codec& codec, std::span<const float> x) {
  Message message(codec, x, nullptr);
  constexpr Effort kEffort{.runs = 5};
  const double gigabytes = 4e-9 * static_cast<double>(x.size());
  const auto speed = [&](void (Message::*work)()) {
    return gigabytes / median_seconds(
                           1, [&](std::size_t) { (message.*work)(); }, kEffort);
  };
  MessageSpeed result{};
  result.encode = speed(&Message::encode);
  result.decode = speed(&Message::decode_into_zeros);
  result.bytes_per_entry = message.bytes_per_entry();
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double v = x[i], d = static_cast<double>(message.y()[i]) - v;
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
