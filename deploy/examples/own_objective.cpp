// A program that trains a model of its own, in C++: y = a·sin(x) + b·cos(x) + c, of which every peer sees
// other points.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "gossamer/node/peer.h"

using namespace gossamer;

class Wave final : public optim::Objective {
 public:
  explicit Wave(std::size_t peer) : peer_(peer) { add_layer("wave", {{"abc", {3}, 0}}); }
  void initialise(std::uint64_t, std::span<float> x) const override { std::fill(x.begin(), x.end(), 0.0f); }
  optim::StepResult gradient(std::span<float> x, const optim::BatchKey& key, std::span<float> g,
                             const optim::OnLayer& on_layer) override {
    std::fill(g.begin(), g.end(), 0.0f);
    std::mt19937 random(static_cast<unsigned>(1000 * peer_ + key.step));
    double loss = 0;
    for (std::size_t row = 0; row < kRows; ++row) {
      const float at = std::uniform_real_distribution<float>(0, 6.28f)(random);
      const float in[] = {std::sin(at), std::cos(at), 1};
      const float error = (x[0] - 2) * in[0] + (x[1] + 1) * in[1] + (x[2] - 0.5f) * in[2];
      for (std::size_t k = 0; k < 3; ++k) g[k] += error * in[k] / kRows;
      loss += 0.5 * static_cast<double>(error * error) / kRows;
    }
    on_layer(0);
    return {loss, kRows};
  }
  optim::Figures evaluate(std::span<const float> x) override { return {{"distance", distance(x)}}; }
  static double distance(std::span<const float> x) { return std::hypot(x[0] - 2.0, x[1] + 1.0, x[2] - 0.5); }

 private:
  static constexpr std::size_t kRows = 16;
  std::size_t peer_;
};

bool learned(const char* who, const node::PeerResult& result, std::span<const float> x) {
  std::printf("%s: %llu rounds, loss %.2e, off by %.2e%s\n", who,
              static_cast<unsigned long long>(result.rounds), result.train_loss, Wave::distance(x),
              result.message.c_str());
  return result.outcome == node::Outcome::finished && Wave::distance(x) < 1e-2;
}

int main(int argc, char** argv) try {
  if (argc < 3) throw std::invalid_argument("usage: embed JOB threads | simulate | NAME-OF-A-PEER");
  const std::string how = argv[2];
  const node::Learner learner{[](std::size_t peer) { return std::make_unique<Wave>(peer); }, {}};
  bool all = true;
  if (how == "threads") {
    std::vector<std::vector<float>> models;
    const auto results = node::run_local(node::load_job(argv[1]), learner, {}, {}, [&](std::size_t, auto x) {
      models.emplace_back(x.begin(), x.end());
    });
    for (std::size_t p = 0; p < results.size(); ++p) all &= learned("thread", results[p], models[p]);
  } else if (how == "simulate") {
    const auto run = node::simulate(node::load_job(argv[1], {}, 64), learner);
    for (std::size_t p = 0; p < run.peers.size(); ++p)
      all &= learned("simulated", run.peers[p], run.parameters[p]);
  } else {
    node::Peer peer(node::load_job(argv[1]), how, learner);
    const auto result = peer.run();
    all = learned(how.c_str(), result, peer.parameters());
  }
  return all ? EXIT_SUCCESS : EXIT_FAILURE;
} catch (const std::exception& error) {
  std::fprintf(stderr, "embed: %s\n", error.what());
  return 2;
}
