#include "process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>

namespace gossamer::test {
namespace {

namespace fs = std::filesystem;

constexpr double kLongestRun_s = 120;
// Below the ports that the kernel gives to outgoing connections.
constexpr int kFirstPort = 12000, kLastPort = 32000, kPortStep = 64;

[[noreturn]] void fail(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

/// A socket bound to that port of 127.0.0.1; −1 where it is taken.
int bound_socket(int type, int port) {
  const int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
  if (fd < 0) fail("socket");
  const int on = 1;
  if (type == SOCK_STREAM) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
  close(fd);
  return -1;
}

bool all_free(int first, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const int fd = bound_socket(SOCK_STREAM, first + static_cast<int>(i));
    if (fd < 0) return false;
    close(fd);
  }
  return true;
}

/// In the child, between fork and exec: only calls that are safe there.
[[noreturn]] void become(const std::vector<char*>& argv, const std::vector<char*>& envp, const char* folder,
                         int out, int err) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (const int number : {SIGHUP, SIGINT, SIGTERM})
    ::signal(number, SIG_DFL);  // whatever started the test ignores
  dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  if (chdir(folder) == 0) execve(GOSSAMER_PROGRAM, argv.data(), envp.data());
  _exit(127);
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> all;
  for (auto& w : words) all.push_back(w.data());
  all.push_back(nullptr);
  return all;
}

std::vector<std::string> variables(const Process::Environment& extra) {
  std::vector<std::string> all;
  for (char** v = environ; *v; ++v)
    if (!extra.contains(std::string(*v).substr(0, std::string(*v).find('=')))) all.emplace_back(*v);
  for (const auto& [key, value] : extra) all.push_back(key + "=" + value);
  return all;
}

int output_file(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) fail(path);
  return fd;
}

}  // namespace

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void pause(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

bool wait_until(double seconds, const std::function<bool()>& condition) {
  const auto begin = Clock::now();
  while (!condition()) {
    if (seconds_since(begin) > seconds) return false;
    pause(0.01);
  }
  return true;
}

// --- ports
// --------------------------------------------------------------------------------------------------------

Ports::Ports(std::size_t count) {
  const int range = kLastPort - kFirstPort;
  for (int attempt = 0; attempt < range / kPortStep; ++attempt) {
    const int port = kFirstPort + (getpid() + attempt) * kPortStep % range;
    guard_ = bound_socket(SOCK_DGRAM, port);  // UDP: takes the range from other tests without listening on it
    if (guard_ < 0) continue;
    first_ = static_cast<std::uint16_t>(port);
    if (all_free(port, count)) return;
    close(guard_);
  }
  throw std::runtime_error("no free ports");
}

Ports::~Ports() { close(guard_); }

// --- processes
// ----------------------------------------------------------------------------------------------------

Process::Process(const std::string& folder, const std::string& name, const std::vector<std::string>& words,
                 const Environment& environment)
    : name_(name), out_path_(folder + "/" + name + ".out"), err_path_(folder + "/" + name + ".err") {
  std::vector<std::string> all{"gossamer"}, variable_texts = variables(environment);
  all.insert(all.end(), words.begin(), words.end());
  const auto argv = pointers(all), envp = pointers(variable_texts);
  const int out = output_file(out_path_), err = output_file(err_path_);
  pid_ = fork();
  if (pid_ < 0) fail("fork");
  if (pid_ == 0) become(argv, envp, folder.c_str(), out, err);
  close(out);
  close(err);
}

Process::~Process() {
  if (status()) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void Process::signal(int number) const {
  if (!status_) kill(pid_, number);
}

std::optional<int> Process::wait(double seconds) {
  wait_until(seconds, [&] {
    int status = 0;
    rusage used{};
    if (!status_ && wait4(pid_, &status, WNOHANG, &used) == pid_) {
      status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      most_bytes_ = static_cast<std::size_t>(used.ru_maxrss) << 10;
    }
    return status_.has_value();
  });
  return status_;
}

std::string Process::out() const { return read_text(out_path_); }
std::string Process::err() const { return read_text(err_path_); }

bool Process::says_within(double seconds, const std::string& words) const {
  return wait_until(seconds, [&] { return err().find(words) != std::string::npos; });
}

std::vector<pid_t> Process::children() const {
  std::vector<pid_t> found;
  const std::string pid = std::to_string(pid_);
  std::ifstream in("/proc/" + pid + "/task/" + pid + "/children");
  for (pid_t child; in >> child;) found.push_back(child);
  return found;
}

Ended gossamer(const Folder& folder, const std::vector<std::string>& words,
               const Process::Environment& environment) {
  static int count = 0;
  const auto begin = Clock::now();
  Process process(folder.path(""), "start" + std::to_string(count++), words, environment);
  const auto status = process.wait(kLongestRun_s);
  return {status.value_or(-1), process.out(), process.err(), seconds_since(begin)};
}

// --- jobs
// ---------------------------------------------------------------------------------------------------------

std::string SmallJob::toml() const {
  const auto text = [](const std::string& s) { return "\"" + s + "\"\n"; };
  return "peers = " + std::to_string(peers) + "\nbase_port = " + std::to_string(base_port) +
         "\n[graph]\nkind = " + text(graph) + "[model]\nkind = \"mlp\"\nhidden = [24]\n" +
         "[data]\nrows = 1024\ntest_rows = 256\n[optimizer]\nkind = \"momentum\"\nbatch = "
         "16\n[exchange]\nmethod = " +
         text(method) + "codec = " + text(codec) + "staleness = " + staleness +
         "\n[run]\nrounds = " + std::to_string(rounds) + "\nmin_peers = " + std::to_string(min_peers) +
         "\njoin_timeout = 30\ndrain_timeout = 30\n";
}

Peers::Peers(const Folder& folder, std::string job, std::size_t count, std::vector<std::string> words)
    : folder_(folder), job_(std::move(job)), words_(std::move(words)), processes_(count) {}

void Peers::start(std::size_t index, const std::vector<std::string>& more_words) {
  const std::string name = "peer" + std::to_string(index);
  std::vector<std::string> words{"peer", job_, "--name", name, "--out", "."};
  words.insert(words.end(), words_.begin(), words_.end());
  words.insert(words.end(), more_words.begin(), more_words.end());
  processes_.at(index) = std::make_unique<Process>(folder_.path(""), name, words);
}

void Peers::start_all() {
  for (std::size_t i = 0; i < size(); ++i) start(i);
}

std::string Peers::model(std::size_t index) const {
  return folder_.path("peer" + std::to_string(index) + ".safetensors");
}

bool Peers::train_within(double seconds) const {
  const auto begin = Clock::now();
  for (const auto& p : processes_)
    if (p && !p->says_within(seconds - seconds_since(begin), "peers are here; training")) return false;
  return true;
}

// --- files
// --------------------------------------------------------------------------------------------------------

std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

bool alive(pid_t pid) {
  const std::string text = read_text("/proc/" + std::to_string(pid) + "/stat");
  const auto name_end = text.rfind(')');
  return name_end != std::string::npos && text.substr(name_end + 2, 1) != "Z";
}

std::string tensors(const std::string& path) {
  const std::string text = read_text(path);
  std::uint64_t size = 0;
  if (text.size() < sizeof size) throw std::runtime_error(path + ": no model");
  std::memcpy(&size, text.data(), sizeof size);
  auto header = nlohmann::json::parse(text.substr(sizeof size, size));
  header.erase("__metadata__");
  return header.dump() + text.substr(sizeof size + size);
}

std::string run_folder(const Folder& folder, const std::string& job) {
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(folder.path("runs")))
    if (entry.path().filename().string().starts_with(job + "-")) found.push_back(entry.path().string());
  if (found.size() != 1) throw std::runtime_error(std::to_string(found.size()) + " run folders of " + job);
  return found.front();
}

}  // namespace gossamer::test
