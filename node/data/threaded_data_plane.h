#pragma once
// ThreadedDataPlane gives a replica a thread: commands in, events out through a descriptor to poll.
#include <condition_variable>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <variant>
#include <vector>

#include "replica_base.h"

namespace gossamer::node {

class ThreadedDataPlane final : public LiveDataPlane {
 public:
  explicit ThreadedDataPlane(std::unique_ptr<ReplicaBase> replica);
  ~ThreadedDataPlane() override;

  void submit(Op op) override;
  void submit(Gradient gradient) override;
  void submit_evaluation(Round round) override;
  void submit_snapshot(Round round) override;
  void submit_learned() override;
  void restore(const State& state, Kept kept) override;
  void hurry() override { replica_->hurry(); }

  void use_threads(std::size_t threads) override;
  int event_fd() const override { return event_fd_; }
  std::vector<DataEvent> take_events() override;
  void finish() override;  ///< ends the thread, too
  SpareFloats release() override;
  bool released() const override { return !replica_; }
  std::span<const float> parameters() const override {
    if (!replica_) return {};
    replica_->enter_thread();
    return replica_->parameters();
  }
  State for_next_view(std::span<const Incarnation> seats) override {
    replica_->enter_thread();
    return replica_->save_for_next_view(seats);
  }
  optim::Objective& objective() override { return replica_->objective(); }
  const RowExchange* rows() const override { return replica_->rows(); }

 private:
  struct Evaluation {
    Round round;
  };
  struct Snapshot {
    Round round;
  };
  struct Look {};  // at what has been learned
  using Task = std::variant<Gradient, Evaluation, Snapshot, Look>;
  void loop();
  struct GivenUp {};
  PostEvent poster() {
    return [this](DataEvent e) { post(std::move(e)); };
  }
  void run_ops(const PostEvent& answer);
  void run_task(const Task& task);
  void run_gradient(const Gradient& gradient);
  SharedState save();
  void post(DataEvent event);
  void hold(DataEvent event);
  void tell_parcel(ParcelId parcel);
  void post_held();

  std::unique_ptr<ReplicaBase> replica_;
  int event_fd_;
  std::mutex mutex_;
  std::condition_variable work_;
  std::deque<Op> ops_;
  std::deque<Task> tasks_;
  std::vector<DataEvent> events_;
  // The thread's own.
  std::vector<DataEvent> held_;  ///< they are posted with what follows
  std::size_t held_bytes_ = 0;   ///< of their messages
  double held_since_ = 0;
  std::map<ParcelId, Op> waiting_;                                ///< for the gradient under way
  double last_took_s_ = std::numeric_limits<double>::infinity();  ///< the last gradient
  SharedState saved_;                                             ///< the newest
  bool finishing_ = false;
  std::thread thread_;
};

}  // namespace gossamer::node
