// gossamer peer: one peer of a job, in this process.
#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <optional>

#include "commands.h"
#include "endpoint.h"
#include "flags.h"
#include "gossamer/node/peer.h"
#include "gossamer/node/safetensors.h"
#include "gossamer/optim/click_objective.h"
#include "gossamer/optim/finite.h"
#include "joining.h"
#include "line_writer.h"
#include "losses.h"
#include "machine.h"
#include "progress.h"
#include "records.h"
#include "resume.h"
#include "row_exchange.h"
#include "run_checkpoints.h"
#include "run_folder.h"
#include "shared_rows.h"
#include "summary.h"
#include "table_file.h"
#include "task.h"
#include "text.h"
#include "worker.h"

namespace gossamer::node {
namespace {

/// Records, or lines on stderr, that wait to be read, before the oldest are dropped: some minutes of reports.
constexpr std::size_t kMostLines = 4096;

/// What is said on stderr, and never waited for: who reads it may be stopped.
class LineSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  explicit LineSink(LineWriter& lines) : lines_(lines) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t text;
    formatter_->format(message, text);
    lines_.write(fmt::to_string(text));
  }
  void flush_() override {}

  LineWriter& lines_;
};

struct PeerFlags {
  JobFlags job;
  std::string name;
  std::string out;          ///< folder of this peer's files; empty = a new run folder
  std::string checkpoints;  ///< folder of its checkpoints; empty = below its files
  std::string resume;       ///< a run's folder
  std::string join;         ///< a member of a run under way
  std::string address;      ///< of this peer, where it joins
  int rows = -1;            ///< open file of the run's rows (SharedRows); -1: none
  std::string trace;        ///< file; empty: none
  bool records = false;     ///< stdout carries records (started by `gossamer run`)
  std::uint64_t session = 0;
};

std::string host_of(const std::string& address) { return address.substr(0, address.rfind(':')); }

/// As far as the addresses tell, until the others have said where they run. own: of this peer's host.
int compute_threads(const Job& job, const std::string& own, std::size_t more) {
  if (job.run.threads > 0) return job.run.threads;
  const auto here = more + static_cast<std::size_t>(
                               std::count_if(job.peers.begin(), job.peers.end(),
                                             [&](const PeerEntry& p) { return host_of(p.address) == own; }));
  return fair_threads({here, here});
}

/// By its machine and process, where it is given none.
std::string name_of_joiner() {
  std::array<char, 40> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host.front() = '\0';
  std::string name = fmt::format("{}-{}", host.data(), getpid());
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '-') c = '_';
  return name;
}

/// The job, where a peer that joins a run is given none: as the run's members have it.
Job job_of(PeerFlags& flags) {
  if (flags.join.empty() || !flags.job.path.empty()) return load_job(flags.job.path, flags.job.overrides);
  std::vector<std::string> of_run;  // what counts before the job is told
  for (const std::string& text : flags.job.overrides)
    if (text.starts_with("run.join_timeout") || text.starts_with("run.insecure")) of_run.push_back(text);
  Job plain = load_job("/dev/null", of_run, 1);
  plain.access.key = flags.name + ".key";
  for (const std::string& text : flags.job.overrides) {
    if (text.starts_with("access.key=")) plain.access.key = text.substr(11);
    if (text.starts_with("access.certificate=")) plain.access.certificate = text.substr(19);
  }
  return job_of_run(ask_member(plain, flags.join, flags.name, interrupted), flags.job.overrides);
}

std::string report_line(const Report& r) {
  std::string line = fmt::format(
      "round {}  {:.0f} % done  epoch {:.1f}  loss {:.4f}  {:.0f} samples/s  out {:.2f} MB/s  in {:.2f} MB/s "
      " staleness "
      "{:.0f}",
      r.round, 100 * r.share_done, r.epoch, r.loss, r.rows_per_second, r.bytes_out_per_second / 1e6,
      r.bytes_in_per_second / 1e6, r.staleness);
  if (r.test) line += "  " + figures_text(*r.test);
  return line;
}

/// The peer's own figures, for one started by hand.
void print_summary(const PeerFlags& flags, const Prepared& prepared, PeerId self, const WorkerResult& result,
                   std::span<const float> parameters, const Losses& losses) {
  Summary summary =
      summarise(prepared, std::span(&result, 1), std::span(&parameters, 1), false, std::span(&self, 1));
  summary.losses = losses.all();
  if (prepared.job.peers.size() > 1) summary.consensus_distance = std::nan("");  // of one model there is none
  const std::string text = flags.job.json ? to_json(summary) + "\n" : to_table(std::span(&summary, 1));
  std::fputs(text.c_str(), stdout);
}

