#pragma once
// Names in messages.
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gossamer::topology {

/// "ring, torus, full"
std::string joined(std::span<const std::string_view> names);
/// For an error that tells them.
inline std::vector<std::string> strings(std::span<const std::string_view> names) {
  return {names.begin(), names.end()};
}

}  // namespace gossamer::topology
