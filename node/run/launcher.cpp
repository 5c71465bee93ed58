#include "launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <stdexcept>
#include <system_error>

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

/// In the child, between fork and exec: only calls that are safe there.
[[noreturn]] void become(const std::vector<char*>& argv, pid_t parent, int out, int log,
                         const SignalsWait& signals) {
  setpgid(0, 0);  // Ctrl-C on the terminal reaches the parent alone, which then tells the peers
  signals.let_them_end();
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(127);  // it ended before the line above
  dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  execv("/proc/self/exe", argv.data());
  _exit(127);
}

}  // namespace

Launcher::~Launcher() {
  signal_all(SIGKILL);
  for (auto& c : children_) {
    if (!c.status) waitpid(c.pid, nullptr, 0);
    if (c.out_fd >= 0) close(c.out_fd);
  }
}

void Launcher::start(const std::string& name, const std::vector<std::string>& arguments,
                     const std::filesystem::path& log) {
  Child child{name, -1, -1, {}, {}, arguments, log};
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
  std::vector<std::string> words{"gossamer"};
  words.insert(words.end(), child.arguments.begin(), child.arguments.end());
  std::vector<char*> argv;
  for (auto& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  const pid_t parent = getpid();
  const SignalsWait signals;
  const pid_t pid = fork();
  if (pid < 0) fail("fork");
  if (pid == 0) become(argv, parent, pipe_fds[1], log_fd, signals);
  close(pipe_fds[1]);
  close(log_fd);
  fcntl(pipe_fds[0], F_SETFL, O_NONBLOCK);
  child.pid = pid;
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
    if (got > 0) c.partial.append(buffer, static_cast<std::size_t>(got));
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
  for (auto& c : children_)
    if (!c.status) kill(c.pid, signal);
}

bool Launcher::running() const {
  return std::any_of(children_.begin(), children_.end(),
                     [](const Child& c) { return !c.status || c.out_fd >= 0; });
}

}  // namespace gossamer::node
