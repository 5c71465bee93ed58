// gossamer sim: a whole run in one process and in virtual time.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "attackers.h"
#include "command_swarm.h"
#include "commands.h"
#include "flags.h"
#include "gossamer/node/safetensors.h"
#include "gossamer/optim/finite.h"
#include "losses.h"
#include "progress.h"
#include "records.h"
#include "simulation.h"
#include "summary.h"
#include "task.h"
#include "text.h"
#include "trace.h"

namespace gossamer::node {
namespace {

constexpr std::uint64_t kSeed = 1;

struct SimFlags {
  JobFlags job;
  std::optional<std::size_t> peers;
  std::optional<std::uint64_t> seed;
  std::vector<std::string> crashes, restarts, slow, attacks;
  std::string model, metrics, trace;
  std::size_t threads = 1;
  bool own_models = false;
  SwarmFlags swarm;
};

/// Peers and times; flag: that gives them.
std::vector<std::pair<PeerId, double>> parse_times(const Job& job, const char* flag,
                                                   const std::vector<std::string>& texts) {
  std::vector<std::pair<PeerId, double>> times;
  for (const std::string& text : texts) {
    const auto at = text.find('@');
    const auto names = job.peer_names();
    const auto peer = std::find(names.begin(), names.end(), text.substr(0, at));
    const std::string when = at == std::string::npos ? "" : text.substr(at + 1);
    const auto in_seconds = parse_duration(when + "s"), with_unit = parse_duration(when);
    const auto time = with_unit ? with_unit : in_seconds;
    if (peer == names.end() || !time || !(*time >= 0))
      throw ConfigError(
          fmt::format("{} {}: expected PEER@SECONDS with a peer of the topology, such as {}@1.5", flag, text,
                      names.front()));
    times.emplace_back(static_cast<PeerId>(peer - names.begin()), *time);
  }
  return times;
}

/// Who begins again has crashed before.
void check_restarts(const Job& job, const SimFaults& faults) {
  for (const auto& restart : faults.restarts) {
    const PeerId peer = restart.first;
    const double time = restart.second;
    const std::string& name = job.peers[peer].name;
    const bool crashed =
        std::any_of(faults.crashes.begin(), faults.crashes.end(),
                    [&](const auto& crash) { return crash.first == peer && crash.second < time; }) ||
        std::any_of(job.sim.crash.begin(), job.sim.crash.end(),
                    [&](const FaultWindow& crash) { return crash.where == name && crash.begin < time; });
    if (!crashed)
      throw ConfigError(
          fmt::format("--restart {0}@{1}: '{0}' has not crashed by then; expected --crash {0}@SECONDS "
                      "with an earlier time",
                      name, time));
  }
}

/// What is said of one run and its results.
void refuse_in_swarm(const SimFlags& flags) {
  const std::pair<const char*, bool> said[] = {
      {"--seed", flags.seed.has_value()},     {"--crash", !flags.crashes.empty()},
      {"--restart", !flags.restarts.empty()}, {"--model", !flags.model.empty()},
      {"--metrics", !flags.metrics.empty()},  {"--trace", !flags.trace.empty()},
      {"--own-models", flags.own_models},
  };
  for (const auto& [flag, is_said] : said)
    if (is_said)
      throw ConfigError(fmt::format("{} goes with one run of a JOB; expected no {} beside it", flag,
                                    flags.swarm.seeds ? "--seeds" : "--replay"));
}

/// Where members may change the run goes on without those that crashed.
Outcome worst(const Job& job, std::span<const WorkerResult> results) {
  const bool may_change = job.least_peers() < job.peers.size();
  Outcome worst = Outcome::finished;
  for (const auto& r : results) {
    if (r.outcome == Outcome::running && may_change) continue;
    worst = std::max(worst, r.outcome == Outcome::running ? Outcome::lost_peer : r.outcome);
  }
  return worst;
}

/// Lines of metrics.jsonl in a file; none where there is no path.
class Metrics {
 public:
  explicit Metrics(const std::string& path) : path_(path) {
    if (path.empty()) return;
    file_.open(path);
    if (!file_)
      throw ConfigError(fmt::format("--metrics {}: cannot be written: {}", path, std::strerror(errno)));
  }
  void write(const std::string& line) {
    if (file_.is_open() && !(file_ << line << '\n') && error_ == 0) error_ = errno;
  }
  /// Throws where a line has not reached the file.
  void finish() {
    if (file_.is_open() && !file_.flush())
      throw std::runtime_error(
          fmt::format("cannot write {}: {}", path_, std::strerror(error_ == 0 ? errno : error_)));
  }

