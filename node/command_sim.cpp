// gossamer sim: a whole run in one process and in virtual time.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstdio>

#include "commands.h"
#include "flags.h"
#include "gossamer/node/safetensors.h"
#include "progress.h"
#include "simulation.h"
#include "summary.h"
#include "text.h"

namespace gossamer::node {
namespace {

struct SimFlags {
  JobFlags job;
  std::optional<std::size_t> peers;
  std::uint64_t seed = 1;
  std::vector<std::string> crashes, slow;
  std::string model;
  bool own_models = false;
};

std::vector<std::pair<PeerId, double>> parse_crashes(const Job& job, const std::vector<std::string>& texts) {
  std::vector<std::pair<PeerId, double>> crashes;
  for (const std::string& text : texts) {
    const auto at = text.find('@');
    const auto names = job.peer_names();
    const auto peer = std::find(names.begin(), names.end(), text.substr(0, at));
    const auto time = at == std::string::npos ? std::nullopt : parse_duration(text.substr(at + 1));
    if (peer == names.end() || !time || !(*time >= 0))
      throw ConfigError(
          fmt::format("--crash {}: expected PEER@SECONDS with a peer of the topology, such as {}@1.5", text,
                      names.front()));
    crashes.emplace_back(static_cast<PeerId>(peer - names.begin()), *time);
  }
  return crashes;
}

Outcome worst(std::span<const WorkerResult> results) {
  Outcome worst = Outcome::finished;
  for (const auto& r : results)
    worst = std::max(worst, r.outcome == Outcome::running ? Outcome::lost_peer : r.outcome);
  return worst;
}

int simulate(const SimFlags& flags) {
  auto overrides = flags.job.overrides;
  if (!flags.slow.empty())
    overrides.push_back(fmt::format("sim.slow=[\"{}\"]", fmt::join(flags.slow, "\", \"")));
  const Prepared prepared = prepare(load_job(flags.job.path, overrides, flags.peers));
  // the same bits as in processes of their own, where those have one thread each (or the job says how many)
  optim::set_blas_threads(std::max(1, prepared.job.run.threads));
  if (!flags.model.empty() && !prepared.alike())
    throw ConfigError(
        fmt::format("--model {}: peers of unlike hidden sizes have no average model", flags.model));
  Simulation simulation(prepared, {flags.seed, parse_crashes(prepared.job, flags.crashes)});
  Progress progress(flags.job.quiet);
  simulation.on_report = [&](PeerId peer, double time, const Report& r) {
    if (peer == 0)
      progress.line(fmt::format("round {}/{}  epoch {:.1f}  loss {:.4f}  {:.2f} s virtual{}", r.round,
                                prepared.rounds, r.epoch, r.loss, time,
                                r.test && r.test->has_accuracy
                                    ? fmt::format("  test accuracy {:.2f} %", 100 * r.test->accuracy())
                                    : ""));
  };
  const auto begin = std::chrono::steady_clock::now();
  const SimResult result = simulation.run(interrupted);
  const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  progress.clear();
  std::vector<std::span<const float>> models;
  for (PeerId p = 0; p < prepared.job.peers.size(); ++p) models.push_back(simulation.parameters(p));
  Summary summary = summarise(prepared, result.peers, models, flags.own_models);
  summary.virtual_seconds = result.virtual_seconds;
  summary.digest = fmt::format("{:016x}", result.digest);
  summary.virtual_samples_per_second = summary.samples_per_second;
  summary.samples_per_second *= summary.seconds / wall;
  summary.seconds = wall;
  if (!flags.model.empty())
    write_safetensors(flags.model, prepared.layers, average(models), {{"job", prepared.job.name}});
  const std::string text = flags.job.json ? to_json(summary) + "\n" : to_table(std::span(&summary, 1));
  std::fputs(text.c_str(), stdout);
  for (PeerId p = 0; p < result.peers.size(); ++p)
    if (!result.peers[p].message.empty())
      fmt::print(stderr, "{}: {}\n", prepared.job.peers[p].name, result.peers[p].message);
  return exit_status(worst(result.peers));
}

}  // namespace

void add_sim_command(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("sim", "Simulate a whole run in one process, in virtual time");
  auto flags = std::make_shared<SimFlags>();
  add_job_flags(*command, flags->job);
  command->add_option("--peers", flags->peers, "replace the peers by N local ones")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--seed", flags->seed,
                   "seed of the network's faults and jitter (run.seed is the training's)")
      ->capture_default_str();
  command
      ->add_option("--crash", flags->crashes,
                   "PEER@SECONDS: the peer stops for good at that virtual time; repeatable")
      ->allow_extra_args(false);
  command
      ->add_option("--slow", flags->slow,
                   "PEER=FACTOR: the peer's steps take FACTOR times as long; repeatable")
      ->allow_extra_args(false);
  command->add_option("--model", flags->model, "write the average model to this safetensors file");
  command->add_flag("--own-models", flags->own_models, "also evaluate each peer's own model");
  add_override_flag(*command, flags->job, "--bandwidth", "sim.bandwidth", "of each link, e.g. 100mbit");
  add_override_flag(*command, flags->job, "--latency", "sim.latency", "of each link, e.g. 5ms");
  add_override_flag(*command, flags->job, "--jitter", "sim.jitter", "random extra latency, e.g. 2ms");
  add_override_flag(*command, flags->job, "--loss", "sim.loss", "probability that a frame is lost");
  add_override_flag(*command, flags->job, "--duplicate", "sim.duplicate",
                    "probability that a frame comes twice");
  add_override_flag(*command, flags->job, "--reorder", "sim.reorder",
                    "probability that a frame is overtaken");
  add_override_flag(*command, flags->job, "--step-time", "sim.step_time",
                    "virtual time of one gradient, e.g. 5ms");
  command->callback([flags, &status] { status = simulate(*flags); });
}

}  // namespace gossamer::node
