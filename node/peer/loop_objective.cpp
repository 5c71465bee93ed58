#include "loop_objective.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

namespace gossamer::node {
namespace {

/// How long other work of the peer may wait while the loop computes.
constexpr auto kIdleEvery = std::chrono::milliseconds(1);

}  // namespace

Job job_of_own_steps(Job job) {
  job.optimizer = {};
  job.optimizer.kind = "adam";
  return job;
}

LoopObjective::LoopObjective(const std::vector<TensorSpec>& tensors, const LoopOptions& options,
                             StepBy step_by)
    : TensorObjective(tensors, options.steps_per_epoch, options.initialise), step_by_(step_by) {
  for (const KeptArray& array : options.kept) kept_.push_back(array.values);
}

// --- the peer's side

optim::StepResult LoopObjective::gradient(std::span<float>, const optim::BatchKey&, std::span<float>,
                                          const optim::OnLayer&) {
  misuse("gradients are taken in a view");  // HeldObjective's
}

optim::StepResult LoopObjective::gradient(Hold& hold, std::span<const float> x, const optim::BatchKey& key,
                                          std::span<float> g, const optim::OnLayer& on_layer) {
  std::unique_lock lock(mutex_);
  peers_x_ = x;
  g_ = g;
  ready_.assign(tensors(), false);
  posted_.reset();
  mean_taken_ = false;
  if (!std::exchange(begun_, true)) step_ = key.step;  // as it goes on; numbers of views leap
  ahead_ = static_cast<std::int64_t>(key.step) - static_cast<std::int64_t>(step_);
  take_rows(key.step);
  turn_ = Turn::gradient;
  turn_began_ = Clock::now();
  changed_.notify_all();
  for (std::size_t layer = layers().size(); layer > 0 || !posted_;) {
    if (hold.cancelled) {  // what the loop is computing is of no use to anybody
      left_ = computing_ && !posted_;
      turn_ = Turn::peer;
      throw std::runtime_error("the training loop has ended");
    }
    if (abandoned_ && ends_ && !posted_) post_nothing();
    if (layer > 0 && stands(layer - 1)) {
      lock.unlock();
      on_layer(--layer);
      lock.lock();
    } else if (changed_.wait_for(lock, kIdleEvery) == std::cv_status::timeout && key.idle) {
      lock.unlock();
      (*key.idle)();
      lock.lock();
    }
  }
  turn_ = Turn::peer;
  return *posted_;
}

void LoopObjective::give_up(Hold& hold) {
  const std::lock_guard lock(mutex_);
  hold.cancelled = true;
  changed_.notify_all();
}

void LoopObjective::step(std::size_t offset, std::span<const float> x, std::span<const float> g,
                         std::span<float> u) {
  if (step_by_ == StepBy::loop) return void(std::copy(g.begin(), g.end(), u.begin()));
  take_mean_step({g.data() - offset, g_.size()});
  subtract(x, std::span<const float>(x_).subspan(offset, x.size()), u);
}

/// Once in a round, when all of the mean stands: shows it to the loop, and waits until that has stepped.
void LoopObjective::take_mean_step(std::span<const float> all) {
  std::unique_lock lock(mutex_);
  if (std::exchange(mean_taken_, true)) return;
  for (std::size_t t = 0; t < tensors(); ++t) {
    const auto mean = part(all, t);
    if (place_of(t).state)
      subtract(part(peers_x_, t), mean, part(x_, t));
    else
      std::copy(mean.begin(), mean.end(), part(own_g_, t).begin());
  }
  turn_ = Turn::step;
  turn_began_ = Clock::now();
  changed_.notify_all();
  changed_.wait(lock, [this] { return turn_ != Turn::step || (abandoned_ && ends_); });
  if (std::exchange(turn_, Turn::peer) == Turn::step) {
    failed_as_left_ = true;
    throw std::runtime_error("the training loop has ended before its step");
  }
}

void LoopObjective::save(const optim::ByteSink& sink) const {
  if (kept_.empty()) return;
  const std::lock_guard lock(mutex_);
  const unsigned char stands = step_by_ == StepBy::mean || !computing_;
  sink(std::as_bytes(std::span(&stands, 1)));
  if (!stands) return;
  for (const auto& array : kept_) sink(std::as_bytes(std::span(array)));
}

void LoopObjective::restore(const optim::ByteSource& source) {
  const auto read = [&](std::span<std::byte> to) {
    while (!to.empty()) {
      const std::size_t n = source(to);
      if (n == 0) throw optim::OptimError("what the training loop keeps is cut short");
      to = to.subspan(n);
    }
  };
  const std::lock_guard lock(mutex_);
  if (kept_.empty())
    throw optim::OptimError("the state holds what a training loop keeps; this one keeps nothing");
  unsigned char stands = 0;
  read(std::as_writable_bytes(std::span(&stands, 1)));
  if (!stands) return;
  for (auto& array : kept_) read(std::as_writable_bytes(std::span(array)));
}

void LoopObjective::save_private(const optim::ByteSink& sink) const {
  const std::lock_guard lock(mutex_);
  sink(remembered_);
}

void LoopObjective::restore_private(const optim::ByteSource& source) {
  const std::lock_guard lock(mutex_);
  remembered_.clear();
  std::byte block[4096];
  while (const std::size_t n = source(block)) remembered_.insert(remembered_.end(), block, block + n);
}

void LoopObjective::remember(std::span<const std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  if (!computing_ && !(waited_ && step_by_ == StepBy::mean))
    misuse(
        "remember was called out of turn; expected it between wait and post, or after the step by the mean");
  remembered_.assign(bytes.begin(), bytes.end());
}

void LoopObjective::deal(const optim::DealtRows& rows) {
  const std::lock_guard lock(mutex_);
  TensorObjective::deal(rows);
  if (begun_) ahead_ = static_cast<std::int64_t>(rows.first_step) - static_cast<std::int64_t>(step_);
}

void LoopObjective::run_ended() {
  const std::lock_guard lock(mutex_);
  over_ = true;
  changed_.notify_all();
}

void LoopObjective::show(std::span<const float> x) {
  x_.resize(x.size());
  own_g_.resize(x.size());
  std::copy(x.begin(), x.end(), x_.begin());
}

// --- the loop's side

bool LoopObjective::await(std::unique_lock<std::mutex>& lock, double seconds,
                          const std::function<bool()>& stands) {
  if (!std::isinf(seconds)) return changed_.wait_for(lock, std::chrono::duration<double>(seconds), stands);
  changed_.wait(lock, stands);
  return true;
}

std::optional<bool> LoopObjective::wait(double seconds) {
  std::unique_lock lock(mutex_);
  if (computing_) misuse("wait was called twice; expected post in between");
  const auto asked = [this] { return over_ || (turn_ == Turn::gradient && !posted_ && !abandoned_); };
  do {
    if (turn_ == Turn::step) {  // it has stepped, or does not
      turn_ = Turn::peer;
      changed_.notify_all();
    }
    if (!await(lock, seconds, [&] { return asked() || turn_ == Turn::step; })) return std::nullopt;
  } while (!asked());
  computing_ = !over_;
  waited_ |= computing_;
  // not before: until the loop waits it may still write what it computed for a view that is over
  if (computing_) std::copy(peers_x_.begin(), peers_x_.end(), x_.begin());
  return computing_;
}

std::optional<bool> LoopObjective::wait_for_mean(double seconds) {
  std::unique_lock lock(mutex_);
  if (step_by_ != StepBy::mean)
    misuse("there is no mean to step by; expected own_steps, and a method that averages gradients");
  if (computing_) misuse("the mean was asked for before post");
  const auto stands = [this] {
    return over_ || abandoned_ || turn_ == Turn::step || (turn_ == Turn::gradient && !posted_);
  };
  if (!await(lock, seconds, stands)) return std::nullopt;
  return turn_ == Turn::step && !abandoned_;
}

std::span<float> LoopObjective::kept(std::size_t array) {
  if (array >= kept_.size())
    misuse(fmt::format("kept array {}: there are {}, from 0 on", array, kept_.size()));
  return kept_[array];
}

std::uint64_t LoopObjective::step_number() const {
  const std::lock_guard lock(mutex_);
  return step_;
}

std::vector<std::uint32_t> LoopObjective::rows_of(std::uint64_t step) {
  const std::lock_guard lock(mutex_);
  const std::int64_t number = static_cast<std::int64_t>(step) + ahead_;
  return rows_of_step(number > 0 ? static_cast<std::uint64_t>(number) : 0);
}

void LoopObjective::ready(std::size_t tensor) {
  place_of(tensor);
  const std::lock_guard lock(mutex_);
  require_turn();
  hand_over(tensor);
  changed_.notify_all();
}

void LoopObjective::post(double loss, std::size_t rows) {
  const std::lock_guard lock(mutex_);
  require_turn();
  computing_ = false;
  if (std::exchange(left_, false) || over_) return;
  for (std::size_t t = 0; t < tensors(); ++t) hand_over(t);
  posted_ = optim::StepResult{loss, rows};
  ++step_;
  if (std::isfinite(loss)) last_loss_ = loss;
  changed_.notify_all();
}

void LoopObjective::abandon(double still_s) {
  std::unique_lock lock(mutex_);
  abandoned_ = true;
  computing_ = false;  // what it keeps is as it left it
  changed_.notify_all();
  const auto began = Clock::now();
  const auto still = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(still_s));
  const auto until = [&] { return (waits_for_loop() ? turn_began_ : began) + still; };
  while (!over_ && !ends_ && Clock::now() < until()) changed_.wait_until(lock, until());
}

