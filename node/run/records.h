#pragma once
// Records are what a peer tells of itself as lines of JSON: metrics.jsonl, and the pipe to `gossamer run`.
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "env.h"
#include "worker.h"

namespace gossamer::node {

/// "test accuracy 89.10 %, loss 0.3127"
std::string figures_text(const optim::Figures& figures);

/// One line of metrics.jsonl:
///   {"event":"report","peer":name,"time":s,"round":n,"epoch":x,"share_done":x,"loss":x,
///    "samples_per_second":x,"bytes_out_per_second":x,"bytes_in_per_second":x,"staleness":n,
///    "skipped_steps":n,"held_back":n,"queued_bytes":n,"peers":n[,"test_accuracy":x,"test_loss":x]}
///    and whatever other figures an evaluation has, as "test_NAME".
/// time counts from the peer's start; loss is null where no step fell into the interval. Skipped steps and
/// messages held back are counted from the start; queued_bytes are held now.
std::string to_json(const std::string& peer, double time, const Report& report);
/// Of another peer, as this one learns it:
///   {"event":"member","peer":name,"time":s,"member":name,"what":"came"|"suspected"|"refuted"|"gone"|"left"|"back",
///    "why":…,"start":n,"share_done":x}
std::string to_json(const std::string& peer, double time, const MemberEvent& event);
/// The last line of a peer: {"event":"result","peer":name,"outcome":…,"message":…,"reports_dropped":n,
/// figures of WorkerResult}. reports_dropped: lines before this one that nobody read in time.
std::string to_json(const std::string& peer, const WorkerResult& result, std::uint64_t reports_dropped);

/// "3 for their round, 1 for their payload".
std::string refusals_text(const RefusalCounts& counts);

/// Instead of the result, where a peer ended by an error: {"event":"failure","peer":name,"message":…}.
std::string to_json(const std::string& peer, const std::exception& error);

/// Begins a run's metrics with those of the run that it goes on from, up to a round, and a line that says so:
/// {"event":"resumed","parent":folder,"round":n}. What cannot be read is left out.
void carry_metrics(const std::filesystem::path& parent, const std::filesystem::path& folder, Round round);

struct Failure {
  std::string message;
};
struct Record {
  std::string peer;
  double time = 0;
  std::variant<Report, WorkerResult, Failure, MemberEvent> body;
  std::uint64_t reports_dropped = 0;  ///< of a result
};
/// Empty where the line is no record.
std::optional<Record> parse_record(std::string_view line);

}  // namespace gossamer::node
