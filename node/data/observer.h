#pragma once
// An Observer is told what happens in a run as it happens, to check or record it. Where nobody observes, a
// null pointer is all it costs. Calls come from the thread that the peer runs on; an observer of a simulation
// wants all its peers in one thread.
#include <span>
#include <string>
#include <vector>

#include "data_plane.h"
#include "gossamer/compress/codec.h"
#include "gossamer/topology/schedule.h"

namespace gossamer::node {

struct Message;

/// What the simulated network does with a frame.
enum class Fate {
  sent,     ///< handed to the network by its sender
  lost,     ///< dropped by chance
  cut,      ///< dropped because the link's direction is cut
  held,     ///< kept back by a clogged link until later
  copied,   ///< a second copy is under way
  stray,    ///< one like it from an earlier start of the sender is under way
  forged,   ///< a wrong one in its sender's name is under way
  garbled,  ///< bytes of this copy changed on the way
  posed,    ///< one of its sender's in the name of another peer is under way
  arrived,  ///< read by the receiver
  late,     ///< came to a peer that had crashed
};

class Observer {
 public:
  virtual ~Observer() = default;
  /// Of all that follows.
  virtual void on_time(double) {}

  // the network
  virtual void on_frame(Fate, PeerId /*from*/, PeerId /*to*/, std::span<const std::byte> /*frame*/) {}
  virtual void on_crash(PeerId) {}
  /// It enters a view whose first round is the run's that many; of the peers by their numbers in the job.
  virtual void on_view(PeerId, const std::vector<std::string>& /*members*/, Round /*rounds_before*/) {}

  // control
  virtual void on_round(PeerId, Round /*begun*/) {}
  virtual void on_send(PeerId, PeerId /*to*/, const Message&) {}
  virtual void on_message(PeerId, PeerId /*from*/, const Message&) {}  ///< delivered by the link
  virtual void on_used(PeerId, PeerId /*from*/, const Message&) {}     ///< taken out of its inbox
  virtual void on_mixed(PeerId, Round, ParcelId) {}
  virtual void on_end(PeerId, const std::string& /*message*/) {}

  // floats
  virtual void on_gradient(PeerId, const Gradient&) {}  ///< about to be computed
  /// Numbers of the rows of a gradient, where they have any.
  virtual void on_rows(PeerId, std::span<const std::uint32_t> /*rows*/) {}
  virtual void on_op(PeerId, const Op&, const DataView& /*after*/) {}
  /// v is what is encoded, without the residual; feedback is null where there is none.
  virtual void before_encode(PeerId, const op::Encode&, std::span<const float> /*v*/,
                             const compress::FeedbackState*) {}
  virtual void after_encode(PeerId, const op::Encode&, const compress::FeedbackState*, const Payload&) {}
};

}  // namespace gossamer::node
