#include "command_swarm.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>

#include "commands.h"
#include "exchange.h"
#include "progress.h"
#include "setup.h"
#include "swarm.h"
#include "text.h"

namespace gossamer::node {
namespace {

using nlohmann::json;

/// What stays 0 over a whole swarm was not tried.
constexpr std::array kBranches{"frames lost",
                               "frames cut off",
                               "frames held by clogs",
                               "frames copied",
                               "frames garbled",
                               "strays of earlier starts",
                               "frames in another's name",
                               "frames resent",
                               "duplicates dropped",
                               "frames reordered",
                               "frames refused",
                               "encodes skipped",
                               "requests declined",
                               "residues too far off",
                               "frames to peers that had gone",
                               "runs with a crash",
                               "runs with a pause",
                               "runs with stale mixes",
                               "runs with chunked payloads",
                               "runs at best effort",
                               "runs with a backup",
                               "rounds closed without some",
                               "idle steps",
                               "runs with an outer delay",
                               "runs with a rule",
                               "runs of different models",
                               "compared with a calm network"};

/// The same where members come and go.
constexpr std::array kChurnBranches{"frames lost",
                                    "frames cut off",
                                    "frames held by clogs",
                                    "frames copied",
                                    "frames garbled",
                                    "frames forged",
                                    "strays of earlier starts",
                                    "frames in another's name",
                                    "frames resent",
                                    "frames to peers that had gone",
                                    "processes that crashed",
                                    "processes that began again",
                                    "views entered",
                                    "views begun",
                                    "states fetched",
                                    "runs that converged",
                                    "runs with a cut",
                                    "runs with a pause",
                                    "runs with skewed clocks"};

Planted planted_by(const std::string& name) {
  if (name.empty()) return {};
  std::vector<std::string> names;
  for (const std::span<const BugName> bugs :
       {std::span<const BugName>(kBugs), std::span<const BugName>(kChurnBugs)})
    for (const BugName& b : bugs) {
      if (name == b.name) return b.bug;
      names.emplace_back(b.name);
    }
  throw ConfigError(
      fmt::format("--plant {}: expected one of {}{}", name, join(names, ", "), did_you_mean(name, names)));
}

std::function<SwarmCase(std::uint64_t)> drawer(const SwarmFlags& flags, const std::optional<Job>& job) {
  if (flags.churn)
    return [job, seconds = *flags.churn](std::uint64_t seed) {
      return draw_churn(seed, seconds, job ? &*job : nullptr);
    };
  if (job) return [j = *job](std::uint64_t seed) { return draw_case(seed, j); };
  return [](std::uint64_t seed) { return draw_case(seed); };
}

std::string violation_text(const SwarmOutcome& o) {
  return fmt::format("seed {}: check '{}' failed at {:.6f} s: {}", o.seed, o.violation->checker,
                     o.violation->time, o.violation->what);
}
json violation_json(const SwarmOutcome& o) {
  return {{"seed", o.seed},
          {"checker", o.violation->checker},
          {"what", o.violation->what},
          {"time", o.violation->time}};
}

struct Totals {
  std::uint64_t seeds = 0;
  Counts outcomes, counts;
  std::optional<SwarmOutcome> violation;