class PeerProcess {
 public:
  PeerProcess(const PeerFlags& flags, Job job)
      : flags_(flags),
        self_(flags.join.empty() ? find_peer(job, flags.name, "--name " + flags.name) : 0),
        told_(STDERR_FILENO, kMostLines),
        progress_(flags.job.quiet || flags.records, [this](const std::string& text) { told_.write(text); }),
        log_(flags.name, std::make_shared<LineSink>(told_)) {
    log_.set_pattern("%H:%M:%S.%e %n: %v");
    if (flags.records) records_.emplace(STDOUT_FILENO, kMostLines);
    if (!flags.trace.empty()) check_writable(flags.trace);
    const bool joins = !flags.join.empty();
    const auto threads = static_cast<std::size_t>(
        joins ? compute_threads(job,
                                "tcp://" + own_host_towards(member_address(flags.join, "--join").address), 1)
              : compute_threads(job, host_of(job.peers[self_].address), 0));
    optim::set_blas_threads(static_cast<int>(threads));
    const Plan plan = make_plan(job, self_);  // refuses an unsound combination before data is read
    if (!flags.records)
      for (const std::string& warning : warnings_of_run(job, plan))
        told_.write("gossamer: " + warning + "\n");
    peer_.emplace(std::move(job), flags.name, flags.rows < 0 ? Learner{} : learner_of_shared_rows(flags.rows),
                  callbacks(),
                  Options{.session = flags.session,
                          .state = {},
                          .threads = threads,
                          .resume = flags.resume,
                          .join = flags.join,
                          .address = flags.address,
                          .trace = flags.trace,
                          .stop = interrupted});
    folder_ =
        flags.out.empty() ? make_run_folder(prepared().job.name + "-" + flags.name) : out_folder(flags.out);
    for (const auto& file : {model_file(), table_file()}) replaced_file(file.string());  // or it throws
    peer_->keep_checkpoints(flags.checkpoints.empty() ? (folder_ / kCheckpointsFolder).string()
                                                      : flags.checkpoints);
    if (flags.out.empty()) {
      write_text(folder_ / "job.toml", to_toml(prepared().job));
      const Resumption* from = peer_->resumption();
      if (from) {
        carry_metrics(from->folder.parent_path(), folder_, from->rounds().back());
        write_parent(folder_, flags.resume, from->rounds().back(), from->way == Way::same_bits,
                     from->differs);
      }
      metrics_.open(folder_ / kMetricsFile, from ? std::ios::app : std::ios::out);
    }
  }

  int run() {
    const std::string where =
        peer_->endpoint().empty() ? "dialling out alone" : "listening on " + peer_->endpoint();
    say(flags_.join.empty() ? fmt::format("{}; waiting for {} peers", where, prepared().job.peers.size() - 1)
                            : fmt::format("{}; joining the run of {}", where, flags_.join));
    warn_of_loopback();
    for (const std::string& warning : warnings_of_length(prepared(), self_)) say(warning);
    if (const std::string from = peer_->goes_on_from(); !from.empty()) say("can go on from " + from);
    if (prepared().job.access.locked()) hung_up();
    peer_->run([this] {
      if (prepared().job.access.locked() && hung_up()) read_access_again();
      return interrupted();
    });
    progress_.clear();
    finish(peer_->details());
    return exit_status(peer_->details().outcome);
  }

 private:
  const Prepared& prepared() const { return peer_->prepared(); }
  std::filesystem::path model_file() const {
    return folder_ / (flags_.out.empty() ? "model.safetensors" : flags_.name + ".safetensors");
  }
  std::filesystem::path table_file() const {
    return folder_ / (flags_.out.empty() ? "rows.table" : flags_.name + ".table");
  }

  /// As where /etc/hosts says that the machine's own name is 127.0.1.1.
  void warn_of_loopback() {
    if (peer_->endpoint().empty() || !is_loopback(endpoint_of(peer_->endpoint()).host)) return;
    const auto& peers = prepared().job.peers;
    const auto elsewhere = std::find_if(peers.begin(), peers.end(), [&](const PeerEntry& p) {
      const bool made_up = p.name == flags_.name && !flags_.join.empty();
      return !made_up && !p.address.empty() && !is_loopback(endpoint_of(p.address).host);
    });
    if (elsewhere != peers.end())
      say(fmt::format(
          "no other machine reaches {}, and {} is at {}; expected bind = \"tcp://*:{}\" for this peer in "
          "the topology file, or another address",
          peer_->endpoint(), elsewhere->name, elsewhere->address, endpoint_of(peer_->endpoint()).port));
  }

