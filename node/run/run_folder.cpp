#include "run_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "gossamer/node/safetensors.h"
#include "storage.h"

namespace gossamer::node {
namespace {

std::string local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", localtime_r(&now, &parts));
  return text;
}

/// What a run writes that its folder holds already; empty where there is nothing. Of devices nothing is lost.
std::string found_in(const std::filesystem::path& folder) {
  std::error_code none;
  for (const char* name : {kMetricsFile, "model.safetensors", "summary.json", "job.toml"})
    if (std::filesystem::is_regular_file(folder / name, none)) return name;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "peers", none))
    if (entry.is_regular_file(none)) return "peers";
  return {};
}

/// Its start failed: it has left logs, and its job.
bool never_began(const std::filesystem::path& folder) {
  std::error_code none;
  namespace fs = std::filesystem;
  if (!fs::is_regular_file(folder / kMetricsFile, none) || fs::file_size(folder / kMetricsFile, none) > 0)
    return false;
  for (const char* name : {"model.safetensors", "summary.json", kCheckpointsFolder})
    if (fs::exists(folder / name, none)) return false;
  for (const auto& entry : fs::directory_iterator(folder / "peers", none))
    if (entry.path().extension() != ".log") return false;
  return true;
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
  const std::string found = found_in(out);
  if (!found.empty() && !never_began(out) && !is_same_folder(out, resume)) {
    const bool run = found == kMetricsFile;
    throw ConfigError(fmt::format("--out {0}: holds {1} already{2}; expected a new folder{3}", out,
                                  run ? "a run" : found, run ? "" : ", which the run would write over",
                                  run ? fmt::format(", or `--resume {}` to go on from it", out) : ""));
  }
  const std::filesystem::path folder = out_folder(out);
  replaced_file((folder / "model.safetensors").string());  // or it throws
  return folder;
}

bool is_same_folder(const std::filesystem::path& one, const std::filesystem::path& other) {
  std::error_code none;
  return std::filesystem::equivalent(one, other, none);
}

FolderLock::FolderLock(const std::filesystem::path& folder)
    : handle_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (handle_ < 0 || ::flock(handle_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  ::close(handle_);
  throw ConfigError(fmt::format(
      "{}: a run is under way in this folder; expected another one, or to wait until that run has ended",
      folder.string()));
}
FolderLock::~FolderLock() {
  if (handle_ >= 0) ::close(handle_);
}

Overwritten::Overwritten(std::filesystem::path path) : path_(std::move(path)) {
  std::error_code none;
  if (!std::filesystem::is_regular_file(path_, none)) return;
  std::ifstream in(path_);
  std::ostringstream text;
  if (in && text << in.rdbuf()) former_ = text.str();
}
void Overwritten::give_back() const {
  std::error_code none;
  if (!former_) return void(std::filesystem::remove(path_, none));
  PosixStorage storage;
  replace_file(storage, path_, *former_);
}

void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream out(path);
  out << text;
  if (!out.flush())
    throw std::runtime_error(fmt::format("cannot write {}: {}", path.string(), std::strerror(errno)));
}

}  // namespace gossamer::node
