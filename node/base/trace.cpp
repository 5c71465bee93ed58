#include "trace.h"

#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace gossamer::node {
namespace {

constexpr const char* kTracks[] = {"rounds", "work", "links"};

/// A string of JSON; names of peers hold nothing that needs more.
std::string quoted(const std::string& text) {
  std::string all = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') all += '\\';
    all += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return all + '"';
}

std::string event_of(const TraceSpan& span, std::size_t process) {
  std::string more;
  const auto add = [&](const char* name, const std::string& value) {
    more += fmt::format("{}\"{}\":{}", more.empty() ? "" : ",", name, value);
  };
  if (span.round >= 0) add("round", std::to_string(span.round));
  if (span.parcel >= 0) add("parcel", std::to_string(span.parcel));
  if (span.bytes >= 0) add("bytes", std::to_string(span.bytes));
  if (!span.to.empty()) add("to", quoted(span.to));
  const auto track = static_cast<std::size_t>(span.track);
  return fmt::format(
      R"({{"name":"{}","cat":"{}","ph":"X","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{{}}}}})",
      span.what, kTracks[track], process, track, 1e6 * span.begin_s, 1e6 * (span.end_s - span.begin_s), more);
}

std::string name_event(const char* what, std::size_t process, std::size_t track, const std::string& name) {
  return fmt::format(R"({{"name":"{}","ph":"M","pid":{},"tid":{},"args":{{"name":{}}}}})", what, process,
                     track, quoted(name));
}

/// An array, an event a line.
class Events {
 public:
  explicit Events(const std::filesystem::path& file) : path_(file), out_(file) { out_ << "["; }
  void add(const std::string& event) {
    out_ << (first_ ? "\n" : ",\n") << event;
    first_ = false;
  }
  void finish() {
    out_ << "\n]\n";
    if (!out_.flush())
      throw std::runtime_error(fmt::format("cannot write {}: {}", path_.string(), std::strerror(errno)));
  }

 private:
  std::filesystem::path path_;
  std::ofstream out_;
  bool first_ = true;
};

}  // namespace

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void Trace::add(TraceSpan span) {
  const std::lock_guard lock(mutex_);
  if (spans_.size() < kMost)
    spans_.push_back(std::move(span));
  else
    ++left_out_;
}

void Trace::write(const std::filesystem::path& file, std::size_t number, const std::string& name) const {
  const std::lock_guard lock(mutex_);
  Events events(file);
  const std::string all =
      left_out_ == 0 ? name : fmt::format("{} ({} later spans left out)", name, left_out_);
  events.add(name_event("process_name", number, 0, all));
  for (std::size_t track = 0; track < std::size(kTracks); ++track)
    events.add(name_event("thread_name", number, track, kTracks[track]));
  for (const TraceSpan& span : spans_) events.add(event_of(span, number));
  events.finish();
}

void remove_parts(std::span<const std::filesystem::path> parts) {
  std::error_code gone;
  for (const auto& part : parts) std::filesystem::remove(part, gone);
}

void merge_traces(std::span<const std::filesystem::path> parts, const std::filesystem::path& file) {
  Events events(file);
  for (const auto& part : parts) {
    std::ifstream in(part);
    for (std::string line; std::getline(in, line);) {
      if (!line.starts_with('{')) continue;
      if (line.ends_with(',')) line.pop_back();
      events.add(line);
    }
  }
  events.finish();
  remove_parts(parts);
}

}  // namespace gossamer::node
