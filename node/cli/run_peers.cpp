// Starts the peers of `gossamer run`, hears them, starts again those that crash, sums up what they came to.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <random>
#include <utility>

#include "aggregation.h"
#include "commands.h"
#include "flags.h"
#include "launcher.h"
#include "losses.h"
#include "peer_weights.h"
#include "program_summary.h"
#include "progress.h"
#include "records.h"
#include "restart.h"
#include "resume.h"
#include "run_checkpoints.h"
#include "run_folder.h"
#include "run_peers.h"
#include "run_view.h"
#include "shared_rows.h"
#include "summary.h"
#include "trace.h"

namespace gossamer::node {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

/// How long peers may take to end after they were told to, or after one of them failed to start.
constexpr double kPatience_s = 15;
/// For which a peer is stopped before it is ended, where enough others have ended well.
constexpr double kFrozen_s = 10;
/// That no command line takes for a flag.
std::string word_of(const fs::path& path) {
  return (path.string().starts_with('-') ? "." / path : path).string();
}

bool was_told_to_end(int status) { return ended_as_told(status, kExitInterrupted); }

class Run {
 public:
  Run(const RunFlags& flags, Job job, const std::optional<Resumption>& from)
      : flags_(flags),
        job_(std::move(job)),
        rows_(flags.program.empty() ? std::make_unique<SharedRows>(job_) : nullptr),
        folder_(flags.out.empty() ? make_run_folder(job_.name) : new_out_folder(flags.out, flags.resume)),
        lock_(folder_),
        in_place_(from && is_same_folder(folder_, flags.resume)),
        from_(from),
        former_job_(folder_ / "job.toml"),
        former_program_(folder_ / kProgramFile),
        progress_(flags.job.quiet),
        view_(job_.peer_names()),
        results_(job_.peers.size()),
        restarts_(job_.peers.size()),
        reasons_(job_.peers.size()) {
    if (from_) {
      const Round round = from_->rounds().back();
      carry_metrics(from_->folder.parent_path(), folder_, round);
      write_parent(folder_, flags_.resume, round, from_->way == Way::same_bits, from_->differs);
    }
    metrics_.open(folder_ / kMetricsFile, from_ ? std::ios::app : std::ios::out);
  }

  int execute() {
    start();
    watch();
    progress_.clear();
    if (in_place_ && start_was_refused()) former_job_.give_back(), former_program_.give_back();
    const int status = finish();
    return merge_traces() || status != kExitOk ? status : kExitFailure;
  }

 private:
  void start() {
    write_text(folder_ / "job.toml", to_toml(job_));
    fs::create_directories(folder_ / "peers");
    std::random_device device;
    const std::string session = std::to_string(device());
    if (!flags_.program.empty()) return start_programs(session);
    std::error_code none;
    fs::remove(folder_ / kProgramFile, none);  // of a run that never began here
    const std::string job = word_of(folder_ / "job.toml"), out = word_of(folder_ / "peers"),
                      checkpoints = word_of(folder_ / kCheckpointsFolder);
    for (const auto& peer : job_.peers) {
      std::vector<std::string> words = rows_->words();
      words.insert(words.begin(), {"peer", job, "--name", peer.name, "--records", "--session", session,
                                   "--out", out, "--checkpoints", checkpoints});
      if (!flags_.resume.empty()) words.insert(words.end(), {"--resume", word_of(flags_.resume)});
      if (!flags_.trace.empty()) words.insert(words.end(), {"--trace", word_of(trace_of(peer.name))});
      launcher_.start(peer.name, words, folder_ / "peers" / (peer.name + ".log"));
    }
    if (!flags_.job.quiet)
      tell(fmt::format("{} peers started; files in {}", job_.peers.size(), folder_.string()));
  }

  /// Each is told by its environment which peer it is, and what this program would have told its own.
  void start_programs(const std::string& session) {
    write_program(folder_, flags_.program);
    for (const auto& peer : job_.peers) {
      std::vector<std::string> environment{fmt::format("RANK={}", &peer - job_.peers.data()),
                                           fmt::format("WORLD_SIZE={}", job_.peers.size()),
                                           "GOSSAMER_NAME=" + peer.name,
                                           "GOSSAMER_JOB=" + (folder_ / "job.toml").string(),
                                           "GOSSAMER_SESSION=" + session,
                                           "GOSSAMER_OUT=" + (folder_ / "peers").string(),
                                           "GOSSAMER_CHECKPOINTS=" + (folder_ / kCheckpointsFolder).string()};
      if (!flags_.resume.empty()) environment.push_back("GOSSAMER_RESUME=" + flags_.resume);
      if (!flags_.trace.empty()) environment.push_back("GOSSAMER_TRACE=" + trace_of(peer.name).string());
      launcher_.start_program(peer.name, flags_.program, environment,
                              folder_ / "peers" / (peer.name + ".log"));
    }
    if (!flags_.job.quiet)
      tell(fmt::format("{} programs started; what they print, and their files, in {}", job_.peers.size(),
                       (folder_ / "peers").string()));
  }

