#include "byte_stream.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace gossamer::node {
namespace {

constexpr std::size_t kHeldBytes = 64 * 1024;
constexpr std::size_t kMostBytesOfWrite = std::size_t{8} << 20;  ///< of one call

}  // namespace

void BufferedSink::write(std::span<const std::byte> bytes) {
  if (held_.size() + bytes.size() > kHeldBytes) flush();
  if (bytes.size() >= kHeldBytes) return onward_(bytes);
  held_.insert(held_.end(), bytes.begin(), bytes.end());
}

void BufferedSink::flush() {
  if (held_.empty()) return;
  onward_(held_);
  held_.clear();
}

bool write_fully(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), std::min(bytes.size(), kMostBytesOfWrite));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace gossamer::node
