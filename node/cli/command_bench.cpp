// gossamer bench allreduce: what a reduce of gradients costs between local peers, without any other work.
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "codec_speed.h"
#include "commands.h"
#include "flags.h"
#include "gossamer/compress/codec.h"
#include "gossamer/node/peer.h"
#include "method.h"
#include "plan.h"
#include "text.h"

namespace gossamer::node {
namespace {

constexpr std::size_t kWarmUp = 10;  ///< rounds that are not counted
constexpr float kRate = 0.01f;
/// After so many steps gradients turn round, so that parameters stay near to where they begin.
constexpr std::uint64_t kTurnsAfter = 64;
float turned(std::uint64_t step, float value) { return step / kTurnsAfter % 2 == 0 ? value : -value; }

struct ReduceBench {
  std::string size = "25MB", codec = compress::kDense;
  std::size_t peers = 4, rounds = 20;
  std::vector<std::string> addresses;  ///< of peers of several machines; empty: all are of this one
  std::size_t peer = 0;                ///< that this process is, of those
  std::vector<std::string> overrides;
  bool step = false;  ///< by the optimiser behind each reduce, as in a run
  bool json = false;
};

double cpu_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

/// What the first peer saw.
struct Measured {
  std::vector<double> seconds;  ///< from a gradient to the next
  double cpu_begin = 0, cpu_end = 0;
};

/// One layer, whose gradient is the same every time; where it stands from the step before it takes no time.
class Repeated final : public optim::Objective {
 public:
  /// Of `entries`, begun at a place of the peer's own, times a number of its own; without any of that number
  /// alone.
  Repeated(std::size_t floats, std::size_t peer, std::size_t peers,
           std::shared_ptr<const AlignedFloats> entries, Measured* measured, std::stop_source& stop)
      : value_(static_cast<float>(peer + 1)),
        begin_(floats / peers * peer),
        entries_(std::move(entries)),
        measured_(measured),
        stop_(stop) {
    add_layer("x", {{"x", {floats}, 0}});
  }
  void initialise(std::uint64_t, std::span<float> x) const override { std::fill(x.begin(), x.end(), 1.0f); }
  optim::StepResult gradient(std::span<float>, const optim::BatchKey& key, std::span<float> g,
                             const optim::OnLayer& on_layer) override {
    if (interrupted()) stop_.request_stop();
    if (measured_) look(key.step);
    const auto& layer = layers().front();
    write(g.subspan(layer.offset, layer.size), turned(key.step, value_));
    ended_ = Clock::now();
    on_layer(0);
    return {1.0, 1};
  }
  optim::Figures evaluate(std::span<const float>) override { return {}; }

 private:
  using Clock = std::chrono::steady_clock;

  void write(std::span<float> g, float value) const {
    if (entries_) {
      const auto times = [value](float entry) { return value * entry; };
      const auto begin = entries_->begin() + static_cast<std::ptrdiff_t>(begin_);
      std::transform(entries_->begin(), begin, std::transform(begin, entries_->end(), g.begin(), times),
                     times);
    } else if (g.front() != value || g.back() != value) {
      std::fill(g.begin(), g.end(), value);
    }
  }
  void look(std::uint64_t step) {
    if (step > kWarmUp)
      measured_->seconds.push_back(std::chrono::duration<double>(Clock::now() - ended_).count());
    (step <= kWarmUp ? measured_->cpu_begin : measured_->cpu_end) = cpu_seconds();
  }

  const float value_;
  const std::size_t begin_;
  const std::shared_ptr<const AlignedFloats> entries_;
  Measured* measured_;
  std::stop_source& stop_;
  Clock::time_point ended_{};
};

/// Takes what was reduced as it stands, and steps by it only in the last round, for a check.
class LastStep final : public optim::Optimizer {
 public:
  explicit LastStep(std::uint64_t rounds) : last_(static_cast<double>(rounds - 1)) {}
  void step(double place, std::size_t, std::span<const float>, std::span<const float> g,
            std::span<float> u) override {
    for (std::size_t i = 0; i < u.size(); ++i) u[i] = place < last_ ? 0 : kRate * g[i];
  }
  void apply(double place, std::size_t, std::span<float> x, std::span<float> g) override {
    take(place, x, g);
  }
  Blocks apply_in_blocks(double place, std::size_t, std::span<float> x) override {
    return [this, place, x](std::size_t first, std::span<const float> g) {
      take(place, x.subspan(first, g.size()), g);
    };
  }
  bool is_idle_without_gradient() const override { return true; }
  void show(optim::StateVisitor&) override {}

 private:
  void take(double place, std::span<float> x, std::span<const float> g) const {
    if (place < last_) return;
    for (std::size_t i = 0; i < x.size(); ++i) x[i] -= kRate * g[i];
  }

