#include "threaded_data_plane.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <iterator>
#include <system_error>

namespace gossamer::node {
namespace {

/// Of messages that are not worth waking anybody for, and how long they wait for others.
constexpr std::size_t kFewBytes = std::size_t{1} << 13;
constexpr double kHeld_s = 0.002;
/// Of a gradient that takes longer, who waits for another thread's turn loses nothing.
constexpr double kShort_s = 0.1;

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

/// Of a gradient under way: something that is told with what follows.
void ThreadedDataPlane::hold(DataEvent event) {
  if (held_.empty()) held_since_ = steady_seconds();
  if (const auto* encoded = std::get_if<Encoded>(&event)) held_bytes_ += encoded->payload->size();
  held_.push_back(std::move(event));
}

/// The parcel's messages, and that it is ready, are held: they are told now, or with the next one's. To wake
/// somebody for few bytes, here and at the neighbours, takes longer than to send them.
void ThreadedDataPlane::tell_parcel(ParcelId parcel) {
  const bool others_follow = parcel > 0;
  if (!others_follow || held_bytes_ == 0 || held_bytes_ >= kFewBytes) post_held();
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
void ThreadedDataPlane::run_ops(const PostEvent& answer) {
  std::unique_lock lock(mutex_);
  while (!ops_.empty()) {
    Op op = std::move(ops_.front());
    ops_.pop_front();
    lock.unlock();
    if (const auto parcel = replica_->waits_for(op))
      waiting_.emplace(*parcel, std::move(op));
    else
      replica_->run(op, answer);
    lock.lock();
  }
}

/// The copy for which training waits.
SharedState ThreadedDataPlane::save() {
  State used;
  if (saved_.use_count() == 1) used = std::move(*saved_);
  saved_ = std::make_shared<State>(replica_->save(std::move(used)));
  return saved_;
}

void ThreadedDataPlane::run_gradient(const Gradient& gradient) {
  const double begin = steady_seconds();
  // A long one would decide early on what the next round tells.
  const bool ahead = gradient.steps_in_mix && !gradient.idle && last_took_s_ < kShort_s;
  const auto told_before = [&](ParcelId p) { return ahead && gradient.on_ready[p].empty(); };
  for (ParcelId p = 0; p < gradient.on_ready.size(); ++p)
    if (told_before(p)) hold(ParcelReady{gradient.round, p});
  post_held();
  const auto holder = [this](DataEvent e) { hold(std::move(e)); };
  const auto teller = [&](DataEvent e) {
    if (std::holds_alternative<Encoded>(e)) return hold(std::move(e));  // the parcel is ready then
    const auto* ready = std::get_if<ParcelReady>(&e);
    if (!ready) return post(std::move(e));
    const ParcelId parcel = ready->parcel;
    if (told_before(parcel)) {
      run_ops(holder);
      if (const auto mix = waiting_.extract(parcel); !mix.empty())
        replica_->run(mix.mapped(), holder);  // what it reads and writes is in the caches yet
    } else {
      hold(std::move(e));
    }
    tell_parcel(parcel);
  };
  const auto between_layers = [this] {
    if (!held_.empty() && steady_seconds() > held_since_ + kHeld_s) post_held();
    run_ops(poster());
    const std::lock_guard lock(mutex_);
    if (finishing_) throw GivenUp{};
  };
  replica_->run(gradient, teller, between_layers);
  last_took_s_ = steady_seconds() - begin;
}

void ThreadedDataPlane::run_task(const Task& task) {
  try {
    if (const auto* gradient = std::get_if<Gradient>(&task)) {
      run_gradient(*gradient);
    } else if (const auto* snapshot = std::get_if<Snapshot>(&task)) {
      post(Saved{snapshot->round, save()});
    } else if (std::holds_alternative<Look>(task)) {
      post(learned_bytes(replica_->save_learned()));
    } else {
      replica_->evaluate(std::get<Evaluation>(task).round, poster());
    }
  } catch (const GivenUp&) {
    post_held();                     // nobody waits for the rest of the gradient
  } catch (const optim::GivenUp&) {  // nor for that
  }
}

void ThreadedDataPlane::loop() try {
  replica_->enter_thread();
  for (;;) {
    run_ops(poster());
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
