#include "progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace gossamer::node {

namespace {

/// A terminal whose cursor only goes on.
bool is_dumb() {
  const char* const kind = std::getenv("TERM");
  return kind && std::string_view(kind) == "dumb";
}

}  // namespace

void to_stderr(const std::string& text) { std::fputs(text.c_str(), stderr); }

Progress::Progress(bool quiet, Write write)
    : quiet_(quiet), terminal_(isatty(STDERR_FILENO) != 0 && !is_dumb()), write_(std::move(write)) {}

void Progress::line(const std::string& text) {
  if (quiet_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return;
  if (!terminal_) {
    next_ = now + std::chrono::seconds(2);
    const auto last = text.rfind('\n');
    write_(text.substr(last == std::string::npos ? 0 : last + 1) + '\n');
    return;
  }
  next_ = now + std::chrono::milliseconds(100);
  clear();
  write_(text + '\n');
  shown_lines_ = 1 + static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

void Progress::clear() {
  if (shown_lines_ == 0) return;
  write_("\x1b[" + std::to_string(shown_lines_) + "A\x1b[J");
  shown_lines_ = 0;
}

}  // namespace gossamer::node
