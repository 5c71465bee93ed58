#pragma once
// message_with_hint adds the name that was probably meant to errors of the libraries below.
#include <exception>
#include <string>

namespace gossamer::node {

/// The error's message; where a topology, codec or optim error tells of a name that there is not, with the
/// name that was probably meant.
std::string message_with_hint(const std::exception& error);

}  // namespace gossamer::node
