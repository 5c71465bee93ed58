#pragma once
// A live line (or block of lines) on a terminal, plain lines now and then elsewhere; always on stderr.
#include <chrono>
#include <string>

namespace gossamer::node {

class Progress {
 public:
  explicit Progress(bool quiet);
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
  std::size_t shown_lines_ = 0;
  std::chrono::steady_clock::time_point next_{};
};

}  // namespace gossamer::node
