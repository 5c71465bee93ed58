#pragma once
// Where what is saved goes, and comes from.
#include <cstddef>
#include <functional>
#include <span>

namespace gossamer::optim {

/// Takes bytes; throws what it likes.
using ByteSink = std::function<void(std::span<const std::byte>)>;
/// Fills the front of a span and returns how many bytes it wrote; 0 at the end only.
using ByteSource = std::function<std::size_t(std::span<std::byte>)>;

}  // namespace gossamer::optim
