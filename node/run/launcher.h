#pragma once
// Launcher runs peers, or programs that are peers, as child processes of `gossamer run`.
#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace gossamer::node {

/// Child processes whose standard output is read line by line; standard error goes to a file each. A child is
/// ended (SIGTERM) when this process ends, however it ends. One thread.
class Launcher {
 public:
  struct Child {
    std::string name{};
    pid_t pid = -1;
    int out_fd = -1;                         ///< −1 once at its end
    std::string partial{};                   ///< an unfinished line
    std::optional<int> status{};             ///< exit status, 128 + signal where killed; empty while it runs
    std::vector<std::string> arguments{};    ///< of this program; or a program, and its arguments
    std::vector<std::string> environment{};  ///< "NAME=value", of a program beside what this one has
    std::string path{};                      ///< of a program
    std::filesystem::path log{};
    std::chrono::steady_clock::time_point heard{};  ///< when it wrote last, or was started
  };

  Launcher() = default;
  ~Launcher();  ///< ends what still runs
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  /// Starts this program with the arguments.
  void start(const std::string& name, const std::vector<std::string>& arguments,
             const std::filesystem::path& log);
  /// Starts another program with a few variables of its environment; what it prints goes to the log, and the
  /// lines are what it writes to the descriptor that GOSSAMER_RECORDS names. Throws ConfigError where there
  /// is none of that name.
  void start_program(const std::string& name, const std::vector<std::string>& words,
                     const std::vector<std::string>& environment, const std::filesystem::path& log);
  /// Once more, of a child that has ended; its log goes on.
  void start_again(std::size_t child);
  /// Waits up to `seconds` for output or an end, hands every whole line to on_line(child index, line).
  void poll(double seconds, const std::function<void(std::size_t, const std::string&)>& on_line);
  /// SIGTERM (or another signal) to every child that still runs.
  void signal_all(int signal);
  /// SIGKILL to those that are stopped and have written nothing for so long; their names.
  std::vector<std::string> end_stopped(double seconds);
  bool running() const;
  const std::vector<Child>& children() const { return children_; }

 private:
  void spawn(Child& child, int log_flags);
  void reap();
  std::vector<Child> children_;
};

/// Where a program is that a shell would find by that name; throws ConfigError where there is none.
std::string find_program(const std::string& program);

}  // namespace gossamer::node
