#pragma once
// A ViewObserver is told which peers of a simulation come and go, what views they enter, and with what
// parameters. Peers are numbered as in the job.
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "observer.h"
#include "setup.h"
#include "view.h"

namespace gossamer::node {

class ViewObserver {
 public:
  virtual ~ViewObserver() = default;
  struct Entry {
    const View& view;  ///< of the first one, which all peers begin in, the starts are 0
    double share;      ///< of the run that is over
    const Prepared& prepared;
    Round rounds_before;
  };
  /// A process of the peer begins.
  virtual void on_start(PeerId, std::uint64_t /*start*/) {}
  /// Returns who is told of its worker and replica in the view, by the view's numbers; null: nobody.
  virtual Observer* on_enter(PeerId, const Entry&) = 0;
  /// With which it begins, in the view; before anything changes them.
  virtual void on_begin(PeerId, std::span<const float> /*parameters*/) {}
  /// The same with all that its data plane has.
  virtual void on_begin_with(PeerId, const DataView&) {}
  /// Of what it has learned, for others to fetch while it goes on.
  virtual void on_copy(PeerId, std::span<const float> /*parameters*/) {}
  /// It goes on from a mean of what it has learned and what others had left with: of each the weight.
  virtual void on_merge(PeerId, const std::vector<std::pair<PeerId, double>>& /*weights*/) {}
  /// What it takes along.
  virtual void on_leave(PeerId, double /*share*/, std::span<const float> /*parameters*/) {}
};

}  // namespace gossamer::node