  double last_;
};

/// Ports of this machine that nothing listens on.
std::vector<std::uint16_t> free_ports(std::size_t count) {
  std::vector<std::uint16_t> ports;
  std::vector<int> sockets;
  for (std::size_t p = 0; p < count; ++p) {
    const int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    sockets.push_back(s);
    if (s < 0 || bind(s, reinterpret_cast<const sockaddr*>(&at), size) != 0 ||
        getsockname(s, reinterpret_cast<sockaddr*>(&at), &size) != 0)
      break;
    ports.push_back(ntohs(at.sin_port));
  }
  for (const int s : sockets)
    if (s >= 0) close(s);
  if (ports.size() < count) throw std::runtime_error("found no free ports of 127.0.0.1");
  return ports;
}

std::string name_of_peer(std::size_t peer) { return fmt::format("peer{}", peer); }

Job job_of(const ReduceBench& options) {
  std::string text = fmt::format(
      "[graph]\nkind = \"full\"\n[optimizer]\nkind = \"sgd\"\nlearning_rate = {}\nbatch = "
      "1\n[exchange]\nmethod = \"{}\"\ncodec = \"{}\"\n[run]\nrounds = {}\nevaluate_every = "
      "0\ncheckpoint_every = 0\ninsecure = true\n",
      kRate, kAllreduceMethod.row.name, options.codec, options.rounds + kWarmUp + 1);
  std::vector<std::string> addresses = options.addresses;
  if (addresses.empty())
    for (const std::uint16_t port : free_ports(options.peers))
      addresses.push_back(fmt::format("tcp://127.0.0.1:{}", port));
  for (std::size_t p = 0; const std::string& address : addresses)
    text += fmt::format("[[peer]]\nname = \"{}\"\naddress = \"{}\"\n", name_of_peer(p++), address);
  const auto file =
      std::filesystem::temp_directory_path() / fmt::format("gossamer-bench-{}.toml", ::getpid());
  struct Removed {
    const std::filesystem::path& path;
    ~Removed() { std::filesystem::remove(path); }
  } const removed{file};
  std::ofstream(file) << text;
  return load_job(file.string(), options.overrides);
}

bool is_exact(const Job& job) { return compress::make_codec(job.exchange.codec)->traits().exact; }

/// All peers must end at the same parameters; with an exact codec where the mean of all gradients leads that
/// were stepped by.
void check_sums(const std::vector<std::vector<float>>& models, const Job& job, const ReduceBench& options,
                std::uint64_t rounds) {
  for (const auto& x : models)
    if (x != models.front()) throw std::runtime_error("the peers did not end with the same sums");
  if (!is_exact(job)) return;
  const double mean = static_cast<double>(options.peers + 1) / 2;
  double steps = 0;
  for (std::uint64_t step = options.step ? 0 : rounds - 1; step < rounds; ++step) steps += turned(step, 1);
  const double expected = 1 - double{kRate} * mean * steps;
  for (const float x : models.front())
    if (std::abs(static_cast<double>(x) - expected) > 1e-4)
      throw std::runtime_error(fmt::format("a sum is wrong: found {}, expected {}", x, expected));
}

std::size_t floats_of(const std::string& size) {
  if (const auto count = parse_count(size)) return *count;
  const auto bytes = parse_bytes(size);
  if (!bytes || *bytes < sizeof(float))
    throw ConfigError(
        fmt::format("--size {}: expected how many floats, such as 25M, or their bytes, such as 100MB", size));
  return *bytes / sizeof(float);
}

/// What the peers of this process ended with.
struct Reduced {
  std::vector<PeerResult> results;
  std::vector<std::vector<float>> models;
};

Reduced reduce_here(const ReduceBench& options, const Job& job, std::size_t floats, Measured& measured) {
  std::stop_source stop;
  Learner learner;
  // What a code takes, in bytes and in time, depends on the entries; what exact ones take does not.
  std::shared_ptr<const AlignedFloats> entries;
  if (!is_exact(job)) entries = std::make_shared<const AlignedFloats>(laplacian(floats));
  const std::size_t first = options.addresses.empty() ? 0 : options.peer;
  learner.objective = [&](std::size_t peer) {
    return std::make_unique<Repeated>(floats, peer, options.peers, entries,
                                      peer == first ? &measured : nullptr, stop);
  };
  if (!options.step)
    learner.optimizer = [&](std::size_t) { return std::make_unique<LastStep>(job.run.rounds); };
  Reduced reduced;
  const auto keep = [&](std::size_t, std::span<const float> x) {
    reduced.models.emplace_back(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(floats));
  };
  if (options.addresses.empty()) {
    reduced.results = run_local(job, learner, {}, stop.get_token(), keep);
  } else {
    Peer peer(job, name_of_peer(options.peer), learner);
    reduced.results.push_back(peer.run(stop.get_token()));
    keep(options.peer, peer.parameters());
  }
  return reduced;
}

void check_reduce(ReduceBench& options) {
  if (!options.addresses.empty()) {
    options.peers = options.addresses.size();
    if (options.peer >= options.peers)
      throw ConfigError(fmt::format("--peer {}: expected a number below {}, of one of --addresses",
                                    options.peer, options.peers));
  }
  if (options.peers < 2)
    throw ConfigError(fmt::format("{}: a reduce needs two peers at least",
                                  options.addresses.empty() ? "--peers" : "--addresses"));
}

int bench_reduce(ReduceBench options) {
  keep_memory();
  interrupted();
  check_reduce(options);
  const std::size_t floats = floats_of(options.size);
  const Job job = job_of(options);
  if (find_method(job.exchange.method).own_steps != OwnSteps::mean)
    throw ConfigError(
        fmt::format("exchange.method is {}, which is no reduce of gradients; expected one that gives all "
                    "peers the mean of their "
                    "gradients, such as {}",
                    in_quotes(job.exchange.method), kAllreduceMethod.row.name));
  const Plan plan = make_plan(job, 0);
  Measured measured;
  const auto [results, models] = reduce_here(options, job, floats, measured);
  if (interrupted()) return kExitInterrupted;
  for (const PeerResult& result : results)
    if (result.outcome != Outcome::finished) throw std::runtime_error(result.message);
  check_sums(models, job, options, results.front().rounds);

  std::sort(measured.seconds.begin(), measured.seconds.end());
  const auto& seconds = measured.seconds;
  const double middle = seconds.at(seconds.size() / 2), size = static_cast<double>(floats * sizeof(float));
  const auto peers = static_cast<double>(options.peers);
  const double bus = size * 2 * (peers - 1) / peers / middle;
  const double cpu = (measured.cpu_end - measured.cpu_begin) / static_cast<double>(seconds.size());
  const bool dense = plan.codec.exact;
  const bool other = job.exchange.method != kAllreduceMethod.row.name;
  const std::string algorithm = other                                         ? job.exchange.method
                                : !dense                                      ? "slices to their owners"
                                : plan.allreduce.use_halving_doubling(floats) ? "halving_doubling"
                                                                              : "ring";
  const double sent =
      static_cast<double>(results.front().bytes_out) / static_cast<double>(results.front().rounds);
  if (options.json) {
    const nlohmann::json told{{"bytes", floats * sizeof(float)},
                              {"peers", options.peers},
                              {"codec", job.exchange.codec},
                              {"algorithm", algorithm},
                              {"step", options.step},
                              {"rounds", seconds.size()},
                              {"seconds", middle},
                              {"seconds_least", seconds.front()},
                              {"seconds_most", seconds.back()},
                              {"bus_bytes_per_second", bus},
                              {"cpu_seconds", cpu},
                              {"bytes_sent_per_peer", sent}};
    fmt::print("{}\n", told.dump());
    return kExitOk;
  }
  fmt::print(
      "{} in {} peers{}, codec {}, {}{}: {:.2f} ms (median of {}; {:.2f} to {:.2f})\n"
      "bus bandwidth {}/s (2 (P - 1) / P times the size, as of a dense ring); each peer sends {}\n"
      "CPU time of the {} here {:.2f} ms, {:.2f} ms per MiB of each one's floats\n",
      bytes_text(size), options.peers, options.addresses.empty() ? " of this machine" : "",
      job.exchange.codec, algorithm, options.step ? " and SGD's step" : "", 1e3 * middle, seconds.size(),
      1e3 * seconds.front(), 1e3 * seconds.back(), bytes_text(bus), bytes_text(sent),
      models.size() == 1 ? "one" : fmt::format("{}", models.size()), 1e3 * cpu,
      1e3 * cpu / (static_cast<double>(models.size()) * size / (1 << 20)));
  return kExitOk;
}

}  // namespace

void add_bench_command(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("bench", "Measure parts of the exchange on this machine");
  command->require_subcommand(1);
  auto* reduce = command->add_subcommand(
      std::string(kAllreduceMethod.row.name),
      "Seconds, bus bandwidth and CPU time of a full reduce between peers, of this machine or of several");
  auto options = std::make_shared<ReduceBench>();
  reduce->add_option("--size", options->size, "floats that are reduced (25M), or their bytes (100MB)")
      ->capture_default_str();
  reduce->add_option("--peers", options->peers, "how many")->capture_default_str();
  reduce
      ->add_option("--addresses", options->addresses,
                   "tcp://host:port of each, with commas; the same command runs at each, with its --peer")
      ->delimiter(',')
      ->excludes("--peers");
  reduce->add_option("--peer", options->peer, "which of --addresses this process is, from 0 on")
      ->needs("--addresses");
  reduce->add_option("--codec", options->codec, "as exchange.codec (gossamer codec list)")
      ->capture_default_str();
  reduce->add_option("--rounds", options->rounds, "reduces that are measured")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  reduce->add_option("--set", options->overrides, "KEY=VALUE of the job, such as exchange.algorithm=ring");
  reduce->add_flag("--step", options->step, "measured with the optimiser's step behind it, as in a run");
  reduce->add_flag("--json", options->json, "one object on standard output");
  reduce->callback([options, &status] { status = bench_reduce(*options); });
}

}  // namespace gossamer::node