  void add(const SwarmOutcome& o) {
    ++seeds;
    ++outcomes[o.violation ? "violation" : o.outcome];
    for (const auto& [name, n] : o.counts) counts[name] += n;
    if (o.violation && (!violation || o.seed < violation->seed)) violation = o;
  }
};

std::string branch_text(const Counts& counts, const std::string& name) {
  const auto at = counts.find(name);
  const std::uint64_t n = at == counts.end() ? 0 : at->second;
  return fmt::format("  {:<32}{:>12}{}\n", name, n, n == 0 ? "  not reached" : "");
}
std::string summary_text(const Totals& t, std::span<const char* const> branches, bool all_methods,
                         double seconds) {
  std::string text = fmt::format("{} seeds in {:.1f} s:", t.seeds, seconds);
  for (const auto& [name, n] : t.outcomes) text += fmt::format(" {} {}", name, n);
  text += "\n";
  for (const char* name : branches) text += branch_text(t.counts, name);
  if (all_methods)
    for (const auto& method : method_table())
      text += branch_text(t.counts, fmt::format("method {}", method.name));
  return text;
}
std::string summary_json(const Totals& t, double seconds) {
  json j{{"seeds", t.seeds}, {"seconds", seconds}, {"outcomes", t.outcomes}, {"counts", t.counts}};
  if (t.violation) j["violation"] = violation_json(*t.violation);
  return j.dump(2) + "\n";
}

int run_seeds(const SwarmFlags& flags, const JobFlags& output, const std::optional<Job>& job,
              std::size_t processes) {
  Progress progress(output.quiet);
  Totals totals;
  bool stopped = interrupted();
  const auto begin = std::chrono::steady_clock::now();
  const Swarm swarm{flags.first_seed, *flags.seeds, processes, drawer(flags, job), planted_by(flags.plant)};
  run_swarm(swarm, [&](const SwarmOutcome& o) {
    totals.add(o);
    progress.line(fmt::format("{}/{} seeds, {} messages, {} frames resent", totals.seeds, swarm.count,
                              totals.counts["messages"], totals.counts["frames resent"]));
    stopped = interrupted();
    return !stopped && !o.violation;
  });
  progress.clear();
  stopped |= interrupted();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::fputs(
      (output.json
           ? summary_json(totals, seconds)
           : summary_text(totals, flags.churn ? std::span<const char* const>(kChurnBranches) : kBranches,
                          !job, seconds))
          .c_str(),
      stdout);
  if (totals.violation) {
    std::string keys;
    for (const std::string& key : output.overrides) keys += " --set '" + key + "'";
    fmt::print(stderr, "{}\n  gossamer sim{}{}{} --replay {}\n", violation_text(*totals.violation),
               job ? " " + job->path : "", keys, flags.churn ? fmt::format(" --churn {}", *flags.churn) : "",
               totals.violation->seed);
    return kExitFailure;
  }
  return stopped ? kExitInterrupted : kExitOk;
}

int replay(const SwarmFlags& flags, const JobFlags& output, const std::optional<Job>& job) {
  const SwarmCase c = drawer(flags, job)(*flags.replay);
  EventLog log(c.job.peer_names(), flags.events);
  if (!output.json)
    fmt::print("# seed {}: {}\n# the run: gossamer sim FILE --seed {}{}\n{}\n", c.seed, describe(c), c.seed,
               c.crashes.empty() ? "" : " --crash " + join(crash_texts(c), " --crash "), to_toml(c.job));
  std::fflush(stdout);
  const SwarmOutcome o = run_case(c, planted_by(flags.plant), &log);
  if (output.json) {
    json j{{"seed", o.seed},       {"job", to_toml(c.job)}, {"crashes", crash_texts(c)},
           {"outcome", o.outcome}, {"digest", o.digest},    {"counts", o.counts}};
    if (o.violation) j["violation"] = violation_json(o), j["events"] = log.lines();
    fmt::print("{}\n", j.dump(2));
  } else if (o.violation) {
    for (const std::string& line : log.lines()) fmt::print("{}\n", line);
    fmt::print("{}\n", violation_text(o));
  } else {
    fmt::print("{}  digest {}\n", o.outcome, o.digest);
  }
  return o.violation ? kExitFailure : kExitOk;
}

}  // namespace

void add_swarm_flags(CLI::App& command, SwarmFlags& flags) {
  auto* seeds =
      command
          .add_option(
              "--seeds", flags.seeds,
              "run N small jobs instead, each with a configuration and faults drawn from its seed (with JOB: "
              "that job with drawn faults), and check everything that must hold")
          ->check(above_zero())
          ->check(whole_number());
  command.add_option("--first-seed", flags.first_seed, "of --seeds")
      ->needs(seeds)
      ->check(zero_or_more())
      ->check(whole_number())
      ->capture_default_str();
  auto* replay =
      command
          .add_option(
              "--replay", flags.replay,
              "run one seed of --seeds again: its job, the events before what went wrong, or its digest")
          ->check(zero_or_more())
          ->check(whole_number());
  command
      .add_option(
          "--churn", flags.churn,
          "with --seeds, --replay: members crash, come back, stand still and are cut off, as drawn, in runs "
          "of about so many seconds")
      ->check(within(5.0, 1e6));
  command.add_option("--events", flags.events, "with --replay: so many events")
      ->needs(replay)
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  if constexpr (kPlantable)
    command.add_option("--plant", flags.plant, "a bug to run with (node/base/planted.h)");
}

int swarm(const SwarmFlags& flags, const JobFlags& output, const std::optional<Job>& job,
          std::size_t processes) {
  if (job) prepare(*job);  // what is wrong with the job itself is no violation
  if (flags.seeds && *flags.seeds > std::numeric_limits<std::uint64_t>::max() - flags.first_seed)
    throw ConfigError(fmt::format("--seeds {} from --first-seed {} on: seeds end at 2^64 - 1; expected fewer",
                                  *flags.seeds, flags.first_seed));
  return flags.replay ? replay(flags, output, job) : run_seeds(flags, output, job, processes);
}

}  // namespace gossamer::node