 private:
  std::string path_;
  int error_ = 0;
  std::ofstream file_;
};

/// In one file.
void write_traces(const std::string& file, const Job& job, const std::vector<Trace>& traces) {
  std::vector<std::filesystem::path> parts;
  try {
    for (PeerId p = 0; p < traces.size(); ++p) {
      parts.emplace_back(fmt::format("{}.{}", file, p));
      traces[p].write(parts.back(), p, job.peers[p].name);
    }
    if (!traces.empty()) merge_traces(parts, file);
  } catch (...) {
    remove_parts(parts);
    throw;
  }
}

std::string progress_text(const SimProgress& p, const Prepared& prepared) {
  if (p.joined < prepared.job.peers.size())
    return fmt::format("{:.2f} s virtual  {} of {} peers have joined", p.virtual_seconds, p.joined,
                       prepared.job.peers.size());
  const std::string rounds =
      p.least == p.most ? std::to_string(p.least) : fmt::format("{} to {}", p.least, p.most);
  return fmt::format("{:.2f} s virtual  round {}  {:.0f} % done", p.virtual_seconds, rounds,
                     100 * p.share_done);
}

void save_average(const std::string& path, const Prepared& prepared,
                  std::span<const std::span<const float>> models, std::span<const PeerId> whose) {
  const AlignedFloats mean = average(models, model_weights(prepared, whose));
  if (optim::all_finite(mean))
    return write_safetensors(path, prepared.layers, mean, {{"job", prepared.job.name}});
  fmt::print(stderr, "gossamer: the model is not saved: some of its parameters are NaN or Inf\n");
}

/// A Python computes the gradients, and runs the simulator for it.
[[noreturn]] void simulate_task(const SimFlags& flags, const Job& job,
                                const std::vector<std::string>& overrides) {
  if (!flags.crashes.empty() || !flags.restarts.empty() || !flags.model.empty() || !flags.metrics.empty() ||
      !flags.trace.empty() || flags.own_models)
    throw ConfigError(fmt::format(
        "{}: the simulation of a Python task takes no --crash, --restart, --model, --metrics, --trace "
        "and --own-models; expected "
        "--set sim.crash=[\"PEER@2s+1s\"] in their place",
        job.path));
  std::vector<std::string> words = task_words("sim", job, flags.job.path, overrides);
  words.insert(words.end(), {"--network-seed", std::to_string(flags.seed.value_or(kSeed)), "--names",
                             fmt::format("{}", fmt::join(job.peer_names(), ","))});
  if (flags.peers) words.insert(words.end(), {"--peers", std::to_string(*flags.peers)});
  if (flags.job.json) words.emplace_back("--json");
  if (flags.job.quiet) words.emplace_back("--quiet");
  become_task(words);
}

int simulate(const SimFlags& flags) {
  auto overrides = flags.job.overrides;
  if (!flags.slow.empty())
    overrides.push_back(fmt::format("sim.slow=[\"{}\"]", fmt::join(flags.slow, "\", \"")));
  if (!flags.attacks.empty())
    overrides.push_back(fmt::format("sim.attackers=[\"{}\"]", fmt::join(flags.attacks, "\", \"")));
  if (flags.swarm.wanted()) {
    if (flags.swarm.seeds && flags.swarm.replay)
      throw ConfigError("--seeds runs a swarm, --replay one seed of it again; expected one of them");
    refuse_in_swarm(flags);
    if (flags.job.path.empty() && (!overrides.empty() || flags.peers))
      throw ConfigError(
          fmt::format("{} changes a job, and a swarm draws jobs of its own; expected JOB beside it",
                      flags.peers ? "--peers" : "'" + overrides.front() + "'"));
    optim::set_blas_threads(1);
    return swarm(flags.swarm, flags.job,
                 flags.job.path.empty() ? std::nullopt
                                        : std::optional(load_job(flags.job.path, overrides, flags.peers)),
                 flags.threads);
  }
  if (flags.swarm.churn) throw ConfigError("--churn is of a swarm; expected --seeds or --replay beside it");
  if (flags.job.path.empty())
    throw ConfigError(
        "gossamer sim wants a job file, or --seeds N for a swarm of drawn ones (gossamer sim --help)");
  if (!flags.model.empty()) check_replaceable(flags.model);
  if (!flags.trace.empty()) check_writable(flags.trace);
  Job job = load_job(flags.job.path, overrides, flags.peers);
  if (job.is_task()) simulate_task(flags, job, overrides);
  const Prepared prepared = prepare(std::move(job));
  warn_of_gamma(prepared);
  // the same bits as in processes of their own, where those have one thread each (or the job says how many)
  optim::set_blas_threads(std::max(1, prepared.job.run.threads));
  if (!flags.model.empty() && !prepared.homogeneous())
    throw ConfigError(
        fmt::format("--model {}: peers of different hidden sizes have no average model", flags.model));
  SimFaults faults{flags.seed.value_or(kSeed), parse_times(prepared.job, "--crash", flags.crashes)};
  faults.restarts = parse_times(prepared.job, "--restart", flags.restarts);
  check_restarts(prepared.job, faults);
  faults.views = faults.breaks = true;
  Simulation simulation(prepared, std::move(faults), nullptr, flags.threads);
  Progress progress(flags.job.quiet);
  Metrics metrics(flags.metrics);
  std::string last_report;
  simulation.on_report = [&](PeerId peer, double time, const Report& r) {
    metrics.write(to_json(prepared.job.peers[peer].name, time, r));
    if (peer == 0)
      last_report = fmt::format("  {} at round {}: loss {:.4f}{}", prepared.job.peers[0].name, r.round,
                                r.loss, r.test ? ", " + figures_text(*r.test) : "");
  };
  Losses losses;
  simulation.on_member = [&](double time, const MemberEvent& event) { losses.take(event, time); };
  std::vector<Trace> traces(flags.trace.empty() ? 0 : prepared.job.peers.size());
  if (!traces.empty())
    simulation.on_trace = [&](PeerId peer, const TraceSpan& span) { traces[peer].add(span); };
  const auto stop = [&] {
    if (progress.due()) progress.line(progress_text(simulation.progress(), prepared) + last_report);
    return interrupted();
  };
  const auto begin = std::chrono::steady_clock::now();
  const SimResult result = simulation.run(stop);
  const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  progress.clear();
  // the others have gone on without those that crashed, or came back too late
  const auto gone = [&](PeerId p) {
    return prepared.job.least_peers() < prepared.job.peers.size() &&
           (result.peers[p].outcome == Outcome::running || result.peers[p].rounds == 0);
  };
  bool all_gone = true;
  for (PeerId p = 0; p < prepared.job.peers.size(); ++p) all_gone &= gone(p) || !honest(prepared.job, p);
  std::vector<std::span<const float>> models;
  std::vector<PeerId> whose;
  std::vector<WorkerResult> results;
  for (PeerId p = 0; p < prepared.job.peers.size(); ++p) {
    if (!honest(prepared.job, p) || (gone(p) && !all_gone)) continue;
    models.push_back(simulation.parameters(p));
    whose.push_back(p);
    results.push_back(result.peers[p]);
  }
  Summary summary = summarise(prepared, results, models, flags.own_models, whose);
  summary.losses = losses.all();
  summary.virtual_seconds = result.virtual_seconds;
  summary.digest = fmt::format("{:016x}", result.digest);
  double rate = 0;  // each peer over its own rounds: the fast may end long before the slow
  for (const auto& p : results) rate += p.seconds > 0 ? static_cast<double>(p.rows_here) / p.seconds : 0;
  summary.virtual_samples_per_second = rate;
  summary.samples_per_second *= summary.seconds / wall;
  summary.seconds = wall;
  const std::string text = flags.job.json ? to_json(summary) + "\n" : to_table(std::span(&summary, 1));
  std::fputs(text.c_str(), stdout);
  if (!flags.job.quiet)
    for (const Loss& loss : losses.all()) tell(text_of(loss));
  if (!flags.job.quiet) std::fputs(told_of_model_age(prepared, summary.staleness_mean).c_str(), stderr);
  for (PeerId p = 0; p < result.peers.size(); ++p)
    if (!result.peers[p].message.empty())
      fmt::print(stderr, "{}: {}\n", prepared.job.peers[p].name, result.peers[p].message);
  std::fflush(stdout);
  if (!flags.model.empty()) save_average(flags.model, prepared, models, whose);
  metrics.finish();
  write_traces(flags.trace, prepared.job, traces);
  return exit_status(worst(prepared.job, result.peers));
}

}  // namespace

void add_sim_command(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("sim", "Simulate a whole run in one process, in virtual time");
  auto flags = std::make_shared<SimFlags>();
  add_job_flags(*command, flags->job, false);
  add_swarm_flags(*command, flags->swarm);
  command->add_option("--peers", flags->peers, "replace the peers by N local ones")->check(above_zero());
  command
      ->add_option("--seed", flags->seed,
                   "seed of the network's faults and jitter (run.seed is the training's)")
      ->check(zero_or_more())
      ->default_str(std::to_string(kSeed));
  command
      ->add_option("--crash", flags->crashes,
                   "PEER@SECONDS: the peer's process ends at that virtual time; repeatable")
      ->allow_extra_args(false);
  command
      ->add_option(
          "--restart", flags->restarts,
          "PEER@SECONDS: one that has crashed begins again, knowing nothing (run.min_peers); repeatable")
      ->allow_extra_args(false);
  command
      ->add_option("--slow", flags->slow,
                   "PEER=FACTOR: the peer's steps take FACTOR times as long; repeatable")
      ->allow_extra_args(false);
  command
      ->add_option(
          "--attack", flags->attacks,
          "PEER=ATTACK[:SIZE]: the peer sends something wrong, e.g. peer3=noise:100 (sign_flip, noise, "
          "zero, label_flip, alie, nan); results are of the others; repeatable")
      ->allow_extra_args(false);
  command->add_option("--model", flags->model, "write the average model to this safetensors file");
  command->add_option("--metrics", flags->metrics,
                      "write the peers' reports to this file, as metrics.jsonl of a run");
  command->add_option("--trace", flags->trace,
                      "write what takes how long, in virtual time, to this file, for ui.perfetto.dev or "
                      "chrome://tracing");
  command
      ->add_option("--threads", flags->threads,
                   "cores that compute gradients and messages, or with --seeds processes that run seeds; the "
                   "result is the same")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
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
