#pragma once
// What `gossamer run` tells a program that it starts as a peer, by its environment, and what such a program
// tells back.
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "gossamer/node/report.h"
#include "line_writer.h"

namespace gossamer::node {
struct WorkerResult;
}

namespace gossamer::node::api {

/// Of a variable; empty where it is not set.
std::string from_environment(const char* name);

/// Lines of JSON (records.h) on the descriptor that GOSSAMER_RECORDS names; nothing where none is named.
class Telling {
 public:
  explicit Telling(std::string name);
  bool on() const { return lines_.has_value(); }
  void report(const Report& report);
  void member(const MemberEvent& event);
  void end(const WorkerResult& result);

 private:
  double seconds() const;
  std::string name_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::optional<LineWriter> lines_;
};

}  // namespace gossamer::node::api
