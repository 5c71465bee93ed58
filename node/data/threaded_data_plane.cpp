#include "threaded_data_plane.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <system_error>

namespace gossamer::node {
namespace {

constexpr std::size_t kFewBytes = std::size_t{1} << 13;

}  // namespace

ThreadedDataPlane::ThreadedDataPlane(std::unique_ptr<ReplicaBase> replica)
    : replica_(std::move(replica)), event_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (event_fd_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
  thread_ = std::thread([this] { loop(); });
}

ThreadedDataPlane::~ThreadedDataPlane() {
  finish();
  close(event_fd_);
}

void ThreadedDataPlane::submit(Op op) {
  {
    const std::lock_guard lock(mutex_);
    ops_.push_back(std::move(op));
  }
  work_.notify_one();
}

void ThreadedDataPlane::submit(Gradient gradient) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.emplace_back(std::move(gradient));
  }
  work_.notify_one();
}

void ThreadedDataPlane::submit_evaluation(Round round) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.emplace_back(Evaluation{round});
  }
  work_.notify_one();
}

void ThreadedDataPlane::submit_snapshot(Round round) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.emplace_back(Snapshot{round});
  }
  work_.notify_one();
}

void ThreadedDataPlane::submit_learned() {
  {
    const std::lock_guard lock(mutex_);
    tasks_.emplace_back(Look{});
  }
  work_.notify_one();
}

void ThreadedDataPlane::restore(const State& state, Kept kept) {
  const std::lock_guard lock(mutex_);
  replica_->enter_thread();
  replica_->restore(state, kept);
}

void ThreadedDataPlane::use_threads(std::size_t threads) {
  const std::lock_guard lock(mutex_);
  replica_->use_threads(threads);
}

void ThreadedDataPlane::post(DataEvent event) {
  held_.push_back(std::move(event));
  post_held();
}

/// While a gradient is under way: a message, or that its parcel is ready. more: something follows at once.
/// Few bytes are not worth waking anybody, here and at the neighbours: they leave with what comes next.
void ThreadedDataPlane::hold(DataEvent event, bool more) {
  const auto* encoded = std::get_if<Encoded>(&event);
  const bool message = encoded || (!held_.empty() && std::holds_alternative<Encoded>(held_.back()));
  if (encoded) held_bytes_ += encoded->payload->size();
  held_.push_back(std::move(event));
  if (!more && !(message && held_bytes_ < kFewBytes)) post_held();
}

/// The reader, whom this wakes, finds the mutex free.
void ThreadedDataPlane::post_held() {
  held_bytes_ = 0;
  if (held_.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    const bool woken = !events_.empty();
    events_.insert(events_.end(), std::move_iterator(held_.begin()), std::move_iterator(held_.end()));
    held_.clear();
    if (woken) return;  // and has not come yet
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = write(event_fd_, &one, sizeof one);
}

std::vector<DataEvent> ThreadedDataPlane::take_events() {
  std::uint64_t count;
  [[maybe_unused]] const auto got = read(event_fd_, &count, sizeof count);
  const std::lock_guard lock(mutex_);  // what is posted from now on wakes again
  return std::exchange(events_, {});
}

void ThreadedDataPlane::finish() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    finishing_ = true;
    tasks_.clear();
    work_.notify_one();
  }
  replica_->cancel();
  thread_.join();
}

SpareFloats ThreadedDataPlane::release() {
  finish();
  SpareFloats spare = replica_ ? replica_->hand_on() : SpareFloats{};
  replica_.reset();
  return spare;
}

/// Runs what waits in ops_, in order, but for what has to wait longer.
void ThreadedDataPlane::run_ops(const PostEvent& post) {
  std::unique_lock lock(mutex_);
  while (!ops_.empty()) {
    Op op = std::move(ops_.front());
    ops_.pop_front();
    lock.unlock();
    if (replica_->waits(op))
      waiting_.push_back(std::move(op));
    else
      replica_->run(op, post);
    lock.lock();
  }
}

/// And what has not to wait any more.
void ThreadedDataPlane::run_waiting(const PostEvent& post) {
  const auto first = std::stable_partition(waiting_.begin(), waiting_.end(),
                                           [this](const Op& op) { return replica_->waits(op); });
  std::vector<Op> now;
  now.insert(now.end(), std::move_iterator(first), std::move_iterator(waiting_.end()));
  waiting_.erase(first, waiting_.end());
  for (const Op& op : now) replica_->run(op, post);
}

/// The copy for which training waits.
SharedState ThreadedDataPlane::save() {
  State used;
  if (saved_.use_count() == 1) used = std::move(*saved_);
  saved_ = std::make_shared<State>(replica_->save(std::move(used)));
  return saved_;
}

void ThreadedDataPlane::run_task(const Task& task) {
  struct GivenUp {};
  const auto poster = [this](DataEvent e) { post(std::move(e)); };
  const auto* gradient = std::get_if<Gradient>(&task);
  const auto told_before = [gradient](ParcelId p) {
    return gradient->steps_in_mix && !gradient->idle && gradient->on_ready[p].empty();
  };
  const auto holder = [&](DataEvent e) {
    if (std::holds_alternative<GradientDone>(e)) return post(std::move(e));
    const auto* ready = std::get_if<ParcelReady>(&e);
    if (!ready || !told_before(ready->parcel)) return hold(std::move(e), !ready);
    const auto answer = [this](DataEvent a) { hold(std::move(a), false); };
    run_ops(answer);
    run_waiting(answer);  // what it reads and writes is in the caches yet
  };
  const auto between_layers = [&] {
    run_ops(poster);
    const std::lock_guard lock(mutex_);
    if (finishing_) throw GivenUp{};
  };
  try {
    if (gradient) {
      for (ParcelId p = 0; p < gradient->on_ready.size(); ++p)
        if (told_before(p)) held_.push_back(ParcelReady{gradient->round, p});
      post_held();
      replica_->run(*gradient, holder, between_layers);
    } else if (const auto* snapshot = std::get_if<Snapshot>(&task))
      post(Saved{snapshot->round, save()});
    else if (std::holds_alternative<Look>(task))
      post(learned_bytes(replica_->save_learned()));
    else
      replica_->evaluate(std::get<Evaluation>(task).round, poster);
  } catch (const GivenUp&) {
    post_held();  // nobody waits for the rest of the gradient
  }
}

void ThreadedDataPlane::loop() try {
  replica_->enter_thread();
  for (;;) {
    run_ops([this](DataEvent e) { post(std::move(e)); });
    std::unique_lock lock(mutex_);
    if (!ops_.empty()) continue;
    if (tasks_.empty()) {
      if (finishing_) return;
      work_.wait(lock, [this] { return finishing_ || !ops_.empty() || !tasks_.empty(); });
      continue;
    }
    const Task task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    run_task(task);
  }
} catch (const std::exception& e) {
  post(failure(e));
}

}  // namespace gossamer::node
