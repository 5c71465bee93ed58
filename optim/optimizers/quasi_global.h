#pragma once
// QuasiGlobalPeriod counts the steps of quasi-global momentum from one mixing with others to the next, on the
// host as on a device.
#include <map>

#include "gossamer/optim/optimizer.h"

namespace gossamer::optim {

class QuasiGlobalPeriod {
 public:
  explicit QuasiGlobalPeriod(const OptimizerSpec& spec)
      : steps_(spec.steps_between), part_(1 - spec.momentum) {}

  struct Due {
    double share;  ///< of x_before − x goes to m·q, before the step; 0: q stands
    bool begins;   ///< x as it is becomes x_before, after that
  };
  /// Of the next step of the range at offset, by that rate.
  Due step(std::size_t offset, double rate) {
    std::uint64_t& taken = taken_[offset];
    double& sum = rates_[offset];
    const bool begins = taken % steps_ == 0;
    const Due due{begins && sum > 0 ? part_ / sum : 0, begins};
    sum = begins ? rate : sum + rate;
    ++taken;
    return due;
  }

  void show(StateVisitor& visitor) {
    visitor.by_offset("last_rate", rates_);
    // what was saved of another number of steps, or before there was one, says nothing of this period
    visitor.has("steps") ? visitor.by_offset("steps", taken_) : taken_.clear();
  }

 private:
  std::uint64_t steps_;
  double part_;
  std::map<std::size_t, std::uint64_t> taken_;
  std::map<std::size_t, double> rates_;  ///< of the period so far, added up
};

}  // namespace gossamer::optim
