#pragma once
// ThreadedDataPlane gives a replica a thread: commands in, events out through a descriptor to poll.
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <variant>
#include <vector>

#include "replica.h"

namespace gossamer::node {

class ThreadedDataPlane final : public DataPlane {
 public:
  explicit ThreadedDataPlane(Replica replica);
  ~ThreadedDataPlane() override;

  void submit(Op op) override;
  void submit(Gradient gradient) override;
  void submit_evaluation(Round round) override;

  /// Replica::use_threads, before anything is submitted.
  void use_threads(std::size_t threads);
  /// Readable while events wait.
  int event_fd() const { return event_fd_; }
  /// Moves the waiting events out.
  std::vector<DataEvent> take_events();
  /// Ends the thread: all ops are still run; gradients and evaluations that have not begun are not, and
  /// a gradient under way is given up between two layers. After that the replica is the caller's.
  const Replica& finish();

 private:
  struct Evaluation {
    Round round;
  };
  using Task = std::variant<Gradient, Evaluation>;
  void loop();
  void run_ops();
  void run_task(const Task& task);
  void post(DataEvent event);

  Replica replica_;
  int event_fd_;
  std::mutex mutex_;
  std::condition_variable work_;
  std::deque<Op> ops_;
  std::deque<Task> tasks_;
  std::vector<DataEvent> events_;
  bool finishing_ = false;
  std::thread thread_;
};

}  // namespace gossamer::node
