#pragma once
// Small jobs, whole runs of them in virtual time, and the same training written plainly to compare with.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config_files.h"
#include "gossamer/optim/data.h"
#include "method.h"
#include "plan.h"
#include "setup.h"
#include "simulation.h"

namespace gossamer::node::test {

using Settings = std::vector<std::string>;

inline Settings operator+(Settings a, const Settings& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// A classifier of 3 blobs in 10 dimensions, learned in a ring; says not by whom.
constexpr const char* kSmallJob = R"(
[graph]
kind = "ring"
[model]
kind = "mlp"
hidden = [8]
[data]
format = "synthetic"
rows = 512
test_rows = 32
features = 10
classes = 3
[optimizer]
learning_rate = 0.2
batch = 8
[exchange]
method = "choco"
codec = "onebit_scaled"
dense_below = 0
[run]
rounds = 20
evaluate_every = 0
)";

/// Four peers learn it, by softmax. settings overrule that, as --set does.
inline Job small_job(const Settings& settings) {
  const gossamer::test::Folder folder;
  const std::string path = folder.write("job.toml", std::string("peers = 4") + kSmallJob);
  Job job = load_job(path, Settings{"model.kind=softmax"} + settings);
  if (!reads(find_method(job.exchange.method), "dense_below"))
    job.exchange.dense_below = ExchangeSettings{}.dense_below;
  return job;
}

/// The words of the ConfigError with which work ends; empty where it does not.
template <class Work>
std::string refusal_of(const Work& work) {
  try {
    work();
  } catch (const ConfigError& e) {
    return e.what();
  }
  return {};
}
/// What is said of small_job with these settings.
inline std::string refusal(const Settings& settings) {
  return refusal_of([&] { make_plan(small_job(settings), 0); });
}

/// Four peers with the method, on the first graph and codec that the program accepts with it; nothing where
/// it accepts none of those tried.
inline std::optional<Job> sound_job(std::string_view method, std::string_view staleness,
                                    const Settings& settings) {
  for (const char* graph : {"full", "ring", "star"})
    for (const char* codec : {"onebit", "topk:density=0.2", "dense"}) try {
        Job job = small_job(
            Settings{"exchange.method=" + std::string(method), "exchange.staleness=" + std::string(staleness),
                     "graph.kind=" + std::string(graph), "exchange.codec=" + std::string(codec)} +
            settings);
        prepare(job);
        return job;
      } catch (const ConfigError&) {
      }
  return std::nullopt;
}

inline Job with_throughput(Job job, const std::vector<std::size_t>& samples_per_second) {
  for (std::size_t i = 0; i < samples_per_second.size(); ++i)
    job.peers.at(i).throughput = static_cast<double>(samples_per_second[i]);
  return job;
}
inline Job with_batches(Job job, const std::vector<std::size_t>& batches) {
  for (std::size_t i = 0; i < batches.size(); ++i) job.peers.at(i).batch = batches[i];
  return job;
}

/// A finished run. One that goes on for far more events than any test needs is interrupted.
struct Run {
  explicit Run(Job job, SimFaults faults = {}) : Run(prepare(std::move(job)), std::move(faults)) {}
  explicit Run(Prepared p, SimFaults faults = {}, Observer* observer = nullptr)
      : prepared(std::move(p)), simulation(prepared, std::move(faults), observer) {}
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  Run& go() {
    std::size_t asked = 0;
    result = simulation.run([&] { return ++asked > kMostQuestions; });
    return *this;
  }
  bool all(Outcome outcome) const {
    return std::all_of(result.peers.begin(), result.peers.end(),
                       [&](const auto& p) { return p.outcome == outcome; });
  }
  std::vector<float> parameters(PeerId peer) const {
    const auto x = simulation.parameters(peer);
    return {x.begin(), x.end()};
  }
  bool peers_identical() const {
    for (PeerId p = 1; p < result.peers.size(); ++p)
      if (!same_bits(simulation.parameters(p), simulation.parameters(0))) return false;
    return true;
  }
  static bool same_bits(std::span<const float> a, std::span<const float> b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
  }

  static constexpr std::size_t kMostQuestions = 100'000;  // one every 64 events
  Prepared prepared;
  Simulation simulation;
  SimResult result;
};

inline std::uint64_t digest_of(Job job, SimFaults faults = {}) {
  Run run(std::move(job), std::move(faults));
  run.go();
  if (!run.all(Outcome::finished))
    throw std::runtime_error("a peer did not finish: " + run.result.peers[0].message);
  return run.result.digest;
}

inline double largest_difference(std::span<const float> a, std::span<const float> b) {
  double most = a.size() == b.size() ? 0 : INFINITY;
  for (std::size_t i = 0; i < a.size(); ++i)
    most = std::max(most, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  return most;
}
/// ‖a − b‖ / ‖b‖
inline double relative_difference(std::span<const float> a, std::span<const float> b) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    difference += d * d;
    norm += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  return std::sqrt(difference / norm);
}

/// All peers' x and optimisers, without workers, replicas or messages.
class PlainPeers {
 public:
  explicit PlainPeers(const Prepared& prepared) : prepared_(prepared), objective_(make_model(prepared)) {
    const Job& job = prepared.job;
    optim::SplitSpec split{job.split, job.run.seed, {}};
    for (const auto& p : job.peers) split.batches.push_back(p.batch);
    for (std::size_t i = 0; i < job.peers.size(); ++i) {
      x.push_back(prepared.initial);
      samplers_.push_back(optim::make_sampler(split, prepared.data.train, i));
      optimizers_.push_back(optim::make_optimizer(job.optimizer, prepared.initial.size()));
    }
  }

  std::size_t peers() const { return x.size(); }
  std::size_t size() const { return prepared_.initial.size(); }

  std::vector<std::uint32_t> rows_of(std::size_t peer, Round t) {
    std::vector<std::uint32_t> rows(prepared_.job.peers[peer].batch);
    samplers_[peer]->rows_of(t, rows);
    return rows;
  }
  AlignedFloats gradient(AlignedFloats& at, const std::vector<std::uint32_t>& rows) {
    const auto& data = *prepared_.data.train;
    AlignedFloats values(rows.size() * data.features()), g(size());
    data.gather(rows, values);
    std::vector<std::int32_t> labels;
    for (const auto r : rows) labels.push_back(data.label(r));
    objective_->gradient(at, {rows.size(), data.features(), values, labels}, g, [](std::size_t) {});
    return g;
  }
  AlignedFloats step(std::size_t peer, Round t, const AlignedFloats& g) {
    AlignedFloats u(size());
    for (const auto& l : prepared_.layers)
      optimizers_[peer]->step(static_cast<double>(t), l.offset, std::span(x[peer]).subspan(l.offset, l.size),
                              std::span(g).subspan(l.offset, l.size), std::span(u).subspan(l.offset, l.size));
    return u;
  }
  /// u of every peer for round t, each from its own batch at its own x.
  std::vector<AlignedFloats> steps(Round t) {
    std::vector<AlignedFloats> u;
    for (std::size_t i = 0; i < peers(); ++i) u.push_back(step(i, t, gradient(x[i], rows_of(i, t))));
    return u;
  }

  std::vector<AlignedFloats> x;

 private:
  const Prepared& prepared_;
  std::unique_ptr<optim::Model> objective_;
  std::vector<std::unique_ptr<optim::Sampler>> samplers_;
  std::vector<std::unique_ptr<optim::Optimizer>> optimizers_;
};

}  // namespace gossamer::node::test
