#pragma once
// SpeakerLimits bound what one peer, once its connection has proved who it is, may cost another: frames of no
// use, questions, news, names and copies of the state. Parcels have bounds of their own (link.h).
#include <algorithm>
#include <limits>

namespace gossamer::node {

/// So much at once, and so much a second after that.
class Allowance {
 public:
  Allowance(double most, double each_s) : most_(most), each_s_(each_s), left_(most) {}
  /// False where so much is not left; then nothing is taken.
  bool take(double amount, double now_s);

 private:
  double most_, each_s_, left_;
  double at_ = -std::numeric_limits<double>::infinity();
};

class SpeakerLimits {
 public:
  static constexpr double kNotHeard_s = 10;

  /// False for kNotHeard_s after refused has said that it is enough: its frames need not be read.
  bool hears(double now_s) const { return now_s >= not_heard_until_; }
  /// A frame of it was dropped. True where it is not heard from now on.
  bool refused(double now_s);
  /// What an answer is made for: terms, status, the offer of a state.
  bool may_ask(double now_s) { return questions_.take(1, now_s); }
  /// News of so many members, or signs of life.
  bool may_tell(double records, double now_s) { return news_.take(std::max(1.0, records), now_s); }
  /// Of one more member that was not known, and lives or has gone.
  bool may_name(bool lives, double now_s) { return (lives ? names_ : gone_names_).take(1, now_s); }
  /// A piece of a state of so many bytes.
  bool may_have(double piece, double state, double now_s) { return states_.take(piece / state, now_s); }

 private:
  // Far above what members need: after a change of view some hundred frames of the old one may be under way,
  // a sign of life goes with a round at most, of a thousand members each tells news of all at a change of
  // view, and who comes takes one state, and hears of hundreds from each of several. (Of those that live and
  // are not there the next view waits until they are known to be dead.)
  Allowance useless_{5000, 500}, questions_{100, 10}, news_{50000, 10000}, states_{8, 0.2};
  Allowance names_{64, 1}, gone_names_{256, 1};
  double not_heard_until_ = 0;
};

}  // namespace gossamer::node
