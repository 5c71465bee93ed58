#pragma once
// Where a run leaves its files: runs/<job>-<time>/.
#include <filesystem>
#include <string>

#include "gossamer/node/job.h"

namespace gossamer::node {

/// Makes runs/<name>-<YYYYmmdd-HHMMSS>/ below the current folder (with -2, -3 … where it is taken).
std::filesystem::path make_run_folder(const std::string& name);
void write_text(const std::filesystem::path& path, const std::string& text);

}  // namespace gossamer::node
