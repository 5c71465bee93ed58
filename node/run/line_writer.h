#pragma once
// LineWriter writes text to a pipe or terminal whose reader may be stopped.
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>

namespace gossamer::node {

/// Writes texts, mostly lines, to a file descriptor on a thread of its own, so that whoever hands them over
/// never waits for whoever reads them. Once the descriptor fails (nobody reads any more) all that follows is
/// discarded.
class LineWriter {
 public:
  /// Texts that have not left take at most so much, whatever their number.
  static constexpr std::size_t kMostBytes = std::size_t{4} << 20;
  /// Holds at most `most` texts that have not left; beyond these the oldest are dropped and counted.
  LineWriter(int fd, std::size_t most);
  ~LineWriter();  ///< waits until all has left
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;

  /// The text as it is, a line with its end.
  void write(std::string text);
  std::uint64_t dropped() const;
  /// A last text, which is not dropped: waits until all has left. Gives what the descriptor failed with, if
  /// it did.
  std::error_code finish(std::string last = {});

 private:
  void loop();
  void end();
  std::string take();

  const int fd_;
  const std::size_t most_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> texts_;
  std::size_t bytes_ = 0;  ///< of texts_
  std::uint64_t dropped_ = 0;
  std::error_code failed_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace gossamer::node
