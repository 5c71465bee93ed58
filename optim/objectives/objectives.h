#pragma once
// Factories of the objectives; each is one file.
#include <memory>

#include "gossamer/optim/objective.h"

namespace gossamer::optim {

std::unique_ptr<Objective> make_mlp(const ObjectiveSpec& spec);
std::unique_ptr<Objective> make_softmax(const ObjectiveSpec& spec);
std::unique_ptr<Objective> make_quadratic(const ObjectiveSpec& spec);

/// Throws OptimError unless the data has at least one feature and at least two classes.
void require_classes(const ObjectiveSpec& spec);

/// out ← independent normal numbers of the given standard deviation; a pure function of (seed, layer, index).
void fill_normal(std::uint64_t seed, std::size_t layer, double deviation, std::span<float> out);

}  // namespace gossamer::optim
