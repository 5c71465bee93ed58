#include "gossamer/node/training_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <optional>
#include <thread>

#include "aligned.h"
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

  optim::StepResult gradient(std::span<float>, const optim::BatchKey&, std::span<float>,
                             const optim::OnLayer&) override {
    throw Error(Error::Code::misuse, "gradients are taken in a view");  // HeldObjective's
  }

  /// A view's own hold on the loop, which outlives views.
  struct Hold {
    bool cancelled = false;
  };
  optim::StepResult gradient(Hold& hold, std::span<const float> x, const optim::BatchKey& key,
                             std::span<float> g, const optim::OnLayer& on_layer) {
    std::unique_lock lock(mutex_);
    std::copy(x.begin(), x.end(), x_.begin());
    g_ = g;
    ready_.assign(places.size(), false);
    posted_.reset();
    loops_turn_ = true;
    changed_.notify_all();
    for (std::size_t layer = layers().size(); layer > 0 || !posted_;) {
      if (hold.cancelled) {  // what the loop is computing is of no use to anybody
        left_ = waited_ && !posted_;
        loops_turn_ = false;
        g_ = {};
        throw std::runtime_error("the training loop has ended");
      }
      if (abandoned_ && !posted_) post_nothing();
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
  void give_up(Hold& hold) {
    const std::lock_guard lock(mutex_);
    hold.cancelled = true;
    changed_.notify_all();
  }

  // the loop's side

  /// Infinite where for as long as it takes.
  std::optional<bool> wait(double seconds) {
    std::unique_lock lock(mutex_);
    if (waited_) misuse("wait was called twice; expected post in between");
    const auto stands = [this] { return over_ || (loops_turn_ && !posted_); };
    if (std::isinf(seconds))
      changed_.wait(lock, stands);
    else if (!changed_.wait_for(lock, std::chrono::duration<double>(seconds), stands))
      return std::nullopt;
    waited_ = !over_;
    return !over_;
  }
  std::span<float> x(std::size_t tensor) { return part(x_, tensor); }
  std::span<float> g(std::size_t tensor) { return part(own_g_, tensor); }
  void ready(std::size_t tensor) {
    place(tensor);
    const std::lock_guard lock(mutex_);
    require_turn();
    hand_over(tensor);
    changed_.notify_all();
  }
  void post(double loss, std::size_t rows) {
    const std::lock_guard lock(mutex_);
    require_turn();
    waited_ = false;
    if (std::exchange(left_, false) || over_) return;
    for (std::size_t t = 0; t < places.size(); ++t) hand_over(t);
    posted_ = optim::StepResult{loss, rows};
    if (std::isfinite(loss)) last_loss_ = loss;
    changed_.notify_all();
  }
  /// No gradients come any more: the peer leaves the others in order, on zeros in their place.
  void abandon() {
    const std::lock_guard lock(mutex_);
    abandoned_ = true;
    changed_.notify_all();
  }
  void run_ended() {
    const std::lock_guard lock(mutex_);
    over_ = true;
    changed_.notify_all();
  }
  /// Before the run, and after it.
  void show(std::span<const float> x) {
    x_.resize(x.size());
    own_g_.resize(x.size());
    std::copy(x.begin(), x.end(), x_.begin());
  }

  const PlaceOfTensor& place(std::size_t tensor) const {
    if (tensor >= places.size())
      misuse(fmt::format("tensor {}: there are {}, from 0 on", tensor, places.size()));
    return places[tensor];
  }
  std::vector<PlaceOfTensor> places;

 private:
  std::span<float> part(std::span<float> all, std::size_t tensor) const {
    return all.subspan(place(tensor).offset, place(tensor).size);
  }
  /// To the peer, whose round it is; nothing where that is over.
  void hand_over(std::size_t tensor) {
    if (left_ || over_ || ready_[tensor]) return;
    const auto from = part(own_g_, tensor);
    std::copy(from.begin(), from.end(), part(g_, tensor).begin());
    ready_[tensor] = true;
  }
  void post_nothing() {
    for (std::size_t t = 0; t < places.size(); ++t)
      if (!ready_[t]) std::ranges::fill(part(g_, t), 0.0f);
    posted_ = optim::StepResult{last_loss_, 0};
  }
  bool stands(std::size_t layer) const {
    if (posted_) return true;
    for (std::size_t t = 0; t < places.size(); ++t)
      if (places[t].layer == layer && !ready_[t]) return false;
    return true;
  }
  void require_turn() const {
    if (!waited_)
      misuse("the gradient is not asked for now; expected wait before each round, and post after it");
  }

  const std::function<void(std::size_t, std::span<float>)> initialise_;
  const std::uint64_t steps_per_epoch_;
  std::mutex mutex_;
  std::condition_variable changed_;
  AlignedFloats x_, own_g_;                  ///< the loop's, from the first to the last
  std::span<float> g_;                       ///< the peer's, while it waits
  std::vector<bool> ready_;                  ///< by tensor
  std::optional<optim::StepResult> posted_;  ///< this round's
  bool loops_turn_ = false;                  ///< the peer waits for a gradient
  bool waited_ = false;                      ///< the loop computes: from wait to post
  bool left_ = false;                        ///< what it computes was of a view that is over
  bool over_ = false;
  bool abandoned_ = false;
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
  void cancel() override { held_->give_up(hold_); }

 private:
  std::shared_ptr<LoopObjective> held_;
  LoopObjective::Hold hold_;
};

}  // namespace

struct TrainingLoop::Impl {
  Impl(Job job, const std::string& name, const std::vector<TensorSpec>& tensors, LoopOptions options)
      : objective(std::make_shared<LoopObjective>(tensors, options)),
        peer(std::move(job), name,
             {[held = objective](std::size_t) { return std::make_unique<HeldObjective>(held); },
              std::move(options.optimizer)},
             std::move(options.callbacks), std::move(options.peer)) {
    objective->show(peer.parameters());
    if (!options.checkpoints.empty()) peer.keep_checkpoints(options.checkpoints);
    thread = std::jthread([this](const std::stop_token& stop) {
      try {
        result = peer.run(stop);
      } catch (...) {
        thrown = std::current_exception();
      }
      objective->run_ended();
    });
  }

  ~Impl() { objective->abandon(); }

  PeerResult finish() {
    if (thread.joinable()) {
      objective->abandon();
      thread.request_stop();
      thread.join();
      if (!thrown) objective->show(peer.parameters());
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

bool TrainingLoop::wait() { return *impl_->objective->wait(std::numeric_limits<double>::infinity()); }
std::optional<bool> TrainingLoop::wait(double seconds) { return impl_->objective->wait(seconds); }
void TrainingLoop::interrupt() { impl_->thread.request_stop(); }
std::span<const float> TrainingLoop::parameters(std::size_t tensor) const {
  return impl_->objective->x(tensor);
}
std::span<float> TrainingLoop::gradient(std::size_t tensor) { return impl_->objective->g(tensor); }
void TrainingLoop::ready(std::size_t tensor) { impl_->objective->ready(tensor); }
void TrainingLoop::post(double loss, std::size_t rows) { impl_->objective->post(loss, rows); }
PeerResult TrainingLoop::finish() { return impl_->finish(); }

}  // namespace gossamer::node
