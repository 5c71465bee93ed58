#include "gossamer/optim/ensemble.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <string>

#include "dataset.h"

namespace gossamer::optim {
namespace {

std::size_t largest(std::span<const float> p) {
  return static_cast<std::size_t>(std::max_element(p.begin(), p.end()) -
                                  p.begin());  // the first of equal ones
}

std::size_t common_classes(std::span<const Member> members) {
  assert(!members.empty());
  const std::size_t classes = members.front().model->classes();
  for (const Member& m : members)
    if (m.model->classes() == 0 || m.model->classes() != classes)
      throw OptimError("ensemble: found models of " + std::to_string(classes) + " and " +
                       std::to_string(m.model->classes()) +
                       " classes, expected classifiers of the same classes");
  return classes;
}

/// One block of rows under all members.
class Block {
 public:
  Block(std::span<const Member> members, std::size_t classes) : members_(members), classes_(classes) {}

  void add_to(const Batch& batch, EnsembleEvaluation& total) {
    predict(batch);
    std::vector<std::size_t> predicted(members_.size());
    for (std::size_t r = 0; r < batch.size; ++r) {
      const std::span<const float> mean = row(mean_, r);
      for (std::size_t m = 0; m < members_.size(); ++m) predicted[m] = largest(row(outputs_[m], r));
      const auto label = static_cast<std::size_t>(batch.labels[r]);
      total.voted += vote(predicted, mean) == label;
      total.mean_output.correct += largest(mean) == label;
      total.mean_output.loss_sum -= std::log(std::max(mean[label], std::numeric_limits<float>::min()));
    }
    total.mean_output.rows += batch.size;
  }

 private:
  std::span<const float> row(const std::vector<float>& p, std::size_t r) const {
    return std::span(p).subspan(r * classes_, classes_);
  }

  void predict(const Batch& batch) {
    mean_.assign(batch.size * classes_, 0.0f);
    outputs_.resize(members_.size());
    const float share = 1.0f / static_cast<float>(members_.size());
    for (std::size_t m = 0; m < members_.size(); ++m) {
      outputs_[m].resize(mean_.size());
      members_[m].model->predict(members_[m].x, batch, outputs_[m]);
      for (std::size_t i = 0; i < mean_.size(); ++i) mean_[i] += share * outputs_[m][i];
    }
  }

  std::span<const Member> members_;
  std::size_t classes_;
  std::vector<std::vector<float>> outputs_;  ///< [member][row · classes + class]
  std::vector<float> mean_;
};

}  // namespace

std::size_t vote(std::span<const std::size_t> predicted, std::span<const float> mean) {
  std::vector<std::size_t> votes(mean.size(), 0);
  for (const std::size_t c : predicted) ++votes[c];
  std::size_t best = 0;
  for (std::size_t c = 1; c < mean.size(); ++c)
    if (votes[c] > votes[best] || (votes[c] == votes[best] && mean[c] > mean[best])) best = c;
  return best;
}

EnsembleEvaluation evaluate_ensemble(std::span<const Member> members, const Dataset& data) {
  Block block(members, common_classes(members));
  EnsembleEvaluation total;
  for_each_block(data, [&](const Batch& batch) { block.add_to(batch, total); });
  return total;
}

}  // namespace gossamer::optim
