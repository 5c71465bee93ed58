#pragma once
// What programs were started as the peers of a run, and what they came to.
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "worker.h"

namespace gossamer::node {

constexpr const char* kProgramFile = "program.json";

/// A file in the run's folder, by which the run goes on with the same program.
void write_program(const std::filesystem::path& folder, const std::vector<std::string>& words);
/// None where there is no such file. Throws ConfigError.
std::vector<std::string> read_program(const std::filesystem::path& folder);

struct ProgramEnd {
  std::string peer;
  WorkerResult result;
  std::string says;               ///< the last line that it printed
  std::filesystem::path model{};  ///< file of what it learned
  double weight = 1;              ///< in the average
};
/// The weighted mean of their models, as a file. Why there is none; empty: there is. Throws
/// std::runtime_error where it cannot be written.
std::string write_average(const std::string& job, std::span<const ProgramEnd> ends,
                          const std::filesystem::path& to);
/// {"job":name,"peers":[{"peer":…,"outcome":…,"rounds":n,"samples":n,"train_loss":x,"seconds":x,"bytes_out":n,
/// "bytes_in":n,"says":…}]}
std::string to_json(const std::string& job, std::span<const ProgramEnd> ends);
/// A line each.
std::string to_text(std::span<const ProgramEnd> ends);

/// Of a log, without this program's name in front; empty where there is none.
std::string last_line(const std::filesystem::path& path);

}  // namespace gossamer::node
