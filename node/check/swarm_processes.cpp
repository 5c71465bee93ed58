// A swarm's processes: each runs every n-th seed and writes a line of JSON per outcome into a pipe, and empty
// ones meanwhile. Where one dies or falls silent, the seed that it was at is known from those that it has
// told, and another takes over behind it.
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>
#include <system_error>

#include "swarm.h"

namespace gossamer::node {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

std::string line_of(const SwarmOutcome& o) {
  json j{{"seed", o.seed}, {"outcome", o.outcome}, {"digest", o.digest}, {"counts", o.counts}};
  if (o.violation) j["violation"] = {o.violation->checker, o.violation->what, o.violation->time};
  return j.dump() + "\n";
}
SwarmOutcome outcome_of(const std::string& line) {
  const json j = json::parse(line);
  SwarmOutcome o{j.at("seed").get<std::uint64_t>(), j.at("outcome").get<std::string>(),
                 j.at("digest").get<std::string>(), std::nullopt, j.at("counts").get<Counts>()};
  if (const auto v = j.find("violation"); v != j.end())
    o.violation = Violation{v->at(0).get<std::string>(), v->at(1).get<std::string>(), v->at(2).get<double>()};
  return o;
}

void write_all(int file, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const auto n = ::write(file, text.data() + done, text.size() - done);
    if (n < 0 && errno != EINTR) std::_Exit(1);  // nobody listens any more
    if (n > 0) done += static_cast<std::size_t>(n);
  }
}

SwarmOutcome outcome_at(const Swarm& swarm, std::uint64_t seed, int file) {
  auto told = Clock::now();
  const auto alive = [&] {
    if (Clock::now() - told < std::chrono::duration<double>(swarm.patience_s / 8)) return;
    told = Clock::now();
    write_all(file, "\n");
  };
  try {
    return run_case(swarm.draw(seed), swarm.planted, nullptr, alive);
  } catch (const std::exception& e) {
    return {seed, "failed", "", Violation{"set-up", e.what(), 0}, {}};
  }
}

constexpr double kBlocked = 10;  ///< times its patience of wall time without an event, when it does not run

/// CPU time that a child has used, s; 0 where it cannot be told.
double cpu_seconds(pid_t process) {
  clockid_t clock;
  timespec t{};
  if (::clock_getcpuclockid(process, &clock) != 0 || ::clock_gettime(clock, &t) != 0) return 0;
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

/// One process and what it has told.
class Process {
 public:
  Process(const Swarm& swarm, std::uint64_t begin) : swarm_(swarm), next_(begin) { start(); }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() {
    if (process_ > 0) ::kill(process_, SIGKILL);
    reap();
  }
  bool done() const { return next_ >= swarm_.first + swarm_.count; }
  int file() const { return file_; }

  /// Reads what has come; outcomes go to the function.
  bool read(const std::function<bool(const SwarmOutcome&)>& on_outcome) {
    char bytes[65536];
    const auto n = ::read(file_, bytes, sizeof bytes);
    if (n < 0) return true;
    if (n == 0) return ended(on_outcome);
    text_.append(bytes, static_cast<std::size_t>(n));
    for (auto end = text_.find('\n'); end != std::string::npos; end = text_.find('\n')) {
      hear();
      const std::string line = text_.substr(0, end);
      text_.erase(0, end + 1);
      if (line.empty()) continue;
      const SwarmOutcome o = outcome_of(line);
      next_ = o.seed + swarm_.processes;
      if (!on_outcome(o)) return false;
    }
    return true;
  }
  /// Kills a process that has been silent for too long: by its own time, since a machine may stand still.
  void watch() {
    if (process_ <= 0) return;
    const double silent_s = std::chrono::duration<double>(Clock::now() - heard_).count();
    if (silent_s < swarm_.patience_s) return;
    if (cpu_seconds(process_) - heard_at_cpu_s_ < swarm_.patience_s &&
        silent_s < kBlocked * swarm_.patience_s)
      return;
    hung_ = true;
    ::kill(process_, SIGKILL);
  }

 private:
  void hear() {
    heard_ = Clock::now();
    heard_at_cpu_s_ = cpu_seconds(process_);
  }
  void start() {
    int ends[2];
    if (::pipe(ends) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
    hung_ = false;
    process_ = ::fork();
    if (process_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
    if (process_ == 0) {
      ::close(ends[0]);
      std::signal(SIGINT, SIG_DFL);
      for (std::uint64_t seed = next_; seed < swarm_.first + swarm_.count; seed += swarm_.processes)
        write_all(ends[1], line_of(outcome_at(swarm_, seed, ends[1])));
      std::_Exit(0);
    }
    hear();
    ::close(ends[1]);
    file_ = ends[0];
  }
  int reap() {
    int status = 0;
    if (process_ > 0) ::waitpid(process_, &status, 0);
    if (file_ >= 0) ::close(file_);
    process_ = 0;
    file_ = -1;
    return status;
  }
  bool ended(const std::function<bool(const SwarmOutcome&)>& on_outcome) {
    const int status = reap();
    text_.clear();
    if (done()) return true;
    const std::string what =
        hung_                 ? fmt::format("no event for {} s", swarm_.patience_s)
        : WIFSIGNALED(status) ? fmt::format("the program ended with signal {} ({}); its message stands above",
                                            WTERMSIG(status), ::strsignal(WTERMSIG(status)))
                              : fmt::format("the program ended with status {}", WEXITSTATUS(status));
    const SwarmOutcome o{next_, "failed", "", Violation{hung_ ? "stall" : "assertion", what, 0}, {}};
    next_ += swarm_.processes;
    if (!done()) start();
    return on_outcome(o);
  }

  const Swarm& swarm_;
  std::uint64_t next_;  ///< the seed it is at
  pid_t process_ = 0;
  int file_ = -1;
  std::string text_;
  Clock::time_point heard_{};
  double heard_at_cpu_s_ = 0;
  bool hung_ = false;
};

}  // namespace

void run_swarm(const Swarm& swarm, const std::function<bool(const SwarmOutcome&)>& on_outcome) {
  std::vector<std::unique_ptr<Process>> processes;
  for (std::size_t k = 0; k < std::min<std::uint64_t>(swarm.processes, swarm.count); ++k)
    processes.push_back(std::make_unique<Process>(swarm, swarm.first + k));
  for (;;) {
    std::vector<pollfd> files;
    std::vector<Process*> at;
    for (const auto& m : processes)
      if (m->file() >= 0) {
        files.push_back({m->file(), POLLIN, 0});
        at.push_back(m.get());
      }
    if (files.empty()) return;
    ::poll(files.data(), files.size(), 500);
    for (std::size_t k = 0; k < at.size(); ++k)
      if (files[k].revents == 0)
        at[k]->watch();
      else if (!at[k]->read(on_outcome))
        return;
  }
}

}  // namespace gossamer::node
