#include "launcher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "gossamer/node/errors.h"

namespace gossamer::node {
namespace {

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

/// While it lives, signals that end the program wait. A child has this program's handlers until it takes them
/// away, and a signal that they took there would be lost.
class SignalsWait {
 public:
  SignalsWait() {
    sigset_t ends;
    sigemptyset(&ends);
    for (const int signal : kEnds) sigaddset(&ends, signal);
    sigprocmask(SIG_BLOCK, &ends, &before_);
  }
  ~SignalsWait() { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  SignalsWait(const SignalsWait&) = delete;
  SignalsWait& operator=(const SignalsWait&) = delete;

  /// In the child: they end it, as if it had handled none.
  void let_them_end() const {
    for (const int signal : kEnds)
      if (std::signal(signal, SIG_DFL) == SIG_IGN && signal == SIGHUP) std::signal(signal, SIG_IGN);  // nohup
    sigprocmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  static constexpr int kEnds[] = {SIGHUP, SIGINT, SIGTERM};
  sigset_t before_;
};

constexpr int kRecordsFd = 3;

/// In the child, between fork and exec: only calls that are safe there. path: of a program; null: this one.
[[noreturn]] void become(const char* path, const std::vector<char*>& argv,
                         const std::vector<char*>& environment, pid_t parent, int out, int log,
                         const SignalsWait& signals) {
  setpgid(0, 0);  // Ctrl-C on the terminal reaches the parent alone, which then tells the peers
  signals.let_them_end();
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(127);  // it ended before the line above
  dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
  dup2(log, STDERR_FILENO);
  if (path) {
    dup2(log, STDOUT_FILENO);
    if (out == kRecordsFd) fcntl(out, F_SETFD, 0);  // dup2 to itself would leave it to be closed
    dup2(out, kRecordsFd);
    execve(path, argv.data(), environment.data());
  } else {
    dup2(out, STDOUT_FILENO);
    execv("/proc/self/exe", argv.data());
  }
  dprintf(STDERR_FILENO, "%s cannot be started: %s\n", path ? path : argv[0], strerror(errno));
  _exit(127);
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> all;
  for (auto& word : words) all.push_back(word.data());
  all.push_back(nullptr);
  return all;
}

/// Of this process, with other values of those.
std::vector<std::string> environment_with(const std::vector<std::string>& own) {
  std::vector<std::string> all = own;
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text = *entry;
    const auto name = text.substr(0, text.find('=') + 1);
    if (std::none_of(own.begin(), own.end(), [&](const std::string& o) { return o.starts_with(name); }))
      all.emplace_back(text);
  }
  return all;
}

/// By SIGSTOP or a terminal: such a process does nothing until it is told to go on.
bool is_stopped(pid_t pid) {
  std::ifstream in(fmt::format("/proc/{}/stat", pid));
  std::string stat;
  std::getline(in, stat);
  const auto name_ends = stat.rfind(')');  // the name may hold anything
  return name_ends != std::string::npos && stat.size() > name_ends + 2 && stat[name_ends + 2] == 'T';
}

}  // namespace

std::string find_program(const std::string& program) {
  std::vector<std::string> places{program};
  if (program.find('/') == std::string::npos) {
    places.clear();
    const char* const path = std::getenv("PATH");
    std::istringstream folders(path ? path : "/usr/bin:/bin");
    for (std::string folder; std::getline(folders, folder, ':');)
      places.push_back((folder.empty() ? "." : folder) + "/" + program);
  }
  std::string closed;
  std::error_code none;
  for (const std::string& place : places) {
    if (!std::filesystem::is_regular_file(place, none)) continue;
    if (access(place.c_str(), X_OK) == 0) return place;
    if (closed.empty()) closed = place;
  }
  if (!closed.empty())
    throw ConfigError(
        fmt::format("program '{}' is there but may not be executed; expected one that may "
                    "(chmod +x), or what runs it before it, such as python3, after --",
                    closed));
  throw ConfigError(fmt::format("program '{}' was not found{}; expected one that can be run, after --",
                                program, places.size() == 1 ? "" : " in PATH"));
}

Launcher::~Launcher() {
  signal_all(SIGKILL);
  for (auto& c : children_) {
    if (!c.status) waitpid(c.pid, nullptr, 0);
    if (c.out_fd >= 0) close(c.out_fd);
  }
}

void Launcher::start(const std::string& name, const std::vector<std::string>& arguments,
                     const std::filesystem::path& log) {
  Child child{.name = name, .arguments = {"gossamer"}, .log = log};
  child.arguments.insert(child.arguments.end(), arguments.begin(), arguments.end());
  spawn(child, O_TRUNC);
  children_.push_back(std::move(child));
}

void Launcher::start_program(const std::string& name, const std::vector<std::string>& words,
                             const std::vector<std::string>& environment, const std::filesystem::path& log) {
  Child child{.name = name,
              .arguments = words,
              .environment = environment,
              .path = find_program(words.at(0)),
              .log = log};
  child.environment.push_back(fmt::format("GOSSAMER_RECORDS={}", kRecordsFd));
  spawn(child, O_TRUNC);
  children_.push_back(std::move(child));
}

void Launcher::start_again(std::size_t child) {
  Child& c = children_[child];
  if (c.out_fd >= 0) close(c.out_fd);
  c.partial.clear();
  spawn(c, O_APPEND);
  c.status.reset();
}

void Launcher::spawn(Child& child, int log_flags) {
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) fail("pipe");
  const int log_fd = open(child.log.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | log_flags, 0644);
  if (log_fd < 0) fail(child.log.c_str());
  std::vector<std::string> words = child.arguments, variables = environment_with(child.environment);
  const std::vector<char*> argv = pointers(words), environment = pointers(variables);
  const char* const path = child.path.empty() ? nullptr : child.path.c_str();
  const pid_t parent = getpid();
  const SignalsWait signals;
  const pid_t pid = fork();
  if (pid < 0) fail("fork");
  if (pid == 0) become(path, argv, environment, parent, pipe_fds[1], log_fd, signals);
  close(pipe_fds[1]);
  close(log_fd);
  fcntl(pipe_fds[0], F_SETFL, O_NONBLOCK);
  child.pid = pid;
  child.heard = std::chrono::steady_clock::now();
  child.out_fd = pipe_fds[0];
}

void Launcher::poll(double seconds, const std::function<void(std::size_t, const std::string&)>& on_line) {
  std::vector<pollfd> fds;
  std::vector<std::size_t> owner;
  for (std::size_t i = 0; i < children_.size(); ++i)
    if (children_[i].out_fd >= 0) {
      fds.push_back({children_[i].out_fd, POLLIN, 0});
      owner.push_back(i);
    }
  ::poll(fds.data(), fds.size(), static_cast<int>(seconds * 1000));
  for (std::size_t k = 0; k < fds.size(); ++k) {
    if (fds[k].revents == 0) continue;
    Child& c = children_[owner[k]];
    char buffer[65536];
    const ssize_t got = read(c.out_fd, buffer, sizeof buffer);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
      close(c.out_fd);
      c.out_fd = -1;
    }
    if (got > 0) {
      c.partial.append(buffer, static_cast<std::size_t>(got));
      c.heard = std::chrono::steady_clock::now();
    }
    for (auto end = c.partial.find('\n'); end != std::string::npos; end = c.partial.find('\n')) {
      on_line(owner[k], c.partial.substr(0, end));
      c.partial.erase(0, end + 1);
    }
  }
  reap();
}

void Launcher::reap() {
  for (auto& c : children_) {
    int status = 0;
    if (c.status || waitpid(c.pid, &status, WNOHANG) != c.pid) continue;
    c.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
}

void Launcher::signal_all(int signal) {
  for (auto& c : children_) {
    // a program may be a script that waits for another one, or has left one behind
    const bool leaves_others = !c.path.empty() && c.out_fd >= 0 && signal == SIGKILL;
    if (c.status && !leaves_others) continue;
    if ((c.path.empty() || kill(-c.pid, signal) != 0) && !c.status) kill(c.pid, signal);
  }
}

std::vector<std::string> Launcher::end_stopped(double seconds) {
  std::vector<std::string> ended;
  for (const Child& c : children_) {
    const std::chrono::duration<double> silent = std::chrono::steady_clock::now() - c.heard;
    if (c.status || silent.count() < seconds || !is_stopped(c.pid)) continue;
    kill(c.pid, SIGKILL);
    ended.push_back(c.name);
  }
  return ended;
}

bool Launcher::running() const {
  return std::any_of(children_.begin(), children_.end(),
                     [](const Child& c) { return !c.status || c.out_fd >= 0; });
}

}  // namespace gossamer::node
