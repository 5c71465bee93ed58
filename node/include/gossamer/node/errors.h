#pragma once
// These errors end a program with a message for its user.
#include <stdexcept>
#include <string>

namespace gossamer::node {

/// What was found, what was expected, what to do.
class Error : public std::runtime_error {
 public:
  enum class Code {
    bad_input,  ///< file, flag, data, model or combination that cannot be used
    bad_state,  ///< a saved state of another job or peer, or a damaged one
    misuse,     ///< calls in the wrong order
    failed      ///< anything else: memory, sockets, the disk
  };
  Error(Code code, const std::string& text) : runtime_error(text), code_(code) {}
  Code code() const { return code_; }

 private:
  Code code_;
};

/// Bad input (file, flag, combination); file:line:column where there is one. The program ends with status 2.
class ConfigError : public Error {
 public:
  explicit ConfigError(const std::string& text) : Error(Code::bad_input, text) {}
};

/// What waited was told to end. The program ends with status 130.
class Interrupted : public Error {
 public:
  explicit Interrupted(const std::string& text) : Error(Code::failed, text) {}
};

/// A saved state that does not fit what it is to be restored into, or bytes that hold none.
class StateError : public Error {
 public:
  explicit StateError(const std::string& text) : Error(Code::bad_state, text) {}
};

}  // namespace gossamer::node
