// Steps that a program takes with an optimiser of its own.
#include <algorithm>
#include <cassert>
#include <utility>
#include <vector>

#include "gossamer/optim/optimizer.h"

namespace gossamer::optim {
namespace {

class External final : public Optimizer {
 public:
  explicit External(ExternalStep step) : step_(std::move(step)) {}

  void step(double place, std::size_t offset, std::span<const float> x, std::span<const float> g,
            std::span<float> u) override {
    assert(g.size() == x.size() && u.size() == x.size());
    after_.assign(x.begin(), x.end());
    step_(place, offset, x, g, after_);
    std::transform(x.begin(), x.end(), after_.begin(), u.begin(), [](float a, float b) { return a - b; });
  }
  void show(StateVisitor&) override {}

 private:
  ExternalStep step_;
  std::vector<float> after_;
};

}  // namespace

std::unique_ptr<Optimizer> make_external_optimizer(ExternalStep step) {
  return std::make_unique<External>(std::move(step));
}

}  // namespace gossamer::optim
