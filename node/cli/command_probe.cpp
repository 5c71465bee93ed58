// gossamer probe: measures the links between the peers of a topology.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

#include "commands.h"
#include "config_document.h"
#include "config_fields.h"
#include "flags.h"
#include "launcher.h"
#include "probe.h"
#include "text.h"

namespace gossamer::node {
namespace {

struct ProbeFlags {
  std::string file, name, out;
  std::vector<std::string> overrides;
  double seconds = 1, timeout = 15;
  std::size_t pings = 20;
  bool json = false, csv = false, quiet = false;
};

Job load(const ProbeFlags& flags) {
  const bool is_job = config::is_job_document(config::read_document(flags.file));
  Job job = is_job ? load_job(flags.file, flags.overrides) : load_topology(flags.file, flags.overrides);
  if (job.peers.size() < 2) throw ConfigError(flags.file + ": one peer has no links; expected at least two");
  return job;
}

ProbeResult probe_as(const ProbeFlags& flags, const Job& job) {
  ProbeSpec spec;
  spec.names = job.peer_names();
  const auto at = std::find(spec.names.begin(), spec.names.end(), flags.name);
  if (at == spec.names.end())
    throw ConfigError(fmt::format("--name {}: no such peer in the topology; its peers are {}{}", flags.name,
                                  join(spec.names, ", "), did_you_mean(flags.name, spec.names)));
  spec.self = static_cast<PeerId>(at - spec.names.begin());
  spec.bind = job.peers[spec.self].bind;
  for (const PeerEntry& p : job.peers) {
    if (p.address.empty())
      throw ConfigError(
          fmt::format("{}: peer '{}' can only dial out (bind = \"\"), and probe measures links of "
                      "peers that can be reached",
                      job.path, p.name));
    spec.addresses.push_back(p.address);
  }
  spec.seconds = flags.seconds;
  spec.timeout = flags.timeout;
  spec.pings = flags.pings;
  return probe(
      spec,
      [&](const std::string& line) {
        if (!flags.quiet) fmt::print(stderr, "{} - {}\n", flags.name, line);
      },
      interrupted);
}

/// All peers as processes on this machine; what the best informed of them tells.
ProbeResult probe_all(const ProbeFlags& flags, const Job& job) {
  const std::vector<std::string> names = job.peer_names();
  std::string folder = (std::filesystem::temp_directory_path() / "gossamer-probe-XXXXXX").string();
  if (!mkdtemp(folder.data())) throw std::runtime_error("no temporary folder for the peers' messages");
  const std::filesystem::path logs = folder;
  Launcher launcher;
  for (const std::string& name : names) {
    std::vector<std::string> words{"probe",
                                   flags.file,
                                   "--name",
                                   name,
                                   "--json",
                                   "--seconds",
                                   number_text(flags.seconds),
                                   "--timeout",
                                   number_text(flags.timeout),
                                   "--pings",
                                   std::to_string(flags.pings)};
    for (const std::string& set : flags.overrides) words.insert(words.end(), {"--set", set});
    launcher.start(name, words, logs / name);
  }
  std::optional<ProbeResult> best;
  while (launcher.running()) {
    launcher.poll(0.1, [&](std::size_t, const std::string& line) {
      if (!line.starts_with("{")) return;
      ProbeResult told = probe_result(line, names);
      if (!best || told.pairs.size() > best->pairs.size()) best = std::move(told);
    });
    if (interrupted()) launcher.signal_all(SIGTERM);
  }
  std::string said;
  for (const std::string& name : names) {
    std::ifstream in(logs / name);
    for (std::string line; std::getline(in, line);) said += line + "\n";
  }
  std::filesystem::remove_all(logs);
  if (!flags.quiet || !best) std::fputs(said.c_str(), stderr);
  if (!best) throw std::runtime_error("no peer measured anything");
  return *best;
}

int run_probe(const ProbeFlags& flags) {
  interrupted();  // from here on Ctrl-C ends the measuring, and what there is gets written
  const Job job = load(flags);
  const std::vector<std::string> names = job.peer_names();
  const ProbeResult result = flags.name.empty() ? probe_all(flags, job) : probe_as(flags, job);
  const std::string text = flags.json  ? to_json(result, names) + "\n"
                           : flags.csv ? links_csv(result, names)
                                       : links_toml(result, names);
  if (flags.out.empty()) {
    std::fputs(text.c_str(), stdout);
  } else {
    std::ofstream file(flags.out);
    if (!(file << text).flush())
      throw ConfigError("--out " + flags.out + ": cannot be written: " + std::strerror(errno));
  }
  for (const PeerId p : result.silent) fmt::print(stderr, "gossamer: {} did not answer\n", names[p]);
  if (interrupted()) return kExitInterrupted;
  return result.pairs.size() == names.size() * (names.size() - 1) / 2 ? kExitOk : kExitPeerLost;
}

}  // namespace

void add_probe_command(CLI::App& app, int& status) {
  auto* command = app.add_subcommand(
      "probe",
      "Measure bandwidth and latency between the peers of a topology, all pairs, a pair of peers at a time");
  const auto flags = std::make_shared<ProbeFlags>();
  command->add_option("TOPOLOGY", flags->file, "topology file or job file")->required();
  command->add_option("--name", flags->name,
                      "which peer this is, one on each machine; without: all, on this machine");
  command->add_option("--out", flags->out, "file for the table of links; default: standard output");
  command->add_option("--seconds", flags->seconds, "of bulk in each direction of a pair, about")
      ->check(within(0.01, 3600.0))
      ->capture_default_str();
  command->add_option("--timeout", flags->timeout, "seconds without a word until a peer counts as silent")
      ->check(within(0.1, 86400.0))
      ->capture_default_str();
  command->add_option("--pings", flags->pings, "round trips, of which the lower quartile counts")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command->add_option("--set", flags->overrides, "KEY=VALUE in place of what the files say; repeatable")
      ->allow_extra_args(false);
  CLI::Option* json = command->add_flag("--json", flags->json, "print one JSON object instead of TOML");
  command->add_flag("--csv", flags->csv, "print CSV matrices instead of TOML")->excludes(json);
  command->add_flag("-q,--quiet", flags->quiet, "no progress");
  command->callback([flags, &status] { status = run_probe(*flags); });
}

}  // namespace gossamer::node
