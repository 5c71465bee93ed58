#pragma once
// Factories of the models; each is one file.
#include <memory>

#include "gossamer/optim/model.h"

namespace gossamer::optim {

std::unique_ptr<Model> make_mlp(const ModelSpec& spec);
std::unique_ptr<Model> make_softmax(const ModelSpec& spec);
std::unique_ptr<Model> make_quadratic(const ModelSpec& spec);

/// Throws OptimError unless the data has at least one feature and at least two classes.
void require_classes(const ModelSpec& spec);

/// out ← independent normal numbers of the given standard deviation; a pure function of (seed, layer, index).
void fill_normal(std::uint64_t seed, std::size_t layer, double deviation, std::span<float> out);

}  // namespace gossamer::optim
