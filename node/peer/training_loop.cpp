#include "gossamer/node/training_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "translate.h"

namespace gossamer::node {
namespace {

/// Arrays are exchanged together until they are so many floats.
constexpr std::size_t kGrouped = 4096;
/// How long other work of the peer may wait while the loop computes.
constexpr auto kIdleEvery = std::chrono::milliseconds(1);

[[noreturn]] void misuse(const std::string& what) { throw Error(Error::Code::misuse, what); }

struct PlaceOfTensor {
  std::size_t layer, offset, size;
};

/// The peer's side: waits while the loop has its turn.
class LoopObjective final : public optim::Objective {
 public:
  LoopObjective(const std::vector<TensorSpec>& tensors, const LoopOptions& options)
      : initialise_(options.initialise), steps_per_epoch_(options.steps_per_epoch) {
    std::vector<optim::Tensor> group;
    std::size_t size = 0;
    const auto close = [&] {
      if (group.empty()) return;
      const std::string first = group.front().name;
      add_layer(first, std::exchange(group, {}));
      size = 0;
    };
    for (const TensorSpec& tensor : tensors) {
      std::size_t floats = 1;
      for (const std::size_t n : tensor.shape) floats *= n;
      if (floats == 0) misuse(fmt::format("tensor '{}' has no elements; expected at least one", tensor.name));
      group.push_back({tensor.name, tensor.shape, 0});
      places.push_back({layers().size(), 0, floats});
      size += floats;
      if (size >= kGrouped) close();
    }
    close();
    std::size_t t = 0;
    for (const optim::Layer& layer : layers())
      for (const optim::Tensor& tensor : layer.tensors) places[t++].offset = tensor.offset;
  }

  void initialise(std::uint64_t, std::span<float> x) const override {
    std::fill(x.begin(), x.end(), 0.0f);
    for (std::size_t t = 0; initialise_ && t < places.size(); ++t)
      initialise_(t, x.subspan(places[t].offset, places[t].size));
  }
  optim::Figures evaluate(std::span<const float>) override { return {}; }
  std::uint64_t steps_per_epoch() const override { return steps_per_epoch_; }

  optim::StepResult gradient(std::span<float> x, const optim::BatchKey& key, std::span<float> g,
                             const optim::OnLayer& on_layer) override {
    std::fill(g.begin(), g.end(), 0.0f);
    std::unique_lock lock(mutex_);
    x_ = x;
    g_ = g;
    ready_.assign(places.size(), false);
    posted_.reset();
    loops_turn_ = true;
    changed_.notify_all();
    for (std::size_t layer = layers().size(); layer > 0 || !posted_;) {
      if (cancelled_) throw std::runtime_error("the training loop has ended");
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
    loops_turn_ = false;
    return *posted_;
  }
  void cancel() override {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    changed_.notify_all();
  }

  // the loop's side

  bool wait() {
    std::unique_lock lock(mutex_);
    if (loops_turn_ && waited_ && !posted_) misuse("wait was called twice; expected post in between");
    changed_.wait(lock, [this] { return over_ || (loops_turn_ && !posted_); });
    waited_ = true;
    return !over_;
  }
  std::span<float> of(std::span<float> buffer, std::size_t tensor) const {
    return buffer.subspan(place(tensor).offset, place(tensor).size);
  }
  std::span<float> x(std::size_t tensor) const { return of(mine(&LoopObjective::x_), tensor); }
  std::span<float> g(std::size_t tensor) const { return of(mine(&LoopObjective::g_), tensor); }
  void ready(std::size_t tensor) {
    place(tensor);
    const std::lock_guard lock(mutex_);
    require_turn();
    ready_[tensor] = true;
    changed_.notify_all();
  }
  void post(double loss, std::size_t rows) {
    const std::lock_guard lock(mutex_);
    if (over_) return;
    require_turn();
    posted_ = optim::StepResult{loss, rows};
    waited_ = false;
    changed_.notify_all();
  }
  void run_ended() {
    const std::lock_guard lock(mutex_);
    over_ = true;
    changed_.notify_all();
  }

  const PlaceOfTensor& place(std::size_t tensor) const {
    if (tensor >= places.size())
      misuse(fmt::format("tensor {}: there are {}, from 0 on", tensor, places.size()));
    return places[tensor];
  }
  std::vector<PlaceOfTensor> places;

 private:
  bool stands(std::size_t layer) const {
    if (posted_) return true;
    for (std::size_t t = 0; t < places.size(); ++t)
      if (places[t].layer == layer && !ready_[t]) return false;
    return true;
  }
  void require_turn() const {
    if (!loops_turn_ || !waited_ || posted_)
      misuse("the gradient is not asked for now; expected wait before each round, and post after it");
  }
  std::span<float> mine(std::span<float> LoopObjective::*buffer) const {
    const std::lock_guard lock(mutex_);
    require_turn();
    return this->*buffer;
  }

  const std::function<void(std::size_t, std::span<float>)> initialise_;
  const std::uint64_t steps_per_epoch_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::span<float> x_, g_;
  std::vector<bool> ready_;                   ///< by tensor
  std::optional<optim::StepResult> posted_;   ///< this round's
  bool loops_turn_ = false, waited_ = false;  ///< from wait to post
  bool cancelled_ = false, over_ = false;
};

/// What the peer owns; the loop keeps the objective itself.
class HeldObjective final : public optim::Objective {
 public:
  explicit HeldObjective(std::shared_ptr<LoopObjective> held) : held_(std::move(held)) {
    adopt_layers(*held_);
  }
  void initialise(std::uint64_t seed, std::span<float> x) const override { held_->initialise(seed, x); }
  optim::StepResult gradient(std::span<float> x, const optim::BatchKey& key, std::span<float> g,
                             const optim::OnLayer& on_layer) override {
    return held_->gradient(x, key, g, on_layer);
  }
  optim::Figures evaluate(std::span<const float> x) override { return held_->evaluate(x); }
  std::uint64_t steps_per_epoch() const override { return held_->steps_per_epoch(); }
  void cancel() override { held_->cancel(); }

