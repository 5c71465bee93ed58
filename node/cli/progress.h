#pragma once
// Progress shows a live line or block on a terminal, and plain lines now and then elsewhere; on stderr.
#include <chrono>
#include <functional>
#include <string>

namespace gossamer::node {

/// Writes to stderr, and waits until it takes the text.
void to_stderr(const std::string& text);

class Progress {
 public:
  using Write = std::function<void(const std::string& text)>;
  /// Whoever must not wait for the terminal hands over how to write to it.
  explicit Progress(bool quiet, Write write = to_stderr);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// Shows the text (may hold several lines) in place of the last one; elsewhere than on a terminal its last
  /// line is printed at most every two seconds.
  void line(const std::string& text);
  /// The next line would be shown.
  bool due() const { return !quiet_ && std::chrono::steady_clock::now() >= next_; }
  /// Removes what stands on the terminal.
  void clear();
  bool terminal() const { return terminal_; }

 private:
  bool quiet_, terminal_;
  Write write_;
  std::size_t shown_lines_ = 0;
  std::chrono::steady_clock::time_point next_{};
};

}  // namespace gossamer::node
