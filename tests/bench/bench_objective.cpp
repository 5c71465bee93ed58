// What a round costs an Objective of so many floats in so many layers, beside its gradient: the measure of
// what a loop of another language pays (bench_torch large).
//
//   bench_objective JOB NAME TENSORS FLOATS-OF-EACH
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "gossamer/node/peer.h"

using namespace gossamer;

namespace {

using Clock = std::chrono::steady_clock;

class Constant final : public optim::Objective {
 public:
  Constant(std::size_t tensors, std::size_t floats, std::vector<double>& between) : between_(between) {
    for (std::size_t t = 0; t < tensors; ++t) {
      const std::string name = "w" + std::to_string(t);
      add_layer(name, {{name, {floats}, 0}});
    }
  }
  void initialise(std::uint64_t, std::span<float> x) const override { std::fill(x.begin(), x.end(), 0.0f); }
  optim::StepResult gradient(std::span<float>, const optim::BatchKey&, std::span<float> g,
                             const optim::OnLayer& on_layer) override {
    if (ended_ != Clock::time_point{})
      between_.push_back(std::chrono::duration<double, std::milli>(Clock::now() - ended_).count());
    for (std::size_t layer = layers().size(); layer-- > 0;) {
      const auto part = g.subspan(layers()[layer].offset, layers()[layer].size);
      std::fill(part.begin(), part.end(), 1e-4f);
    }
    ended_ = Clock::now();
    for (std::size_t layer = layers().size(); layer-- > 0;) on_layer(layer);
    return {1.0, 16};
  }
  optim::Figures evaluate(std::span<const float>) override { return {}; }

 private:
  std::vector<double>& between_;
  Clock::time_point ended_{};
};

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 5) throw std::invalid_argument("usage: bench_objective JOB NAME TENSORS FLOATS-OF-EACH");
  std::vector<double> between;  // of gradients, in ms
  node::Learner learner;
  learner.objective = [&](std::size_t) {
    return std::make_unique<Constant>(std::strtoull(argv[3], nullptr, 10),
                                      std::strtoull(argv[4], nullptr, 10), between);
  };
  node::Peer peer(node::load_job(argv[1]), argv[2], learner);
  const node::PeerResult result = peer.run();
  if (result.outcome != node::Outcome::finished) throw std::runtime_error(result.message);
  std::sort(between.begin(), between.end());
  std::printf("%.3f\n", between[between.size() / 2]);
  return EXIT_SUCCESS;
} catch (const std::exception& error) {
  std::fprintf(stderr, "bench_objective: %s\n", error.what());
  return 2;
}
