#include "codec_bench.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iomanip>
#include <iostream>

#include "command_codec.h"
#include "text.h"

namespace gossamer::node {
namespace {

using Columns = std::array<std::string, 5>;

/// The four operations in the order of the columns.
std::array<double, 4> figures(const CodecSpeed& s) { return {s.encode, s.feedback, s.decode, s.decode_add}; }
std::array<double, 4> figures(const CodecFloor& f) { return {f.encode, f.feedback, f.decode, f.decode_add}; }
constexpr std::array kOperations{"encode", "encode_feedback", "decode", "decode_add"};

std::string label(const Setting& setting) {
  return std::to_string(setting.threads) + (setting.threads == 1 ? " thread" : " threads") +
         (setting.instruction_set.empty() ? "" : ", " + setting.instruction_set);
}

std::string rounded(double value, double grain) { return figure_text(std::round(value / grain) * grain); }

std::string with_note(double speed, double note, const char* before, const char* after, double grain) {
  if (std::isnan(speed)) return "-";
  return rounded(speed, 0.01) + " (" + before + rounded(note, grain) + after + ")";
}

void print_line(std::size_t width, const std::string& first, const Columns& columns) {
  std::cout << std::left << std::setw(static_cast<int>(width) + 2) << first << std::right << std::setw(7)
            << columns[0];
  for (std::size_t i = 1; i < columns.size(); ++i) std::cout << std::setw(16) << columns[i];
  std::cout << '\n';
}

nlohmann::ordered_json run_json(const BenchRow& row, std::size_t run) {
  nlohmann::ordered_json out;
  const auto speeds = figures(row.runs[run].speed), floors = figures(row.runs[run].floor),
             firsts = figures(row.runs[0].speed);
  for (std::size_t i = 0; i < kOperations.size(); ++i) {
    nlohmann::ordered_json one{{"gb_per_s", number_or_null(speeds[i])},
                               {"floor_gb_per_s", number_or_null(floors[i])},
                               {"percent_of_floor", number_or_null(100 * speeds[i] / floors[i])}};
    if (run > 0) one["ratio_to_first"] = number_or_null(speeds[i] / firsts[i]);
    out[kOperations[i]] = one;
  }
  return out;
}

nlohmann::ordered_json limits_json(const MemoryLimits& limits) {
  return {{"read", limits.read},
          {"write", limits.write},
          {"read_modify_write", limits.modify},
          {"feedback", limits.feedback}};
}

nlohmann::ordered_json setting_json(const Setting& setting) {
  nlohmann::ordered_json out{{"threads", setting.threads}};
  if (!setting.instruction_set.empty()) out["instruction_set"] = setting.instruction_set;
  return out;
}

}  // namespace

nlohmann::ordered_json to_json(const BenchTable& table, const std::vector<Setting>& settings) {
  auto rows = nlohmann::ordered_json::array();
  for (const BenchRow& row : table.rows) {
    nlohmann::ordered_json out{{"codec", row.codec},
                               {"bits_per_entry", 8 * row.runs[0].speed.bytes_per_entry}};
    out.update(run_json(row, 0));
    for (std::size_t run = 1; run < settings.size(); ++run) {
      nlohmann::ordered_json other = setting_json(settings[run]);
      other.update(run_json(row, run));
      out["others"].push_back(other);
    }
    rows.push_back(out);
  }
  nlohmann::ordered_json out{{"entries", table.entries}};
  out.update(setting_json(settings[0]));
  out["memory_gb_per_s"] = limits_json(table.limits[0]);
  for (std::size_t run = 1; run < settings.size(); ++run) {
    nlohmann::ordered_json other = setting_json(settings[run]);
    other["memory_gb_per_s"] = limits_json(table.limits[run]);
    out["others"].push_back(other);
  }
  out["codecs"] = rows;
  return out;
}

void print_text(const BenchTable& table, const std::vector<Setting>& settings) {
  std::size_t width = 24;
  for (const BenchRow& row : table.rows) width = std::max(width, row.codec.size());
  std::cout << '\n' << table.entries << " entries, " << label(settings[0]) << '\n';
  print_line(width, "", {"BITS", "ENCODE", "WITH FEEDBACK", "DECODE", "DECODE-ADD"});
  for (std::size_t run = 0; run < settings.size(); ++run) {
    const MemoryLimits& limits = table.limits[run];
    if (run > 0 && settings[run].threads == settings[0].threads) continue;
    print_line(width, run == 0 ? "this machine's memory" : "  " + label(settings[run]),
               {"", rounded(limits.read, 0.1), rounded(limits.feedback, 0.1), rounded(limits.write, 0.1),
                rounded(limits.modify, 0.1)});
  }
  for (const BenchRow& row : table.rows) {
    const auto firsts = figures(row.runs[0].speed);
    for (std::size_t run = 0; run < settings.size(); ++run) {
      const auto speeds = figures(row.runs[run].speed), floors = figures(row.runs[run].floor);
      Columns columns{run == 0 ? figure_text(8 * row.runs[0].speed.bytes_per_entry) : ""};
      for (std::size_t i = 0; i < speeds.size(); ++i)
        columns[i + 1] = run == 0 ? with_note(speeds[i], 100 * speeds[i] / floors[i], "", "%", 1)
                                  : with_note(speeds[i], speeds[i] / firsts[i], "x", "", 0.01);
      print_line(width, run == 0 ? row.codec : "  " + label(settings[run]), columns);
    }
  }
}

void print_bench_notes(bool several_settings) {
  std::cout
      << "\nGB/s of fp32 input, medians, Laplacian entries. Memory: x read; g read, e read and written; y "
         "written; y read and written."
         "\nIn brackets: per cent of what a codec would reach that touched each byte it must once"
      << (several_settings ? "; with x, the ratio to the codec's first line" : "") << ".\n";
}

}  // namespace gossamer::node
