#pragma once
// A Learner is what peers learn where a program brings it along, in place of the job's [model] and [data].
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "gossamer/optim/data.h"
#include "gossamer/optim/objective.h"
#include "gossamer/optim/optimizer.h"

namespace gossamer::node {

struct Learner {
  /// The objective of the peer of that number, in the job's order; all have the same layers. Empty: the
  /// job's. In a simulation objectives of all peers live side by side, and take their gradients in turn.
  std::function<std::unique_ptr<optim::Objective>(std::size_t peer)> objective{};
  /// Its optimiser; empty: the job's. An optimiser of one's own may be optim::make_external_optimizer.
  std::function<std::unique_ptr<optim::Optimizer>(std::size_t peer)> optimizer{};
  /// Given that one, or the job's: what stands in its place; empty: itself.
  std::function<std::unique_ptr<optim::Optimizer>(std::unique_ptr<optim::Optimizer>)> around_optimizer{};
  /// What objectives draw their batches from, by the job's split (Objective::deal): numbers of rows, with
  /// labels where that asks for them; nothing else of the data is read. Null: they see to it themselves.
  std::shared_ptr<const optim::Dataset> rows{};
  /// What load_data gives for the job, where that has been done already; null: the job's is loaded.
  optim::Data data{};
  /// What else of the program all peers must have alike, as a digest of what nobody learns. Empty: nothing.
  std::string alike{}, arrays{}, steps{};  ///< arrays: names and shapes; steps: by which rule all step
};

}  // namespace gossamer::node
