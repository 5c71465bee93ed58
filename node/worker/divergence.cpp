#include "divergence.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "method.h"

namespace gossamer::node {

DivergenceWatch::DivergenceWatch(std::size_t classes, std::size_t parameters)
    : least_first_(std::log(static_cast<double>(std::max(classes, std::size_t{2})))),
      floor_(std::max(1.0, std::sqrt(static_cast<double>(parameters)) / 100)) {}

void DivergenceWatch::on_loss(double loss) {
  if (first_loss_ < 0) first_loss_ = std::max(loss, 0.0);
  last_loss_ = loss;
  steps_above_ = loss > most_loss() ? steps_above_ + 1 : 0;
}

std::string DivergenceWatch::on_report(double mean_loss) {
  if (std::isnan(mean_loss)) return {};
  const double most = most_loss();
  above_ = mean_loss > most ? above_ + 1 : 0;
  if (above_ < kReportsAbove) return {};
  return fmt::format(
      "the training loss was above {:.4g} in {} reports running, at last {:.4g} (it began at {:.4g})", most,
      kReportsAbove, mean_loss, first_loss_);
}

std::string DivergenceWatch::at_end() const {
  if (steps_above_ < kStepsAbove) return {};
  return fmt::format(
      "the training loss was above {:.4g} in the last {} steps, at last {:.4g} (it began at {:.4g})",
      most_loss(), steps_above_, last_loss_, first_loss_);
}

std::string DivergenceWatch::on_norm(double norm) {
  if (first_norm_ < 0) first_norm_ = norm;
  if (norm <= kMostGrowth * (first_norm_ + floor_)) return {};
  return fmt::format("the parameters' norm became {:.4g} (it began at {:.4g})", norm, first_norm_);
}

void DivergenceWatch::archive(Archive archive) {
  archive.value("first_loss", first_loss_);
  archive.value("first_norm", first_norm_);
  archive.value("above", above_);
}

Spread spread_of(std::span<const std::span<const float>> models) {
  const auto count = static_cast<double>(models.size());
  std::vector<double> squares(models.size());
  Spread spread;
  for (std::size_t k = 0; k < models.front().size(); ++k) {
    double mean = 0;
    for (const auto& x : models) mean += static_cast<double>(x[k]) / count;
    spread.mean_square += mean * mean;
    for (std::size_t i = 0; i < models.size(); ++i) {
      const double d = static_cast<double>(models[i][k]) - mean;
      squares[i] += d * d;
    }
  }
  for (const double s : squares) spread.distance += s / count;
  spread.farthest =
      static_cast<std::size_t>(std::max_element(squares.begin(), squares.end()) - squares.begin());
  return spread;
}

std::string too_far_apart(const Spread& spread, double initial_square) {
  if (spread.distance <= kMostApart * (initial_square + spread.mean_square + 1)) return {};
  return fmt::format(
      "the consensus distance became {:.4g}, and the squared norm of the peers' mean is {:.4g}",
      spread.distance, spread.mean_square);
}

std::string divergence_text(const Plan& plan, double learning_rate, Round round, const std::string& what) {
  const ExchangeSettings& e = plan.exchange;
  std::string advice = "lower table.learning_rate";  // all that there is, where nothing but rows is learned
  if (!plan.parcels.empty()) {
    advice = fmt::format("lower optimizer.learning_rate (now {:.4g})", learning_rate);
    if (plan.rows) advice += " or table.learning_rate";
    if (find_method(e.method).needs.gamma != Needs::Gamma::none)
      advice +=
          fmt::format(" or exchange.gamma (now {:.4g}, by default {:.4g})", plan.gamma, plan.usual_gamma);
    if (!plan.codec.exact) advice += ", or use a finer codec";
  }
  return fmt::format("the run diverged in round {}: {}; {} (codec '{}')", round, what, advice, e.codec);
}

}  // namespace gossamer::node
