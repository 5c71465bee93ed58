// By hand: table_soundness [--seeds N] [METHOD ...]. Every combination of soundness.toml in simulation:
// how far the farthest peer ends from the optimum of a convex problem, the worst of N seeds, beside the
// limit. Ends with status 1 where a limit is broken, or an unsound combination accepted.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>

#include "soundness_table.h"

using namespace gossamer::node;
using namespace gossamer::node::test;

int main(int argc, char** argv) {
  CLI::App app("What each sound combination reaches in simulation, and what is refused");
  std::uint64_t seeds = 3;
  std::vector<std::string> wanted;
  app.add_option("--seeds", seeds, "runs of each combination")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("method", wanted, "only these methods");
  CLI11_PARSE(app, argc, argv);

  std::size_t broken = 0, sound = 0, unsound = 0;
  const auto begin = std::chrono::steady_clock::now();
  fmt::print("{:18} {:28} {:34} {:>10} {:>12} {:>9}\n", "METHOD", "GRAPH", "CODEC", "STALENESS", "DISTANCE",
             "LIMIT");
  for (const Combination& c : read_combinations()) {
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), c.method) == wanted.end()) continue;
    std::string outcome;
    bool holds = true;
    if (c.sound) {
      ++sound;
      double worst = 0;
      for (std::uint64_t seed = 1; seed <= seeds; ++seed)
        worst = std::max(worst, distance_to_optimum(c, seed));
      holds = worst <= c.within;
      outcome = fmt::format("{:12.2g} {:9.2g}", worst, c.within);
    } else {
      ++unsound;
      const std::string said = refusal(c);
      holds = said.find(c.because) != std::string::npos;
      outcome = fmt::format("{:>12}", said.empty() ? "accepted" : "refused");
    }
    broken += holds ? 0 : 1;
    fmt::print("{:18} {:28} {:34} {:>10} {}{}\n", c.method, c.graph, c.codec, c.staleness, outcome,
               holds ? "" : "  BROKEN");
    std::fflush(stdout);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  fmt::print("{} sound and {} unsound combinations, {} seeds: {} broken ({:.0f} s)\n", sound, unsound, seeds,
             broken, took.count());
  return broken == 0 ? 0 : 1;
}