 private:
  std::shared_ptr<LoopObjective> held_;
};

}  // namespace

struct TrainingLoop::Impl {
  Impl(Job job, const std::string& name, const std::vector<TensorSpec>& tensors, LoopOptions options)
      : objective(std::make_shared<LoopObjective>(tensors, options)),
        peer(std::move(job), name,
             {[held = objective](std::size_t) { return std::make_unique<HeldObjective>(held); },
              std::move(options.optimizer)},
             std::move(options.callbacks), std::move(options.peer)),
        thread([this](const std::stop_token& stop) {
          try {
            result = peer.run(stop);
          } catch (...) {
            thrown = std::current_exception();
          }
          objective->run_ended();
        }) {}

  PeerResult finish() {
    if (thread.joinable()) {
      thread.request_stop();
      thread.join();
    }
    if (thrown) std::rethrow_exception(thrown);
    return result;
  }

  std::shared_ptr<LoopObjective> objective;
  Peer peer;
  PeerResult result;
  std::exception_ptr thrown;
  std::jthread thread;
};

TrainingLoop::TrainingLoop(Job job, const std::string& name, std::vector<TensorSpec> tensors,
                           LoopOptions options)
    : impl_(translated([&] {
        if (tensors.empty()) misuse("found no tensors; expected at least one");
        return std::make_unique<Impl>(std::move(job), name, tensors, std::move(options));
      })) {}
TrainingLoop::~TrainingLoop() = default;

bool TrainingLoop::wait() { return impl_->objective->wait(); }
std::span<const float> TrainingLoop::parameters(std::size_t tensor) const {
  return impl_->objective->x(tensor);
}
std::span<float> TrainingLoop::gradient(std::size_t tensor) { return impl_->objective->g(tensor); }
void TrainingLoop::ready(std::size_t tensor) { impl_->objective->ready(tensor); }
void TrainingLoop::post(double loss, std::size_t rows) { impl_->objective->post(loss, rows); }
PeerResult TrainingLoop::finish() { return impl_->finish(); }
std::span<const float> TrainingLoop::trained(std::size_t tensor) const {
  const auto& place = impl_->objective->place(tensor);
  if (impl_->thread.joinable()) misuse("trained was asked for before finish");
  return impl_->peer.parameters().subspan(place.offset, place.size);
}

}  // namespace gossamer::node
