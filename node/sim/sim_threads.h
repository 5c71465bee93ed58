#pragma once
// Threads that compute the floats of a simulation while its control code stays in one.
//
// Each replica has a queue, and what stands in one queue is computed in order, by one thread at a time. The
// control code adds work when a worker submits it and waits for a queue where it needs what comes out: when
// the first event of a gradient is due, or a command is to be answered. Which thread computes what, and when,
// shows in nothing but the time it takes.
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "gossamer/optim/model.h"

namespace gossamer::node {

class SimThreads {
 public:
  using Work = std::function<void()>;  ///< throws nothing
  class Queue {
    friend class SimThreads;
    std::deque<Work> waiting_;
    bool running_ = false;
  };

  /// threads: with the caller's; 1: work is done when it is added.
  explicit SimThreads(std::size_t threads);
  /// Work that has not begun is not done.
  ~SimThreads();
  SimThreads(const SimThreads&) = delete;
  SimThreads& operator=(const SimThreads&) = delete;

  // Called by one thread, which also computes while it waits.
  void add(Queue& queue, Work work);
  void finish(Queue& queue);

 private:
  void help();
  void run(Queue& queue, std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;  ///< guards the queues too
  std::condition_variable ready_, idle_;
  std::deque<Queue*> listed_;  ///< had work when they were listed
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

/// One model for many replicas: each call is made on one of as many as there are calls at a time.
std::shared_ptr<optim::Model> make_shared_model(std::function<std::unique_ptr<optim::Model>()> make);

}  // namespace gossamer::node
