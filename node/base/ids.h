#pragma once
// These types number the parts of a run and hold the bytes that peers exchange.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "gossamer/topology/schedule.h"

namespace gossamer::node {

using topology::PeerId;
using ParcelId = std::uint32_t;
using Round = std::uint64_t;

/// Floats [begin, begin + size) of a slot.
struct Range {
  std::size_t begin = 0, size = 0;
};

/// Encoded bytes, shared between links and never changed after they are made: an owner, which keeps them as
/// long as a copy lives (a vector, or memory that a device reads), and where they are.
class Payload {
 public:
  using Vector = std::vector<std::byte>;
  Payload() = default;
  Payload(std::nullptr_t) {}
  Payload(std::shared_ptr<const Vector> bytes) : owner_(bytes), bytes_(bytes ? *bytes : kNone) {}
  Payload(std::shared_ptr<Vector> bytes) : Payload(std::shared_ptr<const Vector>(std::move(bytes))) {}
  Payload(std::shared_ptr<const void> owner, std::span<const std::byte> bytes)
      : owner_(std::move(owner)), bytes_(bytes) {}

  explicit operator bool() const { return owner_ != nullptr; }
  const std::span<const std::byte>& operator*() const { return bytes_; }
  const std::span<const std::byte>* operator->() const { return &bytes_; }
  const void* get() const { return owner_.get(); }  ///< tells payloads apart
  Payload part(std::size_t begin, std::size_t size) const { return {owner_, bytes_.subspan(begin, size)}; }
  /// The same bytes.
  friend bool operator==(const Payload& a, const Payload& b) {
    return a.owner_ == b.owner_ || (a.owner_ && b.owner_ && std::ranges::equal(a.bytes_, b.bytes_));
  }

 private:
  inline static const Vector kNone{};
  std::shared_ptr<const void> owner_;
  std::span<const std::byte> bytes_;
};

}  // namespace gossamer::node
