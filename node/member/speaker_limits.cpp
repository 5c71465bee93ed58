#include "speaker_limits.h"

#include <algorithm>

namespace gossamer::node {

bool Allowance::take(double amount, double now_s) {
  if (now_s > at_) {
    left_ = std::min(most_, left_ + each_s_ * (now_s - at_));
    at_ = now_s;
  }
  if (left_ < amount) return false;
  left_ -= amount;
  return true;
}

bool SpeakerLimits::refused(double now_s) {
  if (useless_.take(1, now_s)) return false;
  not_heard_until_ = now_s + kNotHeard_s;
  return true;
}

}  // namespace gossamer::node
