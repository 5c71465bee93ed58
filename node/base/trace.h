#pragma once
// A Trace is what a peer did when, for a person to look at: spans of time in the Trace Event Format (JSON),
// which Perfetto and chrome://tracing show.
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace gossamer::node {

struct TraceSpan {
  enum class Track : std::uint8_t {
    rounds,  ///< of the peer, as its control code sees them: "compute", then "wait" for the round's end
    work,    ///< of the data plane's thread: its commands, some of which run within a gradient
    links,   ///< frames that leave; may overlap
  };
  const char* what;  ///< outlives the trace
  Track track;
  double begin_s, end_s;
  std::int64_t round = -1, parcel = -1, bytes = -1;  ///< −1: of none
  std::string to{};                                  ///< a peer; empty: of none
};

/// Of one peer. Any thread.
class Trace {
 public:
  static constexpr std::size_t kMost = 1'000'000;
  /// Beyond kMost spans are counted and not kept.
  void add(TraceSpan span);
  /// One peer's events, an event a line, its process `number` and called `name`; a file that such a viewer
  /// reads. Throws std::runtime_error where it cannot be written.
  void write(const std::filesystem::path& file, std::size_t number, const std::string& name) const;

 private:
  mutable std::mutex mutex_;
  std::vector<TraceSpan> spans_;
  std::uint64_t left_out_ = 0;
};

void remove_parts(std::span<const std::filesystem::path> parts);
/// Makes one file of those that Trace::write made, which go; what is not there is left out. Throws as it
/// does.
void merge_traces(std::span<const std::filesystem::path> parts, const std::filesystem::path& file);

/// Seconds of this machine's clock that never goes back: the same for all its processes.
double steady_seconds();

}  // namespace gossamer::node
