#pragma once
// How bodies that go as one blob are put together and taken apart: numbers of 8 bytes, numbers as of
// varint.h, and texts and bytes after their length.
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "varint.h"

namespace gossamer::node {

inline void put_fixed(std::uint64_t value, std::vector<std::byte>& bytes) {
  for (int k = 0; k < 64; k += 8) bytes.push_back(static_cast<std::byte>(value >> k));
}
template <class Blob>
void put_blob(const Blob& blob, std::vector<std::byte>& bytes) {
  put_varint(blob.size(), bytes);
  for (const auto b : blob) bytes.push_back(static_cast<std::byte>(b));
}

/// Takes values off the front; once one is not there, or wrong, all that follow are nothing.
class BlobReader {
 public:
  explicit BlobReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::uint64_t fixed() {
    std::uint64_t value = 0;
    const auto part = take(8);
    for (std::size_t k = 0; k < part.size(); ++k) value |= std::to_integer<std::uint64_t>(part[k]) << (8 * k);
    return value;
  }
  std::uint64_t number(std::uint64_t most) {
    const auto value = good_ ? take_varint(bytes_, most) : std::nullopt;
    good_ = value.has_value();
    return value.value_or(0);
  }
  std::uint32_t number() {
    return static_cast<std::uint32_t>(number(std::numeric_limits<std::uint32_t>::max()));
  }
  std::span<const std::byte> blob(std::size_t most) { return take(number(most)); }
  std::string text(std::size_t most) {
    const auto part = blob(most);
    return {reinterpret_cast<const char*>(part.data()), part.size()};
  }
  void demand(bool holds) { good_ = good_ && holds; }
  bool good() const { return good_; }
  bool at_end() const { return bytes_.empty(); }

 private:
  std::span<const std::byte> take(std::size_t size) {
    demand(size <= bytes_.size());
    if (!good_) return {};
    const auto part = bytes_.first(size);
    bytes_ = bytes_.subspan(size);
    return part;
  }
  std::span<const std::byte> bytes_;
  bool good_ = true;
};

}  // namespace gossamer::node
