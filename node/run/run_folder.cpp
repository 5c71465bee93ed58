#include "run_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>
#include <system_error>

#include "gossamer/node/safetensors.h"

namespace gossamer::node {
namespace {

std::string local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", localtime_r(&now, &parts));
  return text;
}

}  // namespace

std::filesystem::path make_run_folder(const std::string& name) {
  const std::string base = fmt::format("runs/{}-{}", name, local_time());
  std::error_code error;
  std::filesystem::create_directories("runs", error);
  for (int n = 1; n < 1000 && !error; ++n) {
    const std::filesystem::path folder = n == 1 ? base : fmt::format("{}-{}", base, n);
    if (std::filesystem::create_directory(folder, error)) return folder;
  }
  throw ConfigError(
      fmt::format("cannot make the folder {} for this run's files: {}; run in a folder that can be written",
                  base, error.message()));
}

std::filesystem::path out_folder(const std::string& out) {
  std::error_code error;
  std::filesystem::create_directories(out, error);
  if (error || access(out.c_str(), W_OK | X_OK) != 0)
    throw ConfigError(fmt::format("--out {}: {}; expected a folder that can be written", out,
                                  error ? error.message() : std::strerror(errno)));
  return out;
}

std::filesystem::path new_out_folder(const std::string& out, const std::string& resume) {
  std::error_code none;
  if (std::filesystem::is_regular_file(out + "/" + kMetricsFile, none) &&
      !std::filesystem::equivalent(out, resume, none))
    throw ConfigError(
        fmt::format("--out {0}: holds a run already; expected a new folder, or `--resume {0}` to go on from "
                    "it",
                    out));
  const std::filesystem::path folder = out_folder(out);
  replaced_file((folder / "model.safetensors").string());  // or it throws
  return folder;
}

void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream out(path);
  out << text;
  if (!out.flush())
    throw std::runtime_error(fmt::format("cannot write {}: {}", path.string(), std::strerror(errno)));
}

}  // namespace gossamer::node
