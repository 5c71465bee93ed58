// gossamer compare: the figures of finished runs side by side.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "commands.h"
#include "gossamer/node/job.h"
#include "summary.h"

namespace gossamer::node {
namespace {

Summary read_summary(std::filesystem::path path) {
  if (std::filesystem::is_directory(path)) path /= "summary.json";
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  const auto summary = in ? parse_summary(text.str()) : std::nullopt;
  if (!summary)
    throw ConfigError(
        fmt::format("{}: {}; expected a finished run's folder, or what a run printed with --json",
                    path.string(), in ? "is no summary of a run" : "cannot be read"));
  return *summary;
}

/// Of each path the last part, or as many as tell it from the others.
std::vector<std::string> names_of(const std::vector<std::string>& paths) {
  std::vector<std::vector<std::filesystem::path>> parts;
  for (const std::string& path : paths) {
    const std::filesystem::path whole = std::filesystem::path(path).lexically_normal();
    parts.emplace_back(whole.begin(), whole.end());
    if (parts.back().size() > 1 && parts.back().back().empty()) parts.back().pop_back();  // "runs/a/"
  }
  const auto last = [&](std::size_t i, std::size_t count) {
    const std::size_t first = parts[i].size() - std::min(count, parts[i].size());
    std::filesystem::path name;
    for (std::size_t k = first; k < parts[i].size(); ++k) name /= parts[i][k];
    return name.string();
  };
  std::vector<std::string> names;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const auto taken = [&](std::size_t count) {
      for (std::size_t j = 0; j < paths.size(); ++j)
        if (parts[j] != parts[i] && last(j, count) == last(i, count)) return true;
      return false;
    };
    std::size_t count = 1;
    while (count < parts[i].size() && taken(count)) ++count;
    names.push_back(last(i, count));
  }
  return names;
}

}  // namespace

void add_compare_command(CLI::App& app, int&) {
  auto* command = app.add_subcommand("compare", "Print the figures of finished runs side by side");
  auto paths = std::make_shared<std::vector<std::string>>();
  command->add_option("RUN", *paths, "run folder (runs/…), or a file with what a run printed with --json")
      ->required();
  command->callback([paths] {
    std::vector<Summary> runs;
    for (const auto& p : *paths) runs.push_back(read_summary(p));
    std::fputs(to_table(runs, names_of(*paths)).c_str(), stdout);
  });
}

}  // namespace gossamer::node
