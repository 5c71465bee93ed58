#include "records.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "json_line.h"
#include "run_folder.h"
#include "storage.h"

namespace gossamer::node {
namespace {

using nlohmann::ordered_json;

constexpr std::array kOutcomes{"running",   "finished", "lost_peer",  "stalled",
                               "bad_input", "failed",   "interrupted"};
static_assert(kOutcomes.size() == static_cast<std::size_t>(Outcome::interrupted) + 1);

constexpr std::array kMemberEvents{"came", "suspected", "refuted", "gone", "left", "back"};
static_assert(kMemberEvents.size() == static_cast<std::size_t>(MemberEvent::What::back) + 1);

constexpr const char* kTestFront = "test_";  ///< of an evaluation's figures

double number(const ordered_json& j, const char* key) {
  const auto at = j.find(key);
  return at == j.end() || at->is_null() ? std::nan("") : at->get<double>();
}

Report read_report(const ordered_json& j) {
  Report r;
  r.round = j.at("round");
  r.epoch = j.at("epoch");
  r.share_done = j.at("share_done");
  r.loss = number(j, "loss");
  r.rows_per_second = j.at("samples_per_second");
  r.bytes_out_per_second = j.at("bytes_out_per_second");
  r.bytes_in_per_second = j.at("bytes_in_per_second");
  r.staleness = j.at("staleness");
  r.skipped_steps = j.at("skipped_steps");
  r.held_back = j.at("held_back");
  r.queued_bytes = j.at("queued_bytes");
  r.peers = j.at("peers");
  for (const auto& [key, value] : j.items())
    if (key.starts_with(kTestFront)) {
      if (!r.test) r.test.emplace();
      r.test->push_back({key.substr(std::string_view(kTestFront).size()), number(j, key.c_str())});
    }
  return r;
}

MemberEvent read_member(const ordered_json& j) {
  MemberEvent e{.peer = j.at("member"), .why = j.at("why")};
  const std::string what = j.at("what");
  for (std::size_t i = 0; i < kMemberEvents.size(); ++i)
    if (what == kMemberEvents[i]) e.what = static_cast<MemberEvent::What>(i);
  e.start = j.at("start");
  e.share_done = j.at("share_done");
  return e;
}

WorkerResult read_result(const ordered_json& j) {
  WorkerResult r;
  const std::string outcome = j.at("outcome");
  for (std::size_t i = 0; i < kOutcomes.size(); ++i)
    if (outcome == kOutcomes[i]) r.outcome = static_cast<Outcome>(i);
  r.message = j.at("message");
  r.rounds = j.at("rounds");
  r.rows = j.at("samples");
  r.rounds_here = j.at("rounds_here");
  r.rows_here = j.at("samples_here");
  r.dense_rounds_here = j.at("dense_rounds_here");
  r.train_loss = number(j, "train_loss");
  r.seconds = j.at("seconds");
  r.staleness_mean = j.at("staleness_mean");
  r.staleness_max = j.at("staleness_max");
  r.left_out = j.at("left_out");
  r.traffic.bytes_out = j.at("bytes_out");
  r.traffic.bytes_in = j.at("bytes_in");
  r.traffic.data_bytes_out = j.at("data_bytes_out");
  r.traffic.data_entries_out = j.at("data_parameters_out");
  r.dense_data_bytes = j.at("dense_data_bytes_out");
  r.traffic.resent = j.at("frames_resent");
  r.traffic.duplicates = j.at("frames_duplicate");
  r.dropped_frames = j.at("frames_dropped");
  r.checkpoints = j.at("checkpoints");
  r.checkpoint_pause_s = j.at("checkpoint_pause");
  r.waited_s = j.at("waited");
  r.skipped_steps = j.at("skipped_steps");
  j.at("muted").get_to(r.muted);
  r.closed_without = j.at("closed_without");
  r.idle_steps = j.at("idle_steps");
  r.held_back = j.at("held_back");
  r.queued_bytes_most = j.at("queued_bytes_most");
  r.dropped_control = j.at("control_frames_dropped");
  for (const auto& [name, value] : j.at("figures").items())
    r.figures.push_back({name, number(j["figures"], name.c_str())});
  return r;
}

}  // namespace

std::string figures_text(const optim::Figures& figures) {
  constexpr std::size_t kMostShown = 6;  // the rest is in the records
  std::string text;
  for (const auto& [name, value] : std::span(figures).first(std::min(figures.size(), kMostShown)))
    text +=
        (text.empty() ? "test " : ", ") + (name == "accuracy" ? fmt::format("{} {:.2f} %", name, 100 * value)
                                                              : fmt::format("{} {:.4f}", name, value));
  return text;
}

std::string to_json(const std::string& peer, double time, const Report& r) {
  ordered_json j{{"event", "report"},
                 {"peer", peer},
                 {"time", time},
                 {"round", r.round},
                 {"epoch", r.epoch},
                 {"share_done", r.share_done},
                 {"loss", r.loss},
                 {"samples_per_second", r.rows_per_second},
                 {"bytes_out_per_second", r.bytes_out_per_second},
                 {"bytes_in_per_second", r.bytes_in_per_second},
                 {"staleness", r.staleness},
                 {"skipped_steps", r.skipped_steps},
                 {"held_back", r.held_back},
                 {"queued_bytes", r.queued_bytes},
                 {"peers", r.peers}};
  if (r.test)
    for (const optim::Figure& f : *r.test) j[kTestFront + f.name] = f.value;
  return json_line(j);
}

std::string to_json(const std::string& peer, double time, const MemberEvent& e) {
  return json_line({{"event", "member"},
                    {"peer", peer},
                    {"time", time},
                    {"member", e.peer},
                    {"what", kMemberEvents[static_cast<std::size_t>(e.what)]},
                    {"why", e.why},
                    {"start", e.start},
                    {"share_done", e.share_done}});
}

std::string to_json(const std::string& peer, const WorkerResult& r, std::uint64_t reports_dropped) {
  ordered_json figures = ordered_json::object();
  for (const optim::Figure& f : r.figures) figures[f.name] = f.value;
  return json_line({{"event", "result"},
                    {"peer", peer},
                    {"outcome", kOutcomes[static_cast<std::size_t>(r.outcome)]},
                    {"message", r.message},
                    {"reports_dropped", reports_dropped},
                    {"rounds", r.rounds},
                    {"samples", r.rows},
                    {"rounds_here", r.rounds_here},
                    {"samples_here", r.rows_here},
                    {"dense_rounds_here", r.dense_rounds_here},
                    {"train_loss", r.train_loss},
                    {"seconds", r.seconds},
                    {"staleness_mean", r.staleness_mean},
                    {"staleness_max", r.staleness_max},
                    {"left_out", r.left_out},
                    {"bytes_out", r.traffic.bytes_out},
                    {"bytes_in", r.traffic.bytes_in},
                    {"data_bytes_out", r.traffic.data_bytes_out},
                    {"data_parameters_out", r.traffic.data_entries_out},
                    {"dense_data_bytes_out", r.dense_data_bytes},
                    {"frames_resent", r.traffic.resent},
                    {"frames_duplicate", r.traffic.duplicates},
                    {"frames_dropped", r.dropped_frames},
                    {"frames_refused", r.traffic.refused()},
                    {"checkpoints", r.checkpoints},
                    {"checkpoint_pause", r.checkpoint_pause_s},
                    {"waited", r.waited_s},
                    {"skipped_steps", r.skipped_steps},
                    {"muted", r.muted},
                    {"closed_without", r.closed_without},
                    {"idle_steps", r.idle_steps},
                    {"held_back", r.held_back},
                    {"queued_bytes_most", r.queued_bytes_most},
                    {"control_frames_dropped", r.dropped_control},
                    {"figures", figures}});
}

std::string refusals_text(const RefusalCounts& counts) {
  std::vector<std::string> parts;
  for (std::size_t why = 0; why < counts.size(); ++why)
    if (counts[why] > 0) parts.push_back(fmt::format("{} for their {}", counts[why], kRefusals[why]));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string to_json(const std::string& peer, const std::exception& error) {
  return json_line({{"event", "failure"}, {"peer", peer}, {"message", error.what()}});
}

void carry_metrics(const std::filesystem::path& parent, const std::filesystem::path& folder, Round round) {
  std::string carried;  // the two may be one
  std::ifstream in(parent / kMetricsFile);
  for (std::string line; std::getline(in, line);) {
    const auto j = ordered_json::parse(line, nullptr, false);
    if (!j.is_object()) continue;
    const auto at = j.find("round");
    if (at != j.end() && at->is_number_unsigned() && at->get<Round>() <= round) carried += line + '\n';
  }
  carried += json_line({{"event", "resumed"}, {"parent", parent.string()}, {"round", round}});
  carried += '\n';
  PosixStorage storage;
  replace_file(storage, folder / kMetricsFile, carried);
}

std::optional<Record> parse_record(std::string_view line) try {
  const ordered_json j = ordered_json::parse(line);
  Record record{j.at("peer"), 0, {}, 0};
  if (j.at("event") == "result") {
    record.body = read_result(j);
    record.reports_dropped = j.at("reports_dropped");
  } else if (j.at("event") == "member") {
    record.time = j.at("time");
    record.body = read_member(j);
  } else if (j.at("event") == "failure") {
    record.body = Failure{j.at("message")};
  } else {
    record.time = j.at("time");
    record.body = read_report(j);
  }
  return record;
} catch (const ordered_json::exception&) {
  return std::nullopt;
}

}  // namespace gossamer::node
