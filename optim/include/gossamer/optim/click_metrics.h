#pragma once
// What is asked of predicted click probabilities: AUC, log loss, calibration, of a test set or progressively
// (each sample predicted before it is learned from).
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gossamer::optim {

/// Area under the ROC curve: the probability that a click scores higher than a sample without one, ties
/// counting half (Hanley, McNeil 1982: The meaning and use of the area under a receiver operating
/// characteristic (ROC) curve). Exact, by sorting; O(n) memory. Labels are 0 or 1. NaN where either class is
/// missing or a score is NaN.
double auc(std::span<const float> scores, std::span<const float> labels);

/// Counts of one class of probabilities that are near each other; sums of them all. About 64 KB. One thread
/// at a time; parts of a stream may be counted apart and added.
class ClickMetrics {
 public:
  ClickMetrics();
  void add(std::span<const float> probabilities, std::span<const float> labels);
  ClickMetrics& operator+=(const ClickMetrics& other);
  void clear();

  std::uint64_t samples() const { return samples_; }
  std::uint64_t clicks() const { return clicks_; }
  /// Mean log loss; probabilities count as at least 1e-7 away from 0 and 1. 0 without samples.
  double log_loss() const;
  /// Σ predicted / Σ clicks: above 1 where too many are promised. NaN without clicks.
  double calibration() const;
  /// As auc(), from 4096 bins that are narrower the nearer a probability is to 0 or 1; scores of one bin
  /// count as equal. NaN where either class is missing or a probability was NaN.
  double auc() const;
  /// The true AUC lies within this of auc().
  double auc_error() const;

 private:
  struct Pairs {
    double ordered, tied;
  };
  Pairs pairs() const;

  std::vector<std::uint64_t> with_, without_;  ///< clicks and others, by bin
  std::uint64_t samples_ = 0, clicks_ = 0, not_numbers_ = 0;
  double loss_ = 0, predicted_ = 0;
};

/// Progressive validation (Blum, Kalai, Langford: Beating the Hold-Out, COLT 1999): all samples so far, and
/// those since the last report.
class ProgressiveMetrics {
 public:
  /// Of samples not learned from yet.
  void add(std::span<const float> probabilities, std::span<const float> labels) {
    window_.add(probabilities, labels);
  }
  ClickMetrics total() const {
    ClickMetrics sum = before_;
    return sum += window_;
  }
  const ClickMetrics& window() const { return window_; }
  /// The window, which starts anew.
  ClickMetrics take_window();

 private:
  ClickMetrics before_, window_;
};

}  // namespace gossamer::optim
