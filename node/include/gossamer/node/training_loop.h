#pragma once
// A TrainingLoop is a peer for a program that has a loop of its own and cannot be called for gradients: it is
// told when a gradient stands, and tells when the next parameters do.
//
//   while (loop.wait()) {            // the round's parameters stand
//     ... loop.parameters(t) is read, loop.gradient(t) is written, last tensor first ...
//     loop.ready(t);                 // optional: its exchange begins while earlier ones are computed
//     loop.post(loss, rows);
//   }
//   PeerResult result = loop.finish();
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gossamer/node/peer.h"

namespace gossamer::node {

/// An array of the model, in the order in which the model uses them; row-major.
struct TensorSpec {
  std::string name;
  std::vector<std::size_t> shape;
};

struct LoopOptions {
  Options peer{};
  Callbacks callbacks{};  ///< called on the peer's own thread
  /// The initial parameters, the same on every peer; empty: zeros. Given the arrays one after the other.
  std::function<void(std::size_t tensor, std::span<float> x)> initialise{};
  /// As Learner::optimizer; empty: the job's.
  std::function<std::unique_ptr<optim::Optimizer>(std::size_t peer)> optimizer{};
  std::string checkpoints{};        ///< as Peer::keep_checkpoints; empty: none
  std::size_t steps_per_epoch = 1;  ///< in which the peers together go through all data once
};

/// One thread at a time, which may be any. Throws Error.
class TrainingLoop {
 public:
  /// Opens the peer's port and begins to join the others, on a thread of its own.
  TrainingLoop(Job job, const std::string& name, std::vector<TensorSpec> tensors, LoopOptions options = {});
  /// Interrupts the peer where it still runs.
  ~TrainingLoop();
  TrainingLoop(const TrainingLoop&) = delete;
  TrainingLoop& operator=(const TrainingLoop&) = delete;

  /// Until the parameters of the next round stand; false: the run is over. Misuse between wait and post.
  bool wait();
  /// The same, for so many seconds at most: no value where the round's parameters do not stand yet.
  std::optional<bool> wait(double seconds);
  /// From any thread: the run ends soon, and wait gives false then.
  void interrupt();
  /// What the gradient is to be computed at: the initial parameters, those of the round from wait to post,
  /// and the trained ones, or as they were last, after finish. The same array from the first to the last.
  std::span<const float> parameters(std::size_t tensor) const;
  /// Where it is to be written, between wait and ready or post; zeros at first. The same array always.
  std::span<float> gradient(std::size_t tensor);
  /// The tensor's gradient stands, and is not looked at after that.
  void ready(std::size_t tensor);
  /// All gradients stand. loss: mean over the batch; NaN or Inf ends the run. rows: samples in the batch.
  void post(double loss, std::size_t rows);
  /// After wait gave false, or to end the run before: how it went. What a callback threw is thrown here.
  PeerResult finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gossamer::node
