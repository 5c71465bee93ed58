#include "timing.h"

#include <algorithm>
#include <array>
#include <barrier>
#include <cassert>
#include <chrono>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace gossamer::node {
namespace {

using Clock = std::chrono::steady_clock;

/// Threads that do each run together. One that has failed goes on to meet the others, so that none waits for
/// ever.
class TimedThreads {
 public:
  TimedThreads(std::size_t threads, const std::function<void(std::size_t)>& work, Effort effort)
      : work_(work), effort_(effort), meet_(static_cast<std::ptrdiff_t>(threads)) {
    for (std::size_t i = 1; i < threads; ++i) others_.emplace_back([this, i] { follow(i); });
  }

  double lead() {
    one_run(0);  // touches all memory for the first time
    const double once = one_run(0);
    const double wanted = effort_.least_seconds / std::max(once, 1e-9);
    repeats_ = static_cast<std::size_t>(std::clamp(wanted, 1.0, 1e6));
    std::vector<double> seconds(effort_.runs);
    for (double& s : seconds) s = one_run(0) / static_cast<double>(repeats_);
    for (std::thread& other : others_) other.join();
    if (failure_) std::rethrow_exception(failure_);
    return median(seconds);
  }

 private:
  void follow(std::size_t thread) {
    for (std::size_t run = 0; run < effort_.runs + 2; ++run) one_run(thread);
  }

  double one_run(std::size_t thread) {
    meet_.arrive_and_wait();
    const auto start = Clock::now();
    try {
      for (std::size_t i = 0; i < repeats_; ++i) work_(thread);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
    }
    meet_.arrive_and_wait();
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  const std::function<void(std::size_t)>& work_;
  Effort effort_;
  std::size_t repeats_ = 1;  ///< written by the leader between two runs
  std::barrier<> meet_;
  std::mutex mutex_;
  std::exception_ptr failure_;
  std::vector<std::thread> others_;
};

}  // namespace

double median_seconds(std::size_t threads, const std::function<void(std::size_t)>& work, Effort effort) {
  assert(threads > 0 && effort.runs > 0);
  return TimedThreads(threads, work, effort).lead();
}

std::pair<double, double> median_seconds_of_both(const std::function<void()>& a,
                                                 const std::function<void()>& b, Effort effort) {
  struct Side {
    const std::function<void()>& work;
    std::size_t repeats = 1;
    std::vector<double> seconds{};
    double run() const {
      const auto start = Clock::now();
      for (std::size_t i = 0; i < repeats; ++i) work();
      return std::chrono::duration<double>(Clock::now() - start).count() / static_cast<double>(repeats);
    }
  };
  std::array<Side, 2> sides{Side{a}, Side{b}};
  for (Side& side : sides) {
    side.run();  // touches all memory for the first time
    side.repeats =
        static_cast<std::size_t>(std::clamp(effort.least_seconds / std::max(side.run(), 1e-9), 1.0, 1e6));
  }
  for (std::size_t run = 0; run < effort.runs; ++run) {
    for (Side& side : sides) side.seconds.push_back(side.run());
  }
  return {median(sides[0].seconds), median(sides[1].seconds)};
}

double median(std::span<const double> values) {
  assert(!values.empty());
  std::vector<double> sorted(values.begin(), values.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>((sorted.size() - 1) / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

}  // namespace gossamer::node