  fs::path trace_of(const std::string& peer) const { return folder_ / "peers" / (peer + ".trace.json"); }
  /// False where its file cannot be written.
  bool merge_traces() const try {
    if (flags_.trace.empty()) return true;
    std::vector<fs::path> parts;
    for (const auto& peer : job_.peers) parts.push_back(trace_of(peer.name));
    node::merge_traces(parts, flags_.trace);
    if (!flags_.job.quiet) tell(fmt::format("trace: {} (for ui.perfetto.dev)", flags_.trace));
    return true;
  } catch (const std::exception& error) {
    tell(fmt::format("gossamer: {}", error.what()));
    return false;
  }

  void watch() {
    std::optional<Clock::time_point> deadline;
    while (launcher_.running()) {
      launcher_.poll(0.1, [&](std::size_t child, const std::string& line) { take(child, line); });
      const bool stop = interrupted();
      if (!deadline && !stop && training_) restart_crashed(), end_frozen();
      if (!deadline && (stop || failed_to_start())) {
        interrupted_ = stop;
        for (const auto& c : launcher_.children()) told_to_end_.push_back(!c.status);
        launcher_.signal_all(flags_.program.empty() ? SIGTERM : SIGINT);  // Ctrl-C is what programs know
        deadline =
            Clock::now() + std::chrono::milliseconds(static_cast<int>((kPatience_s + job_.run.grace) * 1000));
      }
      if (deadline && Clock::now() > *deadline) launcher_.signal_all(SIGKILL);
      if (training_) progress_.line(view_.text(steady_seconds() - *training_));
    }
  }

  /// Peers that others go on without, and may come back to them.
  void restart_crashed() {
    const auto& children = launcher_.children();
    const auto running =
        std::count_if(children.begin(), children.end(), [](const auto& c) { return !c.status; });
    if (job_.least_peers() >= children.size() || running == 0) return;
    for (std::size_t i = 0; i < children.size(); ++i) {
      const int status = children[i].status.value_or(kExitOk);
      if (status != kExitOk) view_.ended(i);
      if (has_finished(i) || children[i].out_fd >= 0 || restarts_[i].times >= job_.run.restart) continue;
      const bool crashed = status == kExitFailure ? !diverged(i) : status > 128 && !was_told_to_end(status);
      if (!crashed) continue;
      Restart& again = restarts_[i];
      if (!again.at) {
        const double wait = again.wait_s();
        again.at = Clock::now() + std::chrono::milliseconds(static_cast<int>(wait * 1000));
        tell(fmt::format("gossamer: {}: {}; starting it again in {:.1f} s ({} of {} times, run.restart)",
                         children[i].name,
                         status > 128 ? fmt::format("killed by signal {}", status - 128) : reason(i), wait,
                         again.times + 1, job_.run.restart));
      }
      if (Clock::now() < *again.at) continue;
      again.at.reset();
      ++again.times;
      reasons_[i].clear();
      launcher_.start_again(i);
    }
  }

  /// Enough others have ended well: nobody waits for one that is frozen.
  void end_frozen() {
    std::size_t well = 0;
    for (const auto& c : launcher_.children()) well += c.status == kExitOk;
    if (!flags_.program.empty() || well < job_.least_peers()) return;
    for (const std::string& name : launcher_.end_stopped(kFrozen_s))
      tell(fmt::format("gossamer: {}: ended, as it is stopped and the others are done", name));
  }

  bool has_finished(std::size_t peer) const {
    return results_[peer] && results_[peer]->outcome == Outcome::finished;
  }
  /// Whose run diverged takes the others along.
  bool diverged(std::size_t peer) const { return reason(peer).find("the run diverged") != std::string::npos; }

  /// A peer that ended before it trained: the others would wait for it in vain.
  bool failed_to_start() const {
    if (training_) return false;
    const auto& children = launcher_.children();
    return std::any_of(children.begin(), children.end(),
                       [](const auto& c) { return c.status.value_or(0) != 0; });
  }

