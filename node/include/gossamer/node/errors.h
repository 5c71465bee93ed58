#pragma once
// These errors end a program with a message for its user.
#include <stdexcept>

namespace gossamer::node {

/// Bad input (file, flag, combination): what was found, what was expected, what to do; file:line:column where
/// there is one. The program ends with status 2.
class ConfigError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace gossamer::node
