#pragma once
// A run leaves its files in a folder of its own: runs/<job>-<time>/.
#include <filesystem>
#include <string>

#include "gossamer/node/job.h"

namespace gossamer::node {

constexpr const char* kMetricsFile = "metrics.jsonl";
constexpr const char* kCheckpointsFolder = "checkpoints";

/// Makes runs/<name>-<YYYYmmdd-HHMMSS>/ below the current folder (with -2, -3 … where it is taken).
std::filesystem::path make_run_folder(const std::string& name);
/// The folder of --out, made where it is missing. Throws ConfigError where it cannot be written: before the
/// training, so that this is not in vain.
std::filesystem::path out_folder(const std::string& out);
/// The same of a run's folder; refuses that of another one, but of the run that it goes on from.
std::filesystem::path new_out_folder(const std::string& out, const std::string& resume);
void write_text(const std::filesystem::path& path, const std::string& text);

}  // namespace gossamer::node