  Callbacks callbacks() {
    return {.on_report = [this](const Report& r) { report(r); },
            .on_log = [this](const std::string& line) { say(line); },
            .on_neighbours =
                [this](std::size_t machine, std::size_t allotment) {
                  return settle_threads({machine, allotment});
                },
            .on_member =
                [this](const MemberEvent& event) {
                  losses_.take(event, peer_->seconds());
                  record(to_json(flags_.name, peer_->seconds(), event));
                }};
  }

  std::size_t settle_threads(const CoreSharing& sharing) {
    const int given = prepared().job.run.threads, threads = given > 0 ? given : fair_threads(sharing);
    optim::set_blas_threads(threads);
    say(fmt::format("{} of the peers run on this machine; computing with {} thread{}", sharing.machine,
                    threads, threads == 1 ? "" : "s"));
    return static_cast<std::size_t>(threads);
  }

  void read_access_again() {
    try {
      // who joined without JOB was told one: the files that it names for itself are read again
      peer_->change_access(flags_.job.path.empty() ? prepared().job
                                                   : load_job(flags_.job.path, flags_.job.overrides));
      say("SIGHUP: who may speak was read again");
    } catch (const std::runtime_error& error) {
      say(fmt::format("SIGHUP: who may speak stays as it was: {}", error.what()));
    }
  }

  void say(const std::string& line) {
    progress_.clear();
    if (!flags_.job.quiet) log_.info(line);
  }

  void report(const Report& r) {
    record(to_json(flags_.name, peer_->seconds(), r));
    if (!records_) progress_.line(report_line(r));
  }

  void record(const std::string& line) {
    if (metrics_.is_open() && !(metrics_ << line << '\n' << std::flush)) {
      say(fmt::format("{} cannot be written any more: {}", (folder_ / "metrics.jsonl").string(),
                      std::strerror(errno)));
      metrics_.close();
    }
    if (records_) records_->write(line + '\n');
  }

  bool model_is_lost() const { return peer_->parameters().size() != prepared().initial_of(self_).size(); }

  void save_model(const WorkerResult& result) {
    if (result.rounds == 0) return;  // nothing learned: an earlier run's model stays
    if (model_is_lost()) return say("no model is saved: it went with the device that failed");
    if (!optim::all_finite(peer_->parameters()))
      return say("the model is not saved: some of its parameters are NaN or Inf");
    const std::filesystem::path model = model_file();
    write_safetensors(
        model.string(), prepared().layers_of(self_), peer_->parameters(),
        {{"job", prepared().job.name}, {"peer", flags_.name}, {"round", std::to_string(result.rounds)}});
    say(fmt::format("model saved to {}", model.string()));
  }

  /// Evaluates and saves what stands in a table.
  void finish_rows(WorkerResult& result) {
    LiveDataPlane* plane = peer_->plane();
    optim::KeyedRows* rows = plane ? plane->objective().keyed_rows() : nullptr;
    if (!rows || result.rounds == 0) return;
    const std::filesystem::path file = table_file();
    save_table_file(file, rows->table());
    say(fmt::format("{} rows saved to {}", rows->table().statistics().rows, file.string()));
    // Who is told to end has little time.
    result.figures = result.outcome == Outcome::interrupted
                         ? row_figures(rows->table(), plane->rows())
                         : all_figures(plane->objective(), peer_->parameters(), plane->rows());
    if (const auto* clicks = dynamic_cast<const optim::ClickObjective*>(&plane->objective()))
      for (const std::string& line : clicks->counters().bad) say("a line was passed over: " + line);
  }

  void finish(WorkerResult result) {
    save_model(result);
    finish_rows(result);
    if (result.dropped_frames > 0 && result.outcome != Outcome::bad_input)
      say(fmt::format("{} frames of strangers, other runs or malformed were dropped", result.dropped_frames));
    for (const auto& [from, counts] : result.refused)
      say(fmt::format("of the frames in the name of {} were refused: {}", peer_->name_of(from),
                      refusals_text(counts)));
    if (!result.message.empty()) told_.write(fmt::format("gossamer: {}: {}\n", flags_.name, result.message));
    if (records_) {
      finish_records(result);
    } else if (result.rounds > 0 && !model_is_lost()) {
      told_.finish();  // so that the summary comes last
      print_summary(flags_, prepared(), self_, result, peer_->parameters(), losses_);
    }
  }

