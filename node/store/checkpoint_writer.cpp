#include "checkpoint_writer.h"

#include <fmt/format.h>

#include <cassert>
#include <chrono>
#include <new>
#include <utility>

namespace gossamer::node {
namespace {

/// What went wrong in the call; empty where nothing did.
template <class Call>
std::string caught(Call call) {
  try {
    call();
    return {};
  } catch (const std::bad_alloc&) {
    return "not enough memory to write a checkpoint";
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

CheckpointWriter::CheckpointWriter(Storage& storage, const std::filesystem::path& folder,
                                   std::vector<optim::Layer> layers)
    : folder_(storage, folder), layers_(std::move(layers)), thread_([this] { loop(); }) {}

CheckpointWriter::~CheckpointWriter() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  turned_.notify_one();
  thread_.join();
}

bool CheckpointWriter::busy() const {
  const std::lock_guard lock(mutex_);
  return busy_;
}

void CheckpointWriter::write(CheckpointHead head, SharedState state) {
  {
    const std::lock_guard lock(mutex_);
    assert(!busy_);
    busy_ = true;
    tasks_.push_back({std::pair(std::move(head), std::move(state)), {}, {}});
  }
  turned_.notify_one();
}

void CheckpointWriter::remove(const std::string& peer, std::vector<Round> rounds) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back({std::nullopt, peer, std::move(rounds)});
  }
  turned_.notify_one();
}

std::vector<CheckpointWriter::Written> CheckpointWriter::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(done_, {});
}

void CheckpointWriter::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    turned_.wait(lock, [&] { return ends_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    const bool writes = task.write.has_value();
    const Written written = writes ? carry_out(*task.write) : Written{};
    for (const Round round : task.remove) caught([&] { folder_.remove(round, task.peer); });
    task = {};  // the state is free before it is said that this is no longer busy
    lock.lock();
    if (!writes) continue;
    done_.push_back(written);
    busy_ = false;
  }
}

CheckpointWriter::Written CheckpointWriter::carry_out(const std::pair<CheckpointHead, SharedState>& what) {
  const auto begin = std::chrono::steady_clock::now();
  Written written{what.first.round, {}, 0, 0};
  written.error = caught([&] { written.bytes = folder_.write(what.first, layers_, *what.second); });
  written.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return written;
}

}  // namespace gossamer::node
