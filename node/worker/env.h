#pragma once
// Env is the world as the control code sees it. ZmqEnv is the real one, Simulation a deterministic one.
#include "data_plane.h"
#include "frame.h"
#include "gossamer/node/report.h"
#include "ids.h"
#include "trace.h"

namespace gossamer::node {

/// What a checkpoint that a worker asks for is of.
struct SavePoint {
  Round name = 0;         ///< by which all peers of the run know it
  std::uint64_t run = 0;  ///< as of Offers::run
  double share_done = 0, epoch = 0;
  optim::Figures figures{};  ///< of the newest evaluation since the one before; empty: none
};

class Env {
 public:
  virtual ~Env() = default;
  virtual double now() const = 0;  ///< seconds; does not change within one event
  /// on_timer is called at or soon after; replaces any earlier request.
  virtual void wake_at(double time) = 0;
  /// Frames of one link leave in order within a priority (wire/priority.h). Never blocks, may lose frames.
  virtual void send(PeerId to, FrameBytes frame, std::uint32_t priority) = 0;
  /// Frames may have a payload beside them.
  virtual bool takes_parts() const { return false; }
  /// The payload as this peer can read it where it is, for ParcelBody::apart of frames to it; none: it
  /// cannot.
  virtual Payload share(PeerId /*to*/, const Payload& /*payload*/) { return {}; }
  /// All but control frames to this peer that have not left, as far as this process can tell.
  virtual std::size_t backlog(PeerId to) const = 0;
  /// Bytes of frames to this peer, of any priority, that have not left, as far as this process can tell.
  virtual std::size_t queued_bytes(PeerId /*to*/) const { return 0; }
  /// Control frames that newer ones replaced before they could leave.
  virtual std::uint64_t dropped_control() const { return 0; }
  virtual DataPlane& data() = 0;
  /// Before the first round, where the worker's place was given: how many peers share this machine's cores.
  virtual void share_cores(const CoreSharing&) {}
  /// What the worker and its data plane keep, as it was asked to save.
  virtual void saved(SharedState /*state*/) {}
  /// A checkpoint may be taken: the one before has been written.
  virtual bool may_checkpoint() const { return true; }
  /// The same, to be kept; Worker::committed tells when it is.
  virtual void checkpoint(SharedState /*state*/, const SavePoint& /*point*/) {}
  /// Of a checkpoint that was offered (WorkerSpec::offers). Throws what std::exception is a base of.
  virtual State load(Round name);
  /// A frame of this start of the neighbour came.
  virtual void heard(PeerId /*from*/) {}
  /// What took how long, by this env's now.
  virtual void traced(const TraceSpan& /*span*/) {}
  virtual void report(const Report& report) = 0;
  virtual void log(const std::string& line) = 0;
};

}  // namespace gossamer::node
