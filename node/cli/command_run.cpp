// gossamer run: all peers of a job on this machine, one process each.
#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "commands.h"
#include "flags.h"
#include "gossamer/node/safetensors.h"
#include "joining.h"
#include "launcher.h"
#include "loop_objective.h"
#include "program_summary.h"
#include "resume.h"
#include "run_peers.h"
#include "task.h"

namespace gossamer::node {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNoInput =
    ": found \"-\", standard input, which peers of `run` have not; expected a file, or data.command";

Resumption resumption_of(const RunFlags& flags, const Job& job) {
  Resumption from = find_resumption(flags.resume, job, "");
  if (flags.program.empty() || from.way == Way::same_bits) return from;
  Resumption own = find_resumption(flags.resume, job_of_own_steps(job), "");  // as loops that step have it
  return own.way == Way::same_bits ? own : from;
}

int run_all(RunFlags flags) {
  interrupted();
  const std::string path =
      flags.job.path.empty() ? (fs::path(flags.resume) / "job.toml").string() : flags.job.path;
  Job job = load_job(path, flags.job.overrides);
  if (job.data.path == "-" && flags.program.empty()) throw ConfigError(job.where("data.path") + kNoInput);
  const Plan plan = make_plan(job, 0);  // refuses an unsound combination before anything is started
  for (const std::string& warning : warnings_of_run(job, plan)) tell("gossamer: " + warning);
  if (!flags.trace.empty()) check_writable(flags.trace);
  optim::set_blas_threads(1);
  for (PeerId p = 0; p < job.peers.size(); ++p) sockets_of(job, p);  // their keys, before anything is started
  if (flags.program.empty() && !flags.resume.empty()) flags.program = read_program(flags.resume);
  if (flags.program.empty() && job.is_task()) flags.program = task_words("peer", job, path, {});
  if (!flags.program.empty()) find_program(flags.program.front());  // or it throws, before there is a folder
  std::optional<Resumption> from;
  if (!flags.resume.empty()) {
    from = resumption_of(flags, job);
    for (const std::string& problem : from->problems) tell("gossamer: passed over: " + problem);
    tell("going on from " + from->text());
  }
  return run_peers(flags, std::move(job), from);
}

}  // namespace

void add_run_command(CLI::App& app, int& status) {
  auto* command =
      app.add_subcommand("run", "Start all peers of a job on this machine and show how they train");
  auto flags = std::make_shared<RunFlags>();
  add_job_flags(*command, flags->job, false);
  command->add_option(
      "--resume", flags->resume,
      "go on from the newest whole checkpoint in this run's folder (JOB may then be left out: its own)");
  command->add_option("--out", flags->out, "folder for the run's files (default: a new one below runs/)");
  command->add_option("program", flags->program,
                      "after --: a program, and its arguments, that is started as each peer in this one's "
                      "place (such as python3 train.py)");
  command->add_option(
      "--trace", flags->trace,
      "write what takes how long, at all peers, to this file, for ui.perfetto.dev or chrome://tracing");
  command->add_flag("--own-models", flags->own_models, "also evaluate each peer's own model");
  add_override_flag(*command, flags->job, "--join-timeout", "run.join_timeout",
                    "seconds to wait for all peers to appear");
  add_override_flag(*command, flags->job, "--drain-timeout", "run.drain_timeout",
                    "seconds a finished peer serves the others");
  command->callback([flags, &status] {
    if (flags->job.path.empty() && flags->resume.empty()) throw CLI::RequiredError("JOB");
    status = run_all(*flags);
  });
}

}  // namespace gossamer::node
