#include "gossamer/node/training_loop.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <thread>

#include "gossamer/node/safetensors.h"
#include "hash.h"
#include "loop_objective.h"
#include "method.h"
#include "setup.h"
#include "soundness.h"
#include "storage.h"
#include "translate.h"

namespace gossamer::node {
namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();
/// Where rounds have stood for so long, the next one is the one after which all save: longer than news of
/// that takes to reach everyone (worker/saver).
constexpr double kStill_s = 0.6;
/// Turns of the peer's control until what it said in the one in which it was told to end has left.
constexpr int kTurnsToTell = 3;
constexpr double kTells_s = 1;  ///< at most; it may be waiting for the loop itself, as members change

[[noreturn]] void refuse(const Job& job, const std::string& what) {
  throw ConfigError(fmt::format("{}: method '{}' {}", job.path, job.exchange.method, what));
}

/// What of the job goes with steps that it does not see.
void check_steps(const Job& job, const LoopOptions& options) {
  const Method& method = find_method(job.exchange.method);
  if (!options.own_steps) return;
  if (options.optimizer) misuse("own_steps and an optimizer were given; expected one of them");
  if (method.own_steps == OwnSteps::refused)
    refuse(job,
           "steps by what it makes of gradients, and takes no optimiser of the loop's own; use the "
           "job's, or method 'dpsgd' or 'choco'");
  if (method.own_steps != OwnSteps::mean) return;
  if (codes_velocity(job, compress::make_codec(job.exchange.codec)->traits()))
    refuse(job, fmt::format("with codec '{}' must know the optimiser's momentum, and takes none of the "
                            "loop's own; use the job's, codec 'dense' or 'fp16', or method 'choco'",
                            job.exchange.codec));
  if (closes_early(job.exchange))
    refuse(job,
           "takes no optimiser of the loop's own with exchange.backup or run.straggler = \"without\": "
           "peers would step by the same gradients in different rounds; use backup = 0 and straggler = "
           "\"wait\"");
}

StepBy step_by(const Job& job, const LoopOptions& options) {
  if (!options.own_steps) return StepBy::job;
  return find_method(job.exchange.method).own_steps == OwnSteps::mean ? StepBy::mean : StepBy::loop;
}

/// The layer table tells neither shapes nor what small arrays that stand together are named.
std::string shapes_of(const std::vector<TensorSpec>& tensors) {
  constexpr std::size_t kMostShown = 180;
  std::string all;
  for (const TensorSpec& t : tensors)
    all += fmt::format("{}{} ({})", all.empty() ? "" : ", ", t.name, fmt::join(t.shape, ", "));
  return all.size() <= kMostShown ? all
                                  : fmt::format("{} arrays, of names and shapes of digest {:016x}",
                                                tensors.size(), hash_text(all));
}

Learner learner_of(const std::shared_ptr<LoopObjective>& held, const std::vector<TensorSpec>& tensors,
                   LoopOptions& options) {
  Learner learner{[held](std::size_t) { return std::make_unique<HeldObjective>(held); },
                  std::move(options.optimizer)};
  learner.rows = labelled_rows(options.rows, std::move(options.labels));
  learner.alike = std::move(options.alike);
  learner.arrays = shapes_of(tensors);
  if (held->step_by() == StepBy::mean) learner.steps = std::move(options.alike_steps);
  if (options.own_steps)
    learner.optimizer = [held](std::size_t) { return std::make_unique<LoopOptimizer>(held); };
  else if (held->has_state())
    learner.around_optimizer = [held](std::unique_ptr<optim::Optimizer> inner) {
      return std::make_unique<StateAside>(held, std::move(inner));
    };
  return learner;
}

/// Said before hours of training of which nothing would be kept.
void check_folder(const std::string& folder, const std::string& peer) try {
  PosixStorage().make_folders(folder);
  check_writable(fmt::format("{}/.{}.probe", folder, peer));
} catch (const std::runtime_error& error) {
  throw ConfigError(fmt::format("checkpoints cannot be kept in '{}': {}", folder, error.what()));
}

/// Programs draw what they begin with, each for itself.
Options takes_initial(Options options) {
  options.takes_initial = true;
  return options;
}

}  // namespace

