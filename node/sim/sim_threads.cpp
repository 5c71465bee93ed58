#include "sim_threads.h"

#include <utility>

namespace gossamer::node {
namespace {

class SharedModel final : public optim::Model {
 public:
  explicit SharedModel(std::function<std::unique_ptr<optim::Model>()> make) : make_(std::move(make)) {
    free_.push_back(make_());
    adopt_layers(*free_.back());
    classes_ = free_.back()->classes();
  }
  void initialise(std::uint64_t seed, std::span<float> x) const override { make_()->initialise(seed, x); }
  double gradient(std::span<float> x, const optim::Batch& batch, std::span<float> g,
                  const optim::OnLayer& on_layer) override {
    const Lease lease(*this);
    return lease.model->gradient(x, batch, g, on_layer);
  }
  optim::Evaluation evaluate(std::span<const float> x, const optim::Batch& batch) override {
    const Lease lease(*this);
    return lease.model->evaluate(x, batch);
  }
  std::size_t classes() const override { return classes_; }
  void predict(std::span<const float> x, const optim::Batch& batch, std::span<float> probabilities) override {
    const Lease lease(*this);
    lease.model->predict(x, batch, probabilities);
  }

 private:
  /// Takes a model that nobody uses, or a new one, and gives it back.
  struct Lease {
    explicit Lease(SharedModel& from) : owner(from) {
      {
        const std::lock_guard lock(owner.mutex_);
        if (!owner.free_.empty()) {
          model = std::move(owner.free_.back());
          owner.free_.pop_back();
        }
      }
      if (!model) model = owner.make_();
    }
    ~Lease() {
      const std::lock_guard lock(owner.mutex_);
      owner.free_.push_back(std::move(model));
    }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

    SharedModel& owner;
    std::unique_ptr<optim::Model> model;
  };

  const std::function<std::unique_ptr<optim::Model>()> make_;
  std::size_t classes_ = 0;
  std::mutex mutex_;
  std::vector<std::unique_ptr<optim::Model>> free_;
};

}  // namespace

SimThreads::SimThreads(std::size_t threads) {
  for (std::size_t t = 1; t < threads; ++t) threads_.emplace_back([this] { help(); });
}

SimThreads::~SimThreads() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  ready_.notify_all();
  for (auto& t : threads_) t.join();
}

void SimThreads::add(Queue& queue, Work work) {
  if (threads_.empty()) return work();
  {
    const std::lock_guard lock(mutex_);
    queue.waiting_.push_back(std::move(work));
    if (queue.running_ || queue.waiting_.size() > 1) return;  // running, or listed already
    listed_.push_back(&queue);
  }
  ready_.notify_one();
}

void SimThreads::finish(Queue& queue) {
  if (threads_.empty()) return;
  std::unique_lock lock(mutex_);
  while (queue.running_ || !queue.waiting_.empty())
    if (queue.running_)
      idle_.wait(lock);
    else
      run(queue, lock);
}

/// All of the queue; the lock is held where this begins and ends.
void SimThreads::run(Queue& queue, std::unique_lock<std::mutex>& lock) {
  queue.running_ = true;
  while (!queue.waiting_.empty() && !stop_) {
    const Work work = std::move(queue.waiting_.front());
    queue.waiting_.pop_front();
    lock.unlock();
    work();
    lock.lock();
  }
  queue.running_ = false;
  idle_.notify_all();
}

void SimThreads::help() {
  std::unique_lock lock(mutex_);
  while (true) {
    ready_.wait(lock, [this] { return stop_ || !listed_.empty(); });
    if (stop_) return;
    Queue& queue = *listed_.front();
    listed_.pop_front();
    if (!queue.running_) run(queue, lock);  // the caller may have computed it meanwhile
  }
}

std::shared_ptr<optim::Model> make_shared_model(std::function<std::unique_ptr<optim::Model>()> make) {
  return std::make_shared<SharedModel>(std::move(make));
}

}  // namespace gossamer::node
