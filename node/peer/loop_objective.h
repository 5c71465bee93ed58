#pragma once
// A LoopObjective is where a training loop and its peer meet: the peer waits in the gradient, and in the step
// that a loop takes by a mean, while the loop has its turn. It outlives views; each has a HeldObjective and,
// where the loop steps, a LoopOptimizer over it.
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "aligned.h"
#include "tensor_objective.h"

namespace gossamer::node {

/// Who steps the parameters, and by what.
enum class StepBy {
  job,   ///< the peer, by the job's optimiser
  loop,  ///< the loop, by its own gradient, before it hands over what became of them
  mean,  ///< the loop, by the mean of all peers' gradients, after the exchange
};

/// The same, whose optimiser stands for any that a loop may have.
Job job_of_own_steps(Job job);

class LoopObjective final : public TensorObjective {
 public:
  LoopObjective(const std::vector<TensorSpec>& tensors, const LoopOptions& options, StepBy step_by);

  optim::StepResult gradient(std::span<float>, const optim::BatchKey&, std::span<float>,
                             const optim::OnLayer&) override;

  // the peer's side

  /// A view's own hold on the loop.
  struct Hold {
    bool cancelled = false;
  };
  optim::StepResult gradient(Hold& hold, std::span<const float> x, const optim::BatchKey& key,
                             std::span<float> g, const optim::OnLayer& on_layer);
  void give_up(Hold& hold);
  /// u ← the loop's own step for the range of x from offset on, whose gradient is g: a part of the buffer in
  /// which the whole one stands.
  void step(std::size_t offset, std::span<const float> x, std::span<const float> g, std::span<float> u);
  /// The loop's arrays, while it does not change them.
  void save(const optim::ByteSink& sink) const override;
  void restore(const optim::ByteSource& source) override;
  bool keeps_private() const override { return true; }
  void save_private(const optim::ByteSink& sink) const override;
  void restore_private(const optim::ByteSource& source) override;
  void deal(const optim::DealtRows& rows) override;
  void run_ended();
  /// Before the run, and after it.
  void show(std::span<const float> x);

  // the loop's side

  /// Infinite where for as long as it takes.
  std::optional<bool> wait(double seconds);
  std::optional<bool> wait_for_mean(double seconds);
  StepBy step_by() const { return step_by_; }
  std::span<float> x(std::size_t tensor) { return part(x_, tensor); }
  std::span<float> g(std::size_t tensor) { return part(own_g_, tensor); }
  std::span<float> kept(std::size_t array);
  void remember(std::span<const std::byte> bytes);
  std::span<const std::byte> remembered() const { return remembered_; }
  std::uint64_t step_number() const;
  std::vector<std::uint32_t> rows_of(std::uint64_t step);
  void ready(std::size_t tensor);
  void post(double loss, std::size_t rows);
  /// No gradients come any more. Returns when the peer has waited for the next one, or for the step, for so
  /// long, and the others' rounds have come to a stop with it; or when the run is over.
  void abandon(double still_s);
  /// The peer is to end, and has told the others, or has had so long to do so: where the loop is gone it goes
  /// on with zeros in the gradient's place, and fails where that is to be stepped by.
  void end(double patience_s);
  /// It failed for no more than that the loop was left.
  bool failed_as_left() const;
  /// Rounds that were zeros; the last ones.
  std::uint64_t empty_rounds() const;

 private:
  using Clock = std::chrono::steady_clock;
  enum class Turn { peer, gradient, step };

  using TensorObjective::part;
  std::span<float> part(AlignedFloats& all, std::size_t tensor) const {
    return part(std::span<float>(all), tensor);
  }
  bool await(std::unique_lock<std::mutex>& lock, double seconds, const std::function<bool()>& stands);
  void hand_over(std::size_t tensor);
  void post_nothing();
  bool waits_for_loop() const { return turn_ == Turn::step || (turn_ == Turn::gradient && !posted_); }
  bool stands(std::size_t layer) const;
  void require_turn() const;
  void take_mean_step(std::span<const float> all);

  const StepBy step_by_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  AlignedFloats x_, own_g_;                  ///< the loop's, from the first to the last
  std::vector<std::vector<float>> kept_;     ///< the loop's too
  std::vector<std::byte> remembered_;        ///< the loop's, of no use to others
  std::span<const float> peers_x_;           ///< the replica's, from a view's first gradient to its end
  std::span<float> g_;                       ///< likewise
  std::uint64_t step_ = 0;                   ///< that the loop computes, or will compute next, as it counts
  std::int64_t ahead_ = 0;                   ///< of which the peer's number is, in the view
  bool begun_ = false;                       ///< a gradient was asked for
  std::vector<bool> ready_;                  ///< by tensor
  std::optional<optim::StepResult> posted_;  ///< this round's
  Turn turn_ = Turn::peer;
  Clock::time_point turn_began_{};
  bool computing_ = false;   ///< the loop, from wait to post
  bool left_ = false;        ///< what it computes was of a view that is over
  bool mean_taken_ = false;  ///< the loop has stepped by this round's mean, or never will
  bool waited_ = false;      ///< for a gradient that was asked for
  bool over_ = false;
  bool abandoned_ = false, ends_ = false, failed_as_left_ = false;
  std::uint64_t empty_rounds_ = 0;
  double last_loss_ = 0;
};

/// What the peer owns, one in each view; the loop keeps the objective itself.
class HeldObjective final : public optim::Objective {
 public:
  explicit HeldObjective(std::shared_ptr<LoopObjective> held) : held_(std::move(held)) {
    adopt_layers(*held_);
  }
  void initialise(std::uint64_t seed, std::span<float> x) const override { held_->initialise(seed, x); }
  optim::StepResult gradient(std::span<float> x, const optim::BatchKey& key, std::span<float> g,
                             const optim::OnLayer& on_layer) override {
    return held_->gradient(hold_, x, key, g, on_layer);
  }
  optim::Figures evaluate(std::span<const float> x) override { return held_->evaluate(x); }
  std::uint64_t steps_per_epoch() const override { return held_->steps_per_epoch(); }
  void deal(const optim::DealtRows& rows) override { held_->deal(rows); }
  std::span<const std::uint32_t> batch_rows() const override { return held_->batch_rows(); }
  void save(const optim::ByteSink& sink) const override { held_->save(sink); }
  void restore(const optim::ByteSource& source) override { held_->restore(source); }
  bool keeps_private() const override { return true; }
  void save_private(const optim::ByteSink& sink) const override { held_->save_private(sink); }
  void restore_private(const optim::ByteSource& source) override { held_->restore_private(source); }
  void cancel() override { held_->give_up(hold_); }

 private:
  std::shared_ptr<LoopObjective> held_;
  LoopObjective::Hold hold_;
};

/// Steps that the loop takes.
class LoopOptimizer final : public optim::Optimizer {
 public:
  explicit LoopOptimizer(std::shared_ptr<LoopObjective> held) : held_(std::move(held)) {}
  void step(double, std::size_t offset, std::span<const float> x, std::span<const float> g,
            std::span<float> u) override {
    held_->step(offset, x, g, u);
  }
  void show(optim::StateVisitor&) override {}  // the loop keeps it

 private:
  std::shared_ptr<LoopObjective> held_;
};

}  // namespace gossamer::node
