#pragma once
// Draw draws what a swarm's seed stands for; the same on every machine.
#include <array>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "gossamer/node/job.h"

namespace gossamer::node {

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed * 2 + 1) {}
  double uniform(double low, double high) {
    return low + (high - low) * static_cast<double>(random_() >> 11) * 0x1p-53;
  }
  bool chance(double p) { return uniform(0, 1) < p; }
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }
  std::size_t from(std::size_t least, std::size_t most) { return least + below(most - least + 1); }
  template <class T, std::size_t N>
  T one(const std::array<T, N>& list) {
    return list[below(N)];
  }
  /// Nothing is drawn where there is one only.
  std::string one(const std::vector<std::string>& list) {
    return list.size() == 1 ? list[0] : list[below(list.size())];
  }
  /// In whole milliseconds, which read back as they are printed.
  double seconds(double low, double high) { return std::round(uniform(low, high) * 1000) / 1000; }
  /// Between powers of ten, one digit.
  double decades(double low, double high) {
    const double x = std::pow(10, uniform(std::log10(low), std::log10(high)));
    const double unit = std::pow(10, std::floor(std::log10(x)));
    return std::round(x / unit) * unit;
  }

 private:
  std::mt19937_64 random_;  // its sequence is fixed by the standard
};

/// A sound configuration of a small job.
Job draw_job(Draw& d);
/// In some runs of methods that have idle rounds what is sent leaves before the gradient is computed; drawn
/// by itself.
void draw_overlap(std::uint64_t seed, Job& job);

}  // namespace gossamer::node