struct TrainingLoop::Impl {
  Impl(Job job, const std::string& name, const std::vector<TensorSpec>& tensors, LoopOptions options)
      : objective(std::make_shared<LoopObjective>(tensors, options, step_by(job, options))),
        peer(options.own_steps ? job_of_own_steps(std::move(job)) : std::move(job), name,
             learner_of(objective, tensors, options), std::move(options.callbacks),
             takes_initial(options.peer)) {
    objective->show(peer.parameters());
    const Job& its = peer.prepared().job;
    const bool leaves = its.least_peers() < its.peers.size() || !options.peer.join.empty();
    const bool saves = its.run.grace > 0 && (leaves || !options.checkpoints.empty());
    if (saves && save_spec(its).together && objective->step_by() != StepBy::mean) still_s = kStill_s;
    if (!options.checkpoints.empty() && save_spec(its).on()) {
      check_folder(options.checkpoints, name);
      peer.keep_checkpoints(options.checkpoints);
    }
    thread = std::jthread([this](const std::stop_token& stop) {
      try {
        result = peer.run([this, &stop, turns = 0]() mutable {
          if (!stop.stop_requested()) return false;
          if (++turns == kTurnsToTell) objective->end(0);
          return true;
        });
      } catch (...) {
        thrown = std::current_exception();
      }
      objective->run_ended();
    });
  }

  ~Impl() {
    if (thread.joinable()) leave();
  }

  /// The loop computes no more. As nobody who waits for this peer gets past the round that it holds up, all
  /// can save that one, or the next.
  void leave() {
    objective->abandon(still_s);
    thread.request_stop();
    objective->end(kTells_s);
    thread.join();
  }

  void say_empty(std::uint64_t rounds) {
    if (rounds == 0) return;
    const bool last = result.outcome == Outcome::finished;
    if (last) result.outcome = Outcome::interrupted;
    result.message +=
        fmt::format("{}the training loop was left, and the last {} without its gradient", last ? "" : "; ",
                    rounds == 1 ? "round was" : fmt::format("{} rounds were", rounds));
  }

  PeerResult finish() {
    const std::lock_guard lock(finishing);  // one waits while another closes
    if (thread.joinable()) {
      leave();
      if (!thrown) objective->show(peer.parameters());
      if (result.outcome == Outcome::failed && objective->failed_as_left())
        result.outcome = Outcome::interrupted;
      say_empty(objective->empty_rounds());
    }
    if (thrown) std::rethrow_exception(thrown);
    return result;
  }

  std::shared_ptr<LoopObjective> objective;
  Peer peer;
  PeerResult result;
  std::exception_ptr thrown;
  std::mutex finishing;
  double still_s = 0;  ///< for which a loop that is left holds up its round, as others save with it
  std::jthread thread;
};

TrainingLoop::TrainingLoop(Job job, const std::string& name, std::vector<TensorSpec> tensors,
                           LoopOptions options)
    : impl_(translated([&] {
        if (tensors.empty()) misuse("found no tensors; expected at least one");
        check_state(job, tensors);
        check_steps(job, options);
        return std::make_unique<Impl>(std::move(job), name, tensors, std::move(options));
      })) {}
TrainingLoop::~TrainingLoop() = default;

bool TrainingLoop::wait() { return *impl_->objective->wait(kForever); }
std::optional<bool> TrainingLoop::wait(double seconds) { return impl_->objective->wait(seconds); }
void TrainingLoop::interrupt() { impl_->thread.request_stop(); }
std::span<const float> TrainingLoop::parameters(std::size_t tensor) const {
  return impl_->objective->x(tensor);
}
std::span<float> TrainingLoop::changing(std::size_t tensor) { return impl_->objective->x(tensor); }
std::span<float> TrainingLoop::gradient(std::size_t tensor) { return impl_->objective->g(tensor); }
std::span<float> TrainingLoop::kept(std::size_t array) { return impl_->objective->kept(array); }
void TrainingLoop::remember(std::span<const std::byte> bytes) { impl_->objective->remember(bytes); }
std::span<const std::byte> TrainingLoop::remembered() const { return impl_->objective->remembered(); }
bool TrainingLoop::steps_by_mean() const { return impl_->objective->step_by() == StepBy::mean; }
bool TrainingLoop::wait_for_mean() { return *impl_->objective->wait_for_mean(kForever); }
std::optional<bool> TrainingLoop::wait_for_mean(double seconds) {
  return impl_->objective->wait_for_mean(seconds);
}
std::uint64_t TrainingLoop::step() const { return impl_->objective->step_number(); }
std::uint64_t TrainingLoop::steps_per_epoch() const { return impl_->peer.prepared().rounds_per_epoch; }
std::vector<std::uint32_t> TrainingLoop::rows_of(std::uint64_t step) const {
  return impl_->objective->rows_of(step);
}
void TrainingLoop::ready(std::size_t tensor) { impl_->objective->ready(tensor); }
void TrainingLoop::post(double loss, std::size_t rows) { impl_->objective->post(loss, rows); }
PeerResult TrainingLoop::finish() { return impl_->finish(); }
const WorkerResult& TrainingLoop::details() const { return impl_->peer.details(); }

}  // namespace gossamer::node
