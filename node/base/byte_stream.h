#pragma once
// Bytes on their way to or from a file, whoever keeps it.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace gossamer::node {

/// Takes bytes in order. Throws where it cannot.
using ByteSink = std::function<void(std::span<const std::byte>)>;

/// Bytes that stand somewhere.
struct ByteSource {
  std::uint64_t size = 0;
  /// Fills `into` from an offset on; offset + into.size() is at most size. Throws where it cannot.
  std::function<void(std::uint64_t offset, std::span<std::byte> into)> read;
};

/// Hands small pieces on together, and large ones as they are.
class BufferedSink {
 public:
  explicit BufferedSink(ByteSink onward) : onward_(std::move(onward)) {}
  void write(std::span<const std::byte> bytes);
  void flush();  ///< what is still held; before the end
  ByteSink sink() {
    return [this](std::span<const std::byte> bytes) { write(bytes); };
  }

 private:
  ByteSink onward_;
  std::vector<std::byte> held_;
};

/// Into an open file, however many calls that takes; false where one fails, with errno.
bool write_fully(int file, std::span<const std::byte> bytes);

}  // namespace gossamer::node
