#include "line_writer.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string_view>
#include <utility>

namespace gossamer::node {
namespace {

std::error_code write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {  // whoever gave us the descriptor made it so
      pollfd ready{fd, POLLOUT, 0};
      ::poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      return {errno, std::generic_category()};
    }
  }
  return {};
}

}  // namespace

LineWriter::LineWriter(int fd, std::size_t most) : fd_(fd), most_(most), thread_([this] { loop(); }) {}

LineWriter::~LineWriter() { end(); }

void LineWriter::write(std::string text) {
  const std::lock_guard lock(mutex_);
  if (failed_) return;
  while (!texts_.empty() && (texts_.size() >= most_ || bytes_ + text.size() > kMostBytes)) {
    take();
    ++dropped_;
  }
  bytes_ += text.size();
  texts_.push_back(std::move(text));
  changed_.notify_one();
}

/// The oldest.
std::string LineWriter::take() {
  std::string text = std::move(texts_.front());
  texts_.pop_front();
  bytes_ -= text.size();
  return text;
}

std::uint64_t LineWriter::dropped() const {
  const std::lock_guard lock(mutex_);
  return dropped_;
}

std::error_code LineWriter::finish(std::string last) {
  {
    const std::lock_guard lock(mutex_);
    bytes_ += last.size();
    texts_.push_back(std::move(last));
  }
  end();
  return failed_;
}

void LineWriter::end() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void LineWriter::loop() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);  // a reader that has gone is an error here, not a SIGPIPE
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ending_ || !texts_.empty(); });
    if (texts_.empty()) return;
    const std::string text = take();
    lock.unlock();
    const std::error_code failed = write_all(fd_, text);
    lock.lock();
    if (!failed) continue;
    failed_ = failed;
    texts_.clear();
    bytes_ = 0;
  }
}

}  // namespace gossamer::node
