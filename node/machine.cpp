#include "machine.h"

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace gossamer::node {
namespace {

/// The first line of a setting of this process' control group (version 2) and of each one around it. Within a
/// container the outermost that can be seen is its own.
std::vector<std::string> control_group(const std::string& setting) {
  std::string group;
  std::ifstream own("/proc/self/cgroup");
  for (std::string line; std::getline(own, line);)
    if (line.starts_with("0::/")) group = line.substr(4);
  std::vector<std::string> values;
  for (std::filesystem::path path = std::filesystem::path("/sys/fs/cgroup") / group;;
       path = path.parent_path()) {
    std::ifstream file(path / setting);
    if (std::string line; std::getline(file, line)) values.push_back(line);
    if (path == "/sys/fs/cgroup" || !path.has_relative_path()) return values;
  }
}

std::uint64_t available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  for (std::uint64_t kilobytes = 0; file >> name >> kilobytes; std::getline(file, unit))
    if (name == "MemAvailable:") return kilobytes * 1024;
  return UINT64_MAX;
}

}  // namespace

std::uint64_t free_memory() {
  std::uint64_t bytes = available_memory();
  for (const std::string& text : control_group("memory.max"))
    if (text != "max") bytes = std::min<std::uint64_t>(bytes, std::stoull(text));
  if (rlimit limit{}; getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    bytes = std::min<std::uint64_t>(bytes, limit.rlim_cur);
  return bytes;
}

}  // namespace gossamer::node
