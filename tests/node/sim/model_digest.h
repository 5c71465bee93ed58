#pragma once
// What the models of a run's peers are compared by.
#include <cstdint>
#include <string>

#include "aligned.h"
#include "frame.h"
#include "gossamer/node/job.h"
#include "gossamer/node/safetensors.h"
#include "hash.h"

namespace gossamer::node::test {

/// What `sim` calls the digest: over all peers' parameters in peer order; of the models in a folder.
inline std::uint64_t model_digest(const Job& job, const std::string& folder) {
  const auto data = optim::load_data(job.data);
  auto spec = job.model;
  spec.features = data.train->features();
  spec.classes = data.train->classes();
  const auto objective = optim::make_model(spec);
  std::uint64_t hash = 0;
  for (const auto& name : job.peer_names()) {
    AlignedFloats x(objective->buffer_size());
    read_safetensors(folder + "/" + name + ".safetensors", objective->layers(), x);
    hash = hash_bytes(std::as_bytes(std::span<const float>(x)), hash);
  }
  return hash;
}

}  // namespace gossamer::node::test
