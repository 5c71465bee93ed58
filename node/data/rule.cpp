#include "rule.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace gossamer::node {
namespace {

constexpr std::size_t kAlign = 16;  ///< floats

/// Whether it decoded, to finite numbers. What a wrong peer may send must not end this one's run.
bool decode(const Payload& payload, std::span<float> out, compress::Threads* threads) {
  std::fill(out.begin(), out.end(), 0.0f);
  try {
    compress::decode_add(*payload, 1.0f, out, threads);
  } catch (const compress::PayloadError&) {
    return false;
  }
  return std::all_of(out.begin(), out.end(), [](float x) { return std::isfinite(x); });
}

}  // namespace

optim::Aggregator& Rule::of(std::size_t n, std::size_t left_out) {
  auto& rule = rules_[{n, left_out}];
  if (!rule) rule = optim::make_aggregator(spec_, n, left_out);
  return *rule;
}

void Rule::run(const op::Aggregate& op, const std::function<std::span<float>(Range)>& at,
               compress::Threads* threads) {
  const std::size_t n = op.vectors.size(), bears = optim::describe_aggregator(spec_).f;
  const std::size_t size = std::accumulate(op.ranges.begin(), op.ranges.end(), std::size_t{0},
                                           [](std::size_t sum, Range r) { return sum + r.size; });
  const std::size_t stride = (size + kAlign - 1) / kAlign * kAlign;
  if (decoded_.size() < (n + 1) * stride) decoded_.resize((n + 1) * stride);
  std::vector<std::span<const float>> vectors;
  std::vector<float> weights;
  std::size_t self = op.self, left_out = 0;
  for (std::size_t v = 0; v < n; ++v) {
    const std::span<float> whole(decoded_.data() + v * stride, size);
    bool right = true;
    std::size_t begin = 0;
    for (std::size_t r = 0; r < op.ranges.size(); begin += op.ranges[r++].size) {
      const auto part = whole.subspan(begin, op.ranges[r].size);
      if (op.vectors[v].empty())
        std::ranges::copy(at(op.ranges[r]), part.begin());
      else
        right &= decode(op.vectors[v][r], part, threads);
    }
    if (!right && left_out < bears && v != op.self) {
      ++left_out;
      self -= v < op.self ? 1 : 0;
      continue;
    }
    if (!right) std::fill(whole.begin(), whole.end(), 0.0f);
    vectors.emplace_back(whole);
    weights.push_back(op.weights[v]);
  }
  if (left_out > 0) {
    const float sum = std::accumulate(weights.begin(), weights.end(), 0.0f);
    for (float& w : weights) w /= sum;
  }
  const std::span<float> out(decoded_.data() + n * stride, size);
  of(n, left_out).aggregate({vectors, weights, self}, out);
  std::size_t begin = 0;
  for (const Range r : op.ranges) {
    std::ranges::copy(out.subspan(begin, r.size), at(r).begin());
    begin += r.size;
  }
}

}  // namespace gossamer::node
