// Summaries side by side, for people.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <sstream>

#include "summary.h"
#include "text.h"

namespace gossamer::node {
namespace {

std::string percent(double x) { return std::isfinite(x) ? fmt::format("{:.2f} %", 100 * x) : "–"; }
std::string percent(const std::optional<double>& x) { return x ? percent(*x) : ""; }
std::string bits(const std::optional<double>& x) { return x ? fmt::format("{:.3f}", *x) : ""; }
std::string distance(double x) { return std::isnan(x) ? "–" : fmt::format("{:.3g}", x); }

/// "12", or "12 to 40" of the least and the most.
std::string least_and_most(const std::vector<std::uint64_t>& counts) {
  if (counts.empty()) return "";
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  return *least == *most ? std::to_string(*least) : fmt::format("{} to {}", *least, *most);
}

std::string waited_text(const std::vector<double>& shares) {
  if (shares.empty()) return "";
  const auto [least, most] = std::minmax_element(shares.begin(), shares.end());
  const std::string low = fmt::format("{:.0f}", 100 * *least), high = fmt::format("{:.0f}", 100 * *most);
  return low == high ? low : low + " to " + high;
}

std::string above_zero(std::uint64_t count) { return count > 0 ? std::to_string(count) : ""; }

/// "rows told" of "rows_told".
std::string words_of(std::string name) {
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

/// One digit behind the point; below 1 two that are not 0.
std::string short_number(double x) {
  return x > 0 && x < 1 ? fmt::format("{:.2g}", x) : fmt::format("{:.1f}", x);
}

/// Of each run, with those parameters that another run of that codec has otherwise.
std::vector<std::string> codec_texts(std::span<const Summary> runs) {
  const auto name = [](const Summary& s) { return s.codec.substr(0, s.codec.find(':')); };
  const auto parameters = [&](const Summary& s) { return s.codec.substr(name(s).size()) + ","; };
  std::vector<std::string> texts;
  for (const Summary& s : runs) {
    std::string text = name(s);
    std::istringstream rest(s.codec.substr(std::min(text.size() + 1, s.codec.size())));
    for (std::string parameter; std::getline(rest, parameter, ',');) {
      const auto otherwise = [&](const Summary& other) {
        const std::string all = parameters(other), wanted = parameter + ",";
        return name(other) == name(s) && all.find(":" + wanted) == all.npos &&
               all.find("," + wanted) == all.npos;
      };
      if (std::any_of(runs.begin(), runs.end(), otherwise))
        text += (text.size() == name(s).size() ? ":" : ",") + parameter;
    }
    texts.push_back(text);
  }
  return texts;
}

}  // namespace

std::string to_table(std::span<const Summary> runs, std::span<const std::string> names) {
  struct Row {
    std::string label;
    std::function<std::string(const Summary&)> cell;
  };
  std::vector<Row> rows{
      {"method", [](const Summary& s) { return s.method; }},
      {"topology (peers)", [](const Summary& s) { return fmt::format("{} ({})", s.topology, s.peers); }},
      {"test accuracy",
       [](const Summary& s) {
         return !s.has_average   ? "different shapes: no average"
                : s.has_accuracy ? percent(s.test_accuracy)
                                 : "–";
       }},
      {"test loss",
       [](const Summary& s) {
         return std::isfinite(s.test_loss) ? fmt::format("{:.4f}", s.test_loss) : "–";
       }},
      {"peers, mean", [](const Summary& s) { return percent(s.peer_accuracy_mean); }},
      {"peers, least", [](const Summary& s) { return percent(s.peer_accuracy_min); }},
      {"ensemble's mean", [](const Summary& s) { return percent(s.ensemble_accuracy); }},
      {"ensemble's vote", [](const Summary& s) { return percent(s.vote_accuracy); }},
      {"train loss", [](const Summary& s) { return fmt::format("{:.4f}", s.train_loss); }},
      {"seconds", [](const Summary& s) { return short_number(s.seconds); }},
      {"virtual seconds",
       [](const Summary& s) { return s.virtual_seconds ? fmt::format("{:.2f}", *s.virtual_seconds) : ""; }},
      {"virtual samples/s",
       [](const Summary& s) {
         return s.virtual_samples_per_second ? fmt::format("{:.0f}", *s.virtual_samples_per_second) : "";
       }},
      {"steps", [](const Summary& s) { return std::to_string(s.steps); }},
      {"samples",
       [](const Summary& s) { return s.samples_by_peer.empty() ? "" : std::to_string(s.samples()); }},
      {"samples of a peer", [](const Summary& s) { return least_and_most(s.samples_by_peer); }},
      {"overshoot",
       [](const Summary& s) { return s.overshoot ? fmt::format("{:.2f} %", 100 * *s.overshoot) : ""; }},
      {"samples/s", [](const Summary& s) { return fmt::format("{:.0f}", s.samples_per_second); }},
      {"MB sent per peer", [](const Summary& s) { return short_number(s.bytes_sent_per_peer / 1e6); }},
      {"bits per parameter", [](const Summary& s) { return fmt::format("{:.3f}", s.bits_per_parameter); }},
      {"bits per step", [](const Summary& s) { return bits(s.bits_per_step); }},
      {"after dense rounds", [](const Summary& s) { return bits(s.coded_bits_per_step); }},
      {"consensus distance",
       [](const Summary& s) { return s.has_average ? distance(s.consensus_distance) : "–"; }},
      {"staleness mean, max",
       [](const Summary& s) { return fmt::format("{:.1f}, {:.0f}", s.staleness_mean, s.staleness_max); }},
      {"waited (% of time)", [](const Summary& s) { return waited_text(s.waited_by_peer); }},
      {"checkpoint pause (s)",
       [](const Summary& s) { return s.checkpoints > 0 ? fmt::format("{:.3f}", s.checkpoint_pause_s) : ""; }},
      {"skipped steps", [](const Summary& s) { return above_zero(s.skipped_steps); }},
      {"muted", [](const Summary& s) { return join(s.muted, ", "); }},
      {"peers lost", [](const Summary& s) { return text_of(s.losses); }},
      {"rounds closed without some", [](const Summary& s) { return above_zero(s.closed_without); }},
      {"idle steps", [](const Summary& s) { return above_zero(s.idle_steps); }},
      {"held back", [](const Summary& s) { return above_zero(s.held_back); }},
      {"MB queued at most",
       [](const Summary& s) {
         return s.held_back > 0 ? fmt::format("{:.1f}", static_cast<double>(s.queued_bytes_most) / 1e6) : "";
       }},
      {"digest", [](const Summary& s) { return s.digest.value_or(""); }},
  };
  std::vector<std::string> figures;  // that the rows below refer to
  for (const Summary& s : runs)
    for (const optim::Figure& f : s.figures)
      if (std::find(figures.begin(), figures.end(), f.name) == figures.end()) figures.push_back(f.name);
  for (const std::string& name : figures)
    rows.push_back({words_of(name), [&name](const Summary& s) {
                      const auto value = optim::find_figure(s.figures, name);
                      return value ? figure_text(*value) : "";
                    }});
  const std::vector<std::string> codecs = codec_texts(runs);
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < runs.size(); ++i)
    widths.push_back(std::max({std::size_t{18}, codecs[i].size(), names.empty() ? 0 : names[i].size()}));
  std::string table;
  const auto add = [&](const std::string& label, std::span<const std::string> cells) {
    if (std::all_of(cells.begin(), cells.end(), [](const std::string& cell) { return cell.empty(); })) return;
    table += fmt::format("{:<20}", label);
    for (std::size_t i = 0; i < cells.size(); ++i) table += fmt::format(" {:>{}}", cells[i], widths[i]);
    table += "\n";
  };
  add("", names);
  add(names.empty() ? "" : "codec", codecs);
  for (const Row& row : rows) {
    std::vector<std::string> cells;
    for (const Summary& s : runs) cells.push_back(row.cell(s));
    add(row.label, cells);
  }
  return table;
}

}  // namespace gossamer::node
