#pragma once
// The program as its user starts it: child processes with their output in files, in a folder of the test's
// own.
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config_files.h"

namespace gossamer::test {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point begin);
void pause(double seconds);
/// Asks every few milliseconds; false where it was never true.
bool wait_until(double seconds, const std::function<bool()>& condition);

/// Consecutive TCP ports of 127.0.0.1 that nothing listens on. Other tests that run now get others, as long
/// as this object lives.
class Ports {
 public:
  explicit Ports(std::size_t count);
  ~Ports();
  Ports(const Ports&) = delete;
  Ports& operator=(const Ports&) = delete;
  std::uint16_t first() const { return first_; }

 private:
  int guard_ = -1;
  std::uint16_t first_ = 0;
};

/// A small job on synthetic data, all in one file; what a test wants otherwise it adds by --set.
struct SmallJob {
  std::size_t peers = 4;
  std::uint16_t base_port = 0;
  std::string graph = "ring", method = "choco", codec = "onebit_scaled",
              staleness = "0";  ///< staleness as TOML
  std::uint64_t rounds = 60;
  std::uint64_t min_peers = 1;
  std::string toml() const;
};
constexpr std::uint64_t kForever = 1'000'000'000;  ///< rounds that no test waits for

/// One start of `gossamer` with these words. Killed when the object goes or the test program ends.
class Process {
 public:
  using Environment = std::map<std::string, std::string>;
  /// Runs in `folder`; its output goes to files there that are named after `name`.
  Process(const std::string& folder, const std::string& name, const std::vector<std::string>& words,
          const Environment& environment = {});
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  const std::string& name() const { return name_; }
  void signal(int number) const;  ///< to this process alone, while it has not been waited for
  /// Exit status, or 128 + signal; empty where it still runs after that time.
  std::optional<int> wait(double seconds);
  std::optional<int> status() { return wait(0); }
  std::size_t most_bytes() const { return most_bytes_; }  ///< of memory that it had at once; after its end
  std::string out() const, err() const;                   ///< what it has printed so far
  bool says_within(double seconds, const std::string& words) const;  ///< on standard error
  /// Process ids of its children that still run.
  std::vector<pid_t> children() const;

 private:
  std::string name_, out_path_, err_path_;
  pid_t pid_ = -1;
  std::optional<int> status_;
  std::size_t most_bytes_ = 0;
};

/// A process that ends by itself: started, waited for (120 s), checked by the caller.
struct Ended {
  int status;
  std::string out, err;
  double seconds;
};
Ended gossamer(const Folder& folder, const std::vector<std::string>& words,
               const Process::Environment& environment = {});

/// All peers of a job, each started by hand with `gossamer peer JOB --name peerN --out .` in the folder.
class Peers {
 public:
  Peers(const Folder& folder, std::string job, std::size_t count, std::vector<std::string> words = {});
  void start(std::size_t index, const std::vector<std::string>& more_words = {});
  void start_all();
  Process& operator[](std::size_t index) { return *processes_.at(index); }
  std::size_t size() const { return processes_.size(); }
  std::string model(std::size_t index) const;  ///< path of what that peer learned
  /// Every peer that was started has said that the training has begun.
  bool train_within(double seconds) const;

 private:
  const Folder& folder_;
  std::string job_;
  std::vector<std::string> words_;
  std::vector<std::unique_ptr<Process>> processes_;
};

std::string read_text(const std::string& path);
bool alive(pid_t pid);  ///< neither gone nor a zombie

/// The tensors of a safetensors file, byte by byte, and their table; without the metadata.
std::string tensors(const std::string& path);
/// The only folder below runs/ whose name begins with that of the job.
std::string run_folder(const Folder& folder, const std::string& job);

}  // namespace gossamer::test
