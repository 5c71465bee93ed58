#pragma once
// Names in messages.
#include <span>
#include <string>
#include <string_view>

namespace gossamer::topology {

/// "; did you mean 'ring'?" for the known name nearest to a misspelt one; empty where none is near.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> known);

/// "ring, torus, full"
std::string joined(std::span<const std::string_view> names);

}  // namespace gossamer::topology