  /// By a peer that found its port taken, or its data missing: what the folder's checkpoints are of stands.
  bool start_was_refused() const {
    const auto& children = launcher_.children();
    return !training_ && std::any_of(children.begin(), children.end(),
                                     [](const auto& c) { return c.status == kExitBadInput; });
  }

  void take(std::size_t child, const std::string& line) {
    const auto record = parse_record(line);
    if (!record) return;
    if (const auto* report = std::get_if<Report>(&record->body)) {
      if (!(metrics_ << line << '\n' << std::flush) && !metrics_lost_)
        tell(fmt::format("gossamer: {} cannot be written: {}; the run goes on without",
                         (folder_ / "metrics.jsonl").string(), std::strerror(errno)));
      metrics_lost_ = !metrics_;
      if (!training_) training_ = steady_seconds();
      view_.update(child, *report);
    } else if (const auto* result = std::get_if<WorkerResult>(&record->body)) {
      results_[child] = *result;
      reasons_[child] = result->message;
      reports_dropped_ += record->reports_dropped;
    } else if (const auto* event = std::get_if<MemberEvent>(&record->body)) {
      metrics_ << line << '\n' << std::flush;
      if (!interrupted_)  // peers that end together find each other gone
        losses_.take(*event, training_ ? steady_seconds() - *training_ : 0);
    } else {
      reasons_[child] = std::get<Failure>(record->body).message;
    }
  }

  /// Why a peer ended: by its last record, or by its log.
  std::string reason(std::size_t peer) const {
    const fs::path& log = launcher_.children()[peer].log;
    const std::string why = reasons_[peer].empty() ? last_line(log) : reasons_[peer];
    return why.empty() ? fmt::format("ended without a word in {}", log.string()) : why;
  }

  std::string killed_by(int signal, std::size_t peer) const {
    const std::string last = signal == SIGKILL ? "" : last_line(launcher_.children()[peer].log);
    return fmt::format("killed by signal {}{}{}", signal, last.empty() ? "" : ", after: ", last);
  }

  /// Says what went wrong; the status of the whole run.
  int verdict() const {
    if (interrupted_) {
      tell(fmt::format("gossamer: interrupted; {} of {} peers saved what they had learned in {}",
                       saved_models().size(), job_.peers.size(), (folder_ / "peers").string()));
      return kExitInterrupted;
    }
    int status = kExitOk;
    std::size_t finished = 0;
    for (const auto& c : launcher_.children()) finished += c.status == kExitOk;
    // lost ones are named, and are no failure of a run that others have ended
    const bool enough = job_.least_peers() < job_.peers.size() && finished >= job_.least_peers();
    for (std::size_t i = 0; i < launcher_.children().size(); ++i) {
      const auto& c = launcher_.children()[i];
      const int s = c.status.value_or(kExitFailure);
      const bool as_told =
          !told_to_end_.empty() && told_to_end_[i] && (s == kExitInterrupted || s == 128 + SIGTERM);
      if (s == kExitOk || as_told) continue;
      const bool killed = s > 128 && s != kExitInterrupted, left = was_told_to_end(s);
      tell(fmt::format("gossamer: {}: {}", c.name, killed ? killed_by(s - 128, i) : reason(i)));
      const bool failed_after =
          !flags_.program.empty() && has_finished(i);  // what the program does then is its own
      if (enough && !failed_after && (killed || left || s == kExitFailure || s == kExitPeerLost)) continue;
      status = cause_of(status, killed ? kExitPeerLost : s);
    }
    return status;
  }

  fs::path model_of(std::size_t peer) const {
    return folder_ / "peers" / (job_.peers[peer].name + ".safetensors");
  }
  /// Peers that told how they ended, after at least one round; where others may go on, those that were there
  /// in the end.
  std::vector<PeerId> saved_models() const {
    std::vector<PeerId> all, stayed;
    for (PeerId p = 0; p < results_.size(); ++p) {
      if (!results_[p] || results_[p]->rounds == 0 || !fs::exists(model_of(p))) continue;
      all.push_back(p);
      const bool ended_by_run = !told_to_end_.empty() && told_to_end_[p];
      if (results_[p]->outcome == Outcome::finished || ended_by_run) stayed.push_back(p);
    }
    return job_.least_peers() < job_.peers.size() && !stayed.empty() ? stayed : all;
  }

