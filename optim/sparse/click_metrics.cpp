#include "gossamer/optim/click_metrics.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <limits>
#include <utility>

#include "elementary.h"

namespace gossamer::optim {
namespace {

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();
constexpr std::uint32_t kHalf = 2048;  // bins below 1/2, and as many above
constexpr std::uint32_t kMantissaBits = 6, kDrop = 23 - kMantissaBits;
constexpr double kLeast = 1e-7;

/// Bins of p < 1/2 are steps of 2^−6 of its binary order, down to 2^−32.
std::uint32_t half_bin(float p) {
  constexpr std::uint32_t kEnd = std::bit_cast<std::uint32_t>(0.5f) >> kDrop, kBegin = kEnd - kHalf;
  const std::uint32_t step = std::bit_cast<std::uint32_t>(p) >> kDrop;
  return std::clamp(step, kBegin, kEnd - 1) - kBegin;
}

std::uint32_t bin_of(float p) {
  const float clamped = std::clamp(p, 0.0f, 1.0f);
  return clamped < 0.5f ? half_bin(clamped) : 2 * kHalf - 1 - half_bin(1.0f - clamped);
}

}  // namespace

double auc(std::span<const float> scores, std::span<const float> labels) {
  assert(scores.size() == labels.size());
  std::vector<std::pair<float, bool>> sorted(scores.size());
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (!(scores[i] == scores[i])) return kNoNumber;
    sorted[i] = {scores[i], labels[i] > 0.5f};
  }
  std::sort(sorted.begin(), sorted.end());
  double pairs = 0, without = 0, with = 0;
  for (std::size_t i = 0; i < sorted.size();) {
    double tied_with = 0, tied_without = 0;
    for (const float score = sorted[i].first; i < sorted.size() && sorted[i].first == score; ++i)
      (sorted[i].second ? tied_with : tied_without) += 1;
    pairs += tied_with * (without + tied_without / 2);
    with += tied_with;
    without += tied_without;
  }
  return with > 0 && without > 0 ? pairs / (with * without) : kNoNumber;
}

ClickMetrics::ClickMetrics() : with_(2 * kHalf), without_(2 * kHalf) {}

void ClickMetrics::clear() { *this = ClickMetrics(); }

void ClickMetrics::add(std::span<const float> probabilities, std::span<const float> labels) {
  assert(probabilities.size() == labels.size());
  constexpr std::size_t kProduct = 32;  // of numbers ≥ kLeast, whose logarithm is taken at once
  double product = 1;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const float p = probabilities[i];
    const bool click = labels[i] > 0.5f;
    if (p == p)
      ++(click ? with_ : without_)[bin_of(p)];
    else
      ++not_numbers_;
    clicks_ += click ? 1 : 0;
    predicted_ += static_cast<double>(p);
    const auto right = static_cast<double>(click ? p : 1.0f - p);
    product *= right < kLeast ? kLeast : right > 1 - kLeast ? 1 - kLeast : right;
    if (i % kProduct == kProduct - 1 || i + 1 == labels.size()) {
      loss_ -= portable_log(product);
      product = 1;
    }
  }
  samples_ += labels.size();
}

ClickMetrics& ClickMetrics::operator+=(const ClickMetrics& other) {
  for (std::size_t b = 0; b < with_.size(); ++b) {
    with_[b] += other.with_[b];
    without_[b] += other.without_[b];
  }
  samples_ += other.samples_;
  clicks_ += other.clicks_;
  not_numbers_ += other.not_numbers_;
  loss_ += other.loss_;
  predicted_ += other.predicted_;
  return *this;
}

double ClickMetrics::log_loss() const { return samples_ ? loss_ / static_cast<double>(samples_) : 0; }

double ClickMetrics::calibration() const {
  return clicks_ ? predicted_ / static_cast<double>(clicks_) : kNoNumber;
}

ClickMetrics::Pairs ClickMetrics::pairs() const {
  double ordered = 0, tied = 0, below = 0;
  for (std::size_t b = 0; b < with_.size(); ++b) {
    const auto with = static_cast<double>(with_[b]), without = static_cast<double>(without_[b]);
    ordered += with * below;
    tied += with * without;
    below += without;
  }
  const double all = static_cast<double>(clicks_) * static_cast<double>(samples_ - clicks_);
  if (!(all > 0) || not_numbers_ > 0) return {kNoNumber, kNoNumber};
  return {ordered / all, tied / all};
}

double ClickMetrics::auc() const {
  const Pairs found = pairs();
  return found.ordered + found.tied / 2;
}

double ClickMetrics::auc_error() const { return pairs().tied / 2; }

ClickMetrics ProgressiveMetrics::take_window() {
  before_ += window_;
  ClickMetrics taken = std::move(window_);
  window_ = ClickMetrics();
  return taken;
}

}  // namespace gossamer::optim
