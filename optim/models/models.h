#pragma once
// The models: each is one file, with its descriptor at the end.
#include <memory>

#include "gossamer/optim/model.h"

namespace gossamer::optim {

struct ModelKind {
  NamedHelp row;
  std::unique_ptr<Model> (*make)(const ModelSpec& spec);
  ModelTraits traits{};
};
extern const ModelKind kSoftmax, kQuadratic, kMlp;

/// Throws OptimError unless the data has at least one feature and at least two classes.
void require_classes(const ModelSpec& spec);

/// out ← independent normal numbers of the given standard deviation; a pure function of (seed, layer, index).
void fill_normal(std::uint64_t seed, std::size_t layer, double deviation, std::span<float> out);

}  // namespace gossamer::optim
