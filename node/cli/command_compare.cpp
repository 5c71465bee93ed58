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

}  // namespace

void add_compare_command(CLI::App& app, int&) {
  auto* command = app.add_subcommand("compare", "Print the figures of finished runs side by side");
  auto paths = std::make_shared<std::vector<std::string>>();
  command->add_option("RUN", *paths, "run folder (runs/…), or a file with what a run printed with --json")
      ->required();
  command->callback([paths] {
    std::vector<Summary> runs;
    for (const auto& p : *paths) runs.push_back(read_summary(p));
    std::fputs(to_table(runs).c_str(), stdout);
  });
}

}  // namespace gossamer::node