void LoopObjective::end(double patience_s) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::duration<double>(patience_s), [this] { return over_ || ends_; });
  ends_ = true;
  changed_.notify_all();
}

bool LoopObjective::failed_as_left() const {
  const std::lock_guard lock(mutex_);
  return failed_as_left_;
}

std::uint64_t LoopObjective::empty_rounds() const {
  const std::lock_guard lock(mutex_);
  return empty_rounds_;
}

/// To the peer, whose round it is; nothing where that is over.
void LoopObjective::hand_over(std::size_t tensor) {
  if (left_ || over_ || ready_[tensor]) return;
  const auto to = part(g_, tensor);
  if (step_by_ == StepBy::loop || place_of(tensor).state) {
    subtract(part(peers_x_, tensor), part(std::span<const float>(x_), tensor), to);
  } else {
    const auto from = part(own_g_, tensor);
    std::copy(from.begin(), from.end(), to.begin());
  }
  ready_[tensor] = true;
}

void LoopObjective::post_nothing() {
  if (step_by_ == StepBy::mean) {  // nobody would step
    turn_ = Turn::peer;
    failed_as_left_ = true;
    throw std::runtime_error("the training loop has ended");
  }
  ++empty_rounds_;
  for (std::size_t t = 0; t < tensors(); ++t)
    if (!ready_[t]) std::ranges::fill(part(g_, t), 0.0f);
  posted_ = optim::StepResult{last_loss_, 0};
}

bool LoopObjective::stands(std::size_t layer) const {
  if (posted_) return true;
  for (std::size_t t = 0; t < tensors(); ++t)
    if (place_of(t).layer == layer && !ready_[t]) return false;
  return true;
}

void LoopObjective::require_turn() const {
  if (!computing_)
    misuse("the gradient is not asked for now; expected wait before each round, and post after it");
}

}  // namespace gossamer::node
