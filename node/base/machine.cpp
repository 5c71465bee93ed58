#include "machine.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "hash.h"

namespace gossamer::node {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// A setting of this process' control group (version 2) and of each one around it, by folder. Within a
/// container the outermost that can be seen is its own.
std::vector<std::pair<fs::path, std::string>> control_group(const char* setting) {
  const fs::path root = "/sys/fs/cgroup";
  std::string group;
  std::ifstream own("/proc/self/cgroup");
  for (std::string line; std::getline(own, line);)
    if (line.starts_with("0::/")) group = line.substr(4);
  std::vector<std::pair<fs::path, std::string>> values;
  for (fs::path folder = group.empty() ? root : root / group;; folder = folder.parent_path()) {
    if (const std::string line = first_line(folder / setting); !line.empty())
      values.emplace_back(folder, line);
    if (folder == root || !folder.has_relative_path()) return values;
  }
}

/// Cores that a process may use, and who else is meant by them: equal keys share them.
struct Allotment {
  double cores;
  std::string key;
};

Allotment by_affinity() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0)
    return {static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN)), "all"};
  std::string key = "cpus";
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) key += " " + std::to_string(cpu);
  return {static_cast<double>(CPU_COUNT(&set)), key};
}

Allotment allotment() {
  Allotment least = by_affinity();
  std::error_code error;
  const std::string space = fs::read_symlink("/proc/self/ns/cgroup", error).string();
  for (const auto& [folder, text] : control_group("cpu.max")) {  // microseconds of CPU, of each period's
    double quota = 0, period = 0;
    if (std::istringstream in(text); in >> quota >> period && period > 0 && quota / period < least.cores)
      least = {quota / period, "quota " + space + " " + folder.string()};
  }
  return least;
}

std::uint32_t short_hash(const std::string& text) { return static_cast<std::uint32_t>(hash_text(text)) | 1; }

/// In bytes; UINT64_MAX where the kernel does not tell.
std::uint64_t machine_memory(const char* which) {
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  for (std::uint64_t kilobytes = 0; file >> name >> kilobytes; std::getline(file, unit))
    if (name == which) return kilobytes * 1024;
  return UINT64_MAX;
}

/// What a control group holds of files that it can let go of.
std::uint64_t cached_files(const fs::path& group) {
  std::ifstream file(group / "memory.stat");
  std::string name;
  for (std::uint64_t bytes = 0; file >> name >> bytes;)
    if (name == "inactive_file") return bytes;
  return 0;
}

std::uint64_t resident_memory() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

Place this_place() {
  return {short_hash(first_line("/proc/sys/kernel/random/boot_id")), short_hash(allotment().key)};
}

int fair_threads(const CoreSharing& sharing) {
  const auto machine = static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN));
  const double share = std::min(machine / static_cast<double>(sharing.machine),
                                allotment().cores / static_cast<double>(sharing.allotment));
  return std::max(1, static_cast<int>(share));
}

void raise_file_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

std::uint64_t file_limit_reached() {
  const int one_more = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
  if (one_more >= 0) close(one_more);
  if (one_more >= 0 || errno != EMFILE) return 0;
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

std::uint64_t free_memory() {
  std::uint64_t bytes = machine_memory("MemAvailable:");
  for (const auto& [folder, text] : control_group("memory.max"))
    if (text != "max") bytes = std::min<std::uint64_t>(bytes, std::stoull(text));
  if (rlimit limit{}; getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    bytes = std::min<std::uint64_t>(bytes, limit.rlim_cur);
  return bytes;
}

MemoryUse memory_use() {
  MemoryUse use{resident_memory(), machine_memory("MemAvailable:"), machine_memory("MemTotal:")};
  for (const auto& [folder, text] : control_group("memory.max")) {
    if (text == "max") continue;
    const std::uint64_t most = std::stoull(text),
                        held = std::stoull("0" + first_line(folder / "memory.current"));
    const std::uint64_t left = most - std::min(most, held) + cached_files(folder);
    if (left < use.available) use.available = left, use.total = most;
  }
  return use;
}

}  // namespace gossamer::node
