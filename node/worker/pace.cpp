#include "pace.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <utility>

namespace gossamer::node {
namespace {

constexpr std::uint64_t kExchanges = 16, kLeastExchanges = 4;
constexpr std::size_t kLeastTimes = 8, kSteps = 8;
constexpr double kLeastSpread = 0.05;
constexpr PeerId kSelf = std::numeric_limits<PeerId>::max();

}  // namespace

double median(std::deque<double> values) {
  assert(!values.empty());
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*std::max_element(values.begin(), middle) + *middle) / 2;
}

Pace::Pace(double k, std::uint64_t interval) : k_(k), interval_(interval) { assert(interval > 0); }

void Pace::begin(Round round, double now) {
  round_ = round;
  begun_[round] = now;
  ++begun_rounds_;
  const std::uint64_t kept = kExchanges * interval_;
  while (begun_.size() > kept + 1) begun_.erase(begun_.begin());
  while (!times_.empty() && times_.front().begun + kept < begun_rounds_) times_.pop_front();
}

void Pace::computed(Round round, double seconds) {
  own_ += seconds;
  if (seconds > 0) ++own_steps_;
  if ((round + 1) % interval_ != 0) return;
  if (own_steps_ > 0) steps_.push_back(own_ / static_cast<double>(own_steps_));
  if (steps_.size() > kSteps) steps_.pop_front();
  add(kSelf, own_);
  own_ = 0;
  own_steps_ = 0;
}

/// What came of a round counts when something of a later one comes.
void Pace::heard(PeerId from, Round round, double now) {
  const auto [at, first] = coming_.try_emplace(from, Coming{round, now});
  if (first) return;
  const Coming last = at->second;
  if (round < last.round) return;
  at->second = {round, now};
  if (round == last.round) return;
  const auto begin = begun_.find(first_of(last.round));
  if (begin != begun_.end())
    add(from, std::max(0.0, last.at - begin->second));
  else if (first_of(last.round) > round_)
    add(from, 0);
}

std::optional<double> Pace::deadline() const {
  if (times_.size() < kLeastTimes || begun_rounds_ <= kLeastExchanges * interval_) return std::nullopt;
  std::map<PeerId, std::deque<double>> by_peer;
  for (const Time& t : times_) by_peer[t.of].push_back(t.seconds);
  std::deque<double> medians, deviations;
  for (const auto& [of, seconds] : by_peer) {
    medians.push_back(median(seconds));
    for (const double t : seconds) deviations.push_back(std::abs(t - medians.back()));
  }
  const double middle = median(std::move(medians));
  return middle + k_ * std::max(median(std::move(deviations)), kLeastSpread * middle);
}

std::uint64_t Pace::steps() const {
  const auto until = deadline();
  if (!until || steps_.empty()) return interval_;
  const double fit = std::floor(*until / median(steps_));
  return static_cast<std::uint64_t>(std::clamp(fit, 1.0, static_cast<double>(interval_)));
}

}  // namespace gossamer::node
