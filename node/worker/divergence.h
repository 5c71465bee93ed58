#pragma once
// DivergenceWatch tells when a run runs away in place of learning: it judges by a few figures, so that
// control code need not see a float of the model.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "exchange.h"

namespace gossamer::node {

/// ‖x‖ may grow to this many times ‖x⁰‖ + max(1, √n/100) of n parameters, which may begin at 0.
constexpr double kMostGrowth = 1000;
/// A report's loss may be this many times the larger of the first loss and ln(classes), and for one report
/// less than kReportsAbove in a row even more.
constexpr double kMostLoss = 10;
constexpr int kReportsAbove = 3;
/// Steps in a row, of a run's last, whose losses are all beyond that: also where reports are rare.
constexpr std::uint64_t kStepsAbove = 16;
/// The consensus distance may be this many times ‖x⁰‖² + ‖x̄‖² + 1.
constexpr double kMostApart = 1000;
/// Rounds from one look at ‖x‖ to the next: a pass over x is dear beside a step of a small batch.
constexpr Round kMeasuredEvery = 16;

/// Watches one peer. Each call returns what is wrong in a few words, or nothing; NaN is wrong everywhere but
/// in on_report, where it means that no step fell into the interval.
class DivergenceWatch {
 public:
  explicit DivergenceWatch(std::size_t classes, std::size_t parameters = 0);
  /// Of every step's batch; the first is what reports are measured by.
  void on_loss(double loss);
  std::string on_report(double mean_loss);
  /// After the last round.
  std::string at_end() const;
  /// ‖x‖₂; the first is that of x⁰.
  std::string on_norm(double norm);
  void archive(Archive archive);

 private:
  double most_loss() const { return kMostLoss * std::max(first_loss_, least_first_); }

  double least_first_;                        ///< ln(classes); of two where there are fewer
  double floor_;                              ///< added to ‖x⁰‖
  double first_loss_ = -1, first_norm_ = -1;  ///< −1: none yet
  double last_loss_ = 0;
  int above_ = 0;                  ///< reports in a row
  std::uint64_t steps_above_ = 0;  ///< in a row; not archived: a few, which begin anew
};

/// How far models are from their mean x̄.
struct Spread {
  double distance = 0;       ///< (1/P) Σ ‖x_i − x̄‖²
  double mean_square = 0;    ///< ‖x̄‖²
  std::size_t farthest = 0;  ///< index of the model
};
/// models: at least one, all of one size.
Spread spread_of(std::span<const std::span<const float>> models);
/// What is wrong with it, as above. Averaging keeps x̄ and draws peers to it, so that peers which are this far
/// apart, measured by the model itself, are driven apart by the averaging.
std::string too_far_apart(const Spread& spread, double initial_square);

/// "the run diverged in round 7: WHAT; lower …": names γ where the method has one, rate and codec.
std::string divergence_text(const Plan& plan, double learning_rate, Round round, const std::string& what);

}  // namespace gossamer::node
