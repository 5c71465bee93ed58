#include "progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace gossamer::node {

Progress::Progress(bool quiet) : quiet_(quiet), terminal_(isatty(STDERR_FILENO) != 0) {}

void Progress::line(const std::string& text) {
  if (quiet_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return;
  if (!terminal_) {
    next_ = now + std::chrono::seconds(2);
    const auto last = text.rfind('\n');
    std::fprintf(stderr, "%s\n", text.c_str() + (last == std::string::npos ? 0 : last + 1));
    return;
  }
  next_ = now + std::chrono::milliseconds(100);
  clear();
  std::fprintf(stderr, "%s\n", text.c_str());
  shown_lines_ = 1 + static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

void Progress::clear() {
  if (shown_lines_ == 0) return;
  std::fprintf(stderr, "\x1b[%zuA\x1b[J", shown_lines_);
  shown_lines_ = 0;
}

}  // namespace gossamer::node