  void finish_records(const WorkerResult& result) {
    const std::uint64_t dropped = records_->dropped();
    if (dropped > 0) say(fmt::format("{} reports were dropped: nobody read them in time", dropped));
    if (const auto failed = records_->finish(to_json(flags_.name, result, dropped) + '\n'))
      say(fmt::format("records cannot be written on standard output: {}", failed.message()));
  }

  const PeerFlags& flags_;
  PeerId self_;
  LineWriter told_;  ///< to stderr
  Progress progress_;
  spdlog::logger log_;
  std::optional<Peer> peer_;
  std::filesystem::path folder_;
  std::ofstream metrics_;
  std::optional<LineWriter> records_;
  Losses losses_;  ///< by the process's time
};

std::vector<std::string> words_of_task(const PeerFlags& flags, const Job& job) {
  std::vector<std::string> words = task_words("peer", job, flags.job.path, flags.job.overrides);
  const std::pair<const char*, std::string> given[] = {
      {"--name", flags.name},
      {"--join", flags.join},
      {"--address", flags.address},
      {"--checkpoints", flags.checkpoints},
      {"--resume", flags.resume},
      {"--out", flags.out},
      {"--session", flags.session > 0 ? std::to_string(flags.session) : ""}};
  for (const auto& [flag, value] : given)
    if (!value.empty()) words.insert(words.end(), {flag, value});
  return words;
}

int run_peer(PeerFlags flags) {
  keep_memory();
  raise_file_limit();
  interrupted();  // from here on Ctrl-C ends the peer cleanly
  try {
    if (flags.join.empty() && (flags.job.path.empty() || flags.name.empty()))
      throw ConfigError(
          "gossamer peer: found no job or no --name; expected JOB --name NAME, or --join "
          "tcp://host:port of a peer of a run under way");
    if (flags.join.empty() && !flags.address.empty())
      throw ConfigError("--address is of a peer that joins a run; expected --join beside it");
    if (!flags.join.empty()) member_address(flags.join, "--join");
    if (!flags.address.empty() && flags.address != kNoAddress) check_address(flags.address, "--address");
    if (flags.name.empty()) flags.name = name_of_joiner();
    Job job = job_of(flags);
    if (job.is_task() && !flags.trace.empty()) setenv("GOSSAMER_TRACE", flags.trace.c_str(), 1);
    if (job.is_task()) become_task(words_of_task(flags, job));
    return PeerProcess(flags, std::move(job)).run();
  } catch (const std::runtime_error& error) {  // the log alone cannot tell of a full disk
    if (flags.records) std::fputs((to_json(flags.name, error) + "\n").c_str(), stdout);
    throw;
  }
}

}  // namespace

void add_peer_command(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("peer", "Run one peer of a job in this process");
  auto flags = std::make_shared<PeerFlags>();
  add_job_flags(*command, flags->job, false);
  command->add_option("--name", flags->name,
                      "which peer of the topology this is; with --join any (default: by machine and "
                      "process)");
  command->add_option("--join", flags->join,
                      "tcp://host:port of a peer of a run under way, or tcp://host:port#PUBLICKEY: take part "
                      "in it; JOB may be left out");
  command->add_option("--address", flags->address,
                      "with --join: tcp://host:port by which others reach this peer (default: a free port); "
                      "none: it can only dial "
                      "out");
  command->add_option("--out", flags->out, "folder for this peer's model (default: a new one below runs/)");
  command->add_option(
      "--resume", flags->resume,
      "go on from the checkpoints of this run's folder, at the newest round that all peers have");
  command->add_option("--checkpoints", flags->checkpoints,
                      "folder for this peer's checkpoints (default: checkpoints/ beside its files)");
  add_override_flag(*command, flags->job, "--key", "access.key",
                    "file of this peer's secret key, where the job says who may speak (default: NAME.key)");
  add_override_flag(*command, flags->job, "--certificate", "access.certificate",
                    "file of its certificate (default: NAME.cert, where there is one)");
  command->add_option("--trace", flags->trace,
                      "write what takes how long to this file, for ui.perfetto.dev or chrome://tracing");
  command->add_flag("--records", flags->records, "print reports as JSON lines on stdout");
  command->add_option("--rows", flags->rows)->group("");  // of gossamer run alone
  command->add_option("--session", flags->session, "number that a run's peers share")->check(whole_number());
  add_override_flag(*command, flags->job, "--join-timeout", "run.join_timeout",
                    "seconds to wait for all peers to appear");
  add_override_flag(*command, flags->job, "--drain-timeout", "run.drain_timeout",
                    "seconds a finished peer serves the others");
  command->callback([flags, &status] { status = run_peer(*flags); });
}

}  // namespace gossamer::node