  int finish() {
    const int status = verdict();
    if (!flags_.job.quiet)
      for (const Loss& loss : losses_.all()) tell(text_of(loss));
    if (reports_dropped_ > 0)
      tell(fmt::format("gossamer: {} lacks {} reports of the peers, which this process did not read in time",
                       (folder_ / "metrics.jsonl").string(), reports_dropped_));
    if (status != kExitOk) say_how_to_go_on();
    const auto peers = saved_models();
    if (peers.empty() && status == kExitOk)
      tell(fmt::format("gossamer: no {} learned anything, though all ended well; {}",
                       flags_.program.empty() ? "peer" : "program",
                       flags_.program.empty() ? "see their logs"
                                              : "expected that each opens the peer whose name "
                                                "GOSSAMER_NAME holds, and takes part in the run"));
    if (peers.empty()) return status == kExitOk ? kExitFailure : status;
    if (!flags_.program.empty()) return summarise_programs(peers), status;
    summarise_models(peers);
    if (!flags_.job.quiet && status == kExitOk)
      tell(job_.heterogeneous()
               ? fmt::format("the peers' models have no average: {}", (folder_ / "peers").string())
               : fmt::format("model: {}", (folder_ / "model.safetensors").string()));
    return status;
  }

  void say_how_to_go_on() const {
    std::error_code none;
    if (!fs::is_empty(folder_ / kCheckpointsFolder, none) && !none && fs::exists(folder_ / "job.toml", none))
      tell(fmt::format("gossamer: its checkpoints are in {0}; to go on from there: gossamer run --resume {0}",
                       folder_.string()));
  }

  void summarise_models(const std::vector<PeerId>& peers) {
    const Prepared prepared = prepare(job_, rows_->learner());
    std::vector<WorkerResult> results;
    std::vector<fs::path> models;
    for (const PeerId p : peers) {
      results.push_back(*results_[p]);
      models.push_back(model_of(p));
    }
    Summary summary = summarise_saved(prepared, results, models, flags_.own_models, peers, folder_);
    summary.losses = losses_.all();
    const std::string json = to_json(summary);
    write_text(folder_ / "summary.json", json + "\n");
    std::fputs((flags_.job.json ? json + "\n" : to_table(std::span(&summary, 1))).c_str(), stdout);
    if (!flags_.job.quiet) std::fputs(told_of_model_age(prepared, summary.staleness_mean).c_str(), stderr);
  }

  /// What each came to, and the average of their models.
  void summarise_programs(const std::vector<PeerId>& peers) const {
    std::vector<ProgramEnd> ends;
    for (const PeerId p : peers)
      ends.push_back({job_.peers[p].name, *results_[p], last_line(launcher_.children()[p].log), model_of(p),
                      weighs_peers(job_.exchange.aggregate) ? peer_weight(job_, job_.peers[p]) : 1});
    const std::string json = to_json(job_.name, ends);
    write_text(folder_ / "summary.json", json + "\n");
    std::fputs((flags_.job.json ? json + "\n" : to_text(ends)).c_str(), stdout);
    const fs::path model = folder_ / "model.safetensors";
    const std::string none = write_average(job_.name, ends, model);
    if (!none.empty())
      tell(fmt::format("gossamer: the programs' models have no average: {}", none));
    else if (!flags_.job.quiet)
      tell(fmt::format("model: {}, of those in {}", model.string(), (folder_ / "peers").string()));
  }

  const RunFlags& flags_;
  Job job_;
  std::unique_ptr<SharedRows> rows_;  ///< null: programs have their own
  fs::path folder_;
  const FolderLock lock_;
  const bool in_place_;  ///< goes on in the folder of the run that it goes on from
  const std::optional<Resumption>& from_;
  Overwritten former_job_, former_program_;
  std::ofstream metrics_;
  Progress progress_;
  RunView view_;
  Losses losses_;
  Launcher launcher_;
  std::vector<std::optional<WorkerResult>> results_;
  std::vector<Restart> restarts_;     ///< by peer
  std::vector<std::string> reasons_;  ///< by peer: why it ended, as far as it has told
  std::optional<double> training_;    ///< since when, of a steady clock
  bool interrupted_ = false, metrics_lost_ = false;
  std::uint64_t reports_dropped_ = 0;
  std::vector<bool> told_to_end_;  ///< by child: this run has sent it SIGTERM; empty before
};

}  // namespace

int run_peers(const RunFlags& flags, Job job, const std::optional<Resumption>& from) {
  return Run(flags, std::move(job), from).execute();
}

}  // namespace gossamer::node
