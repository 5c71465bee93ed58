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
//
// With own_steps the loop has an optimiser of its own. Where steps_by_mean() is false it steps
// changing(t) before post; else by gradient(t) when wait_for_mean gives true, between post and the next wait.
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
  /// Has no gradient: the loop changes it, between wait and post, and the peers average what became of it
  /// (running statistics of a batch normalisation). Goes to others exactly, whatever the codec.
  bool state = false;
};

/// Numbers beside the model's, and where they start.
struct KeptArray {
  std::string name;
  std::vector<float> values;
};

struct LoopOptions {
  Options peer{};
  Callbacks callbacks{};  ///< called on the peer's own thread
  /// The initial parameters; empty: zeros. Given the arrays one after the other. Where peers differ, all
  /// begin with those of the job's first, or of the run that this one joins.
  std::function<void(std::size_t tensor, std::span<float> x)> initialise{};
  /// As Learner::optimizer; empty: the job's.
  std::function<std::unique_ptr<optim::Optimizer>(std::size_t peer)> optimizer{};
  /// The loop steps the parameters, by an optimiser of its own; the job's [optimizer] is not read but for the
  /// batch. All peers must do so, or none.
  bool own_steps = false;
  /// The loop's own, which checkpoints hold, and which are taken over with the parameters of others: the
  /// state of its optimiser. They are the loop's to change when it may change parameters.
  std::vector<KeptArray> kept{};
  std::string checkpoints{};        ///< as Peer::keep_checkpoints, made at once; empty: none
  std::size_t steps_per_epoch = 1;  ///< in which the peers together go through all data once
  /// Where the job's split is to say which rows a batch is made of: how many there are for all peers
  /// together, and their labels, which some splits read; steps_per_epoch follows. 0: the loop sees to that.
  std::size_t rows = 0;
  std::vector<std::int32_t> labels{};  ///< none, or one for each row
  std::string alike{};                 ///< as Learner::alike
  std::string alike_steps{};           ///< the same, where all step by the mean of their gradients
};

/// One thread at a time, which may be any. Throws Error.
class TrainingLoop {
 public:
  /// Opens the peer's port and begins to join the others, on a thread of its own.
  TrainingLoop(Job job, const std::string& name, std::vector<TensorSpec> tensors, LoopOptions options = {});
  /// As finish, where the peer still runs.
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
  /// The same to be changed: of a state between wait and post; with own steps of any, when it steps.
  std::span<float> changing(std::size_t tensor);
  /// Where it is to be written, between wait and ready or post; zeros at first. The same array always. With
  /// own steps by the own gradient it is the loop's alone.
  std::span<float> gradient(std::size_t tensor);
  /// Of LoopOptions::kept. The same array always.
  std::span<float> kept(std::size_t array);
  /// What this peer's checkpoints hold beside that from now on, and nobody else has: states of generators,
  /// of schedules. Between wait and post, or where steps_by_mean() before the next wait.
  void remember(std::span<const std::byte> bytes);
  /// What was given last, also to the peer whose checkpoint this one goes on from, once wait has given true.
  std::span<const std::byte> remembered() const;
  /// Its own steps go by the mean of all peers' gradients, as the job's method averages these.
  bool steps_by_mean() const;
  /// After post, where steps_by_mean(): until that mean stands in gradient(t); the step is to be taken then,
  /// and nothing else done before wait. False: there is none, as members changed or the run is over; no step
  /// is taken.
  bool wait_for_mean();
  std::optional<bool> wait_for_mean(double seconds);
  /// Of this peer's batches, counted from the run's beginning, the one that is computed, or comes next.
  std::uint64_t step() const;
  /// In which the peers together go through all data once, as they are when this one begins.
  std::uint64_t steps_per_epoch() const;
  /// The rows of such a batch, where LoopOptions::rows says how many there are. Those of batches to come are
  /// right as long as members do not change, and to the end of the pass over the peer's rows where they do.
  std::vector<std::uint32_t> rows_of(std::uint64_t step) const;
  /// The tensor's gradient stands, and is not looked at after that.
  void ready(std::size_t tensor);
  /// All gradients stand. loss: mean over the batch; where it is NaN or Inf the step is left out
  /// (run.skip_limit). rows: samples in the batch.
  void post(double loss, std::size_t rows);
  /// After wait gave false, or to end the run before: how it went. What a callback threw is thrown here.
  /// A round that has begun then, and others wait for, ends without this peer's gradient, and all save it
  /// (run.grace); where steps_by_mean() the peer ends at once instead, as nobody would take the step.
  PeerResult finish();
  // For the rooms of node/ alone.
  const WorkerResult& details() const;  ///< after finish

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gossamer::node
