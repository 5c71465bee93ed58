#pragma once
// These functions measure the wall time of short work, on one thread or on several at once.
#include <cstddef>
#include <functional>
#include <span>
#include <utility>

namespace gossamer::node {

struct Effort {
  std::size_t runs = 7;         ///< the median is taken over so many, after a warm-up that is not counted
  double least_seconds = 2e-3;  ///< of one run: work that is shorter is repeated within it
};

/// Median seconds of one call of work. It is called by all threads at once, each with its own number in
/// [0, threads), and a run ends with the slowest. What a call throws is thrown here.
double median_seconds(std::size_t threads, const std::function<void(std::size_t)>& work, Effort effort = {});

/// Median seconds of one call of each, run in turn on this thread: what else happens on the machine meets
/// both.
std::pair<double, double> median_seconds_of_both(const std::function<void()>& a,
                                                 const std::function<void()>& b, Effort effort = {});

/// Of the two middle ones the lower; not empty.
double median(std::span<const double> values);

}  // namespace gossamer::node
