#pragma once
// Cancelled is an objective's flag that another thread sets (Objective::cancel).
#include <atomic>
#include <functional>

#include "gossamer/optim/objective.h"

namespace gossamer::optim {

class Cancelled {
 public:
  void set() { is_ = true; }
  explicit operator bool() const { return is_; }
  /// Throws GivenUp when it is called after the flag was set, unless it was before this.
  std::function<void()> while_running() const {
    return [this, before = is_.load()] {
      if (!before && is_) throw GivenUp("the evaluation was given up");
    };
  }

 private:
  std::atomic<bool> is_{false};
};

}  // namespace gossamer::optim
