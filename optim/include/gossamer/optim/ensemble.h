#pragma once
// Several models that predict together. Averaging the parameters of models that are not convex need not beat
// any of them; averaging their outputs does (Sun, Chen, Bian, Liu: Ensemble-compression, a new method for
// parallel training of deep neural networks, ECML-PKDD 2017, section 3).
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "gossamer/optim/data.h"
#include "gossamer/optim/model.h"

namespace gossamer::optim {

/// A model: what computes it, and its parameters. Members may have different hidden sizes, but the same
/// classes.
struct Member {
  Model* model;
  std::span<const float> x;  ///< model->buffer_size() floats
};

struct EnsembleEvaluation {
  Evaluation mean_output;  ///< of the mean of the members' probabilities
  std::size_t voted = 0;   ///< rows whose class the members vote for
  double vote_accuracy() const {
    return mean_output.rows ? static_cast<double>(voted) / static_cast<double>(mean_output.rows) : 0;
  }
};

/// The class that most members predict (their most probable one, the first of equal ones). Of classes with
/// equally many votes the one of the larger mean probability wins, of those the first. predicted: a class of
/// each member; mean: the mean probability of each class.
std::size_t vote(std::span<const std::size_t> predicted, std::span<const float> mean);

/// Whole-set evaluation of at least one member, all with equal weight. Throws OptimError where a member is no
/// classifier or has another number of classes than the first.
EnsembleEvaluation evaluate_ensemble(std::span<const Member> members, const Dataset& data);

}  // namespace gossamer::optim
