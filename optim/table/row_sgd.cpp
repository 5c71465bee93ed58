// w ← w − η·g.
#include "row_optimizer.h"

namespace gossamer::optim {
namespace {

class RowSgd final : public WeightsInFront {
 public:
  explicit RowSgd(const TableSpec& spec) : WeightsInFront(1), rate_(static_cast<float>(spec.learning_rate)) {}
  void step(float* row, std::span<const float> g, std::uint32_t, bool careful) const override {
    if (careful) return step_carefully(row, g);
    for (std::size_t i = 0; i < g.size(); ++i) row[i] -= rate_ * g[i];
  }

 private:
  void step_carefully(float* row, std::span<const float> g) const {
    for (std::size_t i = 0; i < g.size(); ++i)
      if (const float w = row[i] - rate_ * g[i]; is_finite(w)) row[i] = w;
  }
  const float rate_;
};

}  // namespace

std::unique_ptr<RowOptimizer> make_row_sgd(const TableSpec& spec) { return std::make_unique<RowSgd>(spec); }

}  // namespace gossamer::optim
