#pragma once
// AlignedFloats are float buffers on 64-byte boundaries, as the bit contract asks.
#include <memory>

#include "gossamer/optim/large_vector.h"

namespace gossamer::node {

using AlignedFloats = optim::LargeVector<float>;

/// Floats that do not change; copies share them.
class SharedFloats {
 public:
  SharedFloats(AlignedFloats floats = {})
      : floats_(std::make_shared<const AlignedFloats>(std::move(floats))) {}

  std::size_t size() const { return floats_->size(); }
  float operator[](std::size_t i) const { return (*floats_)[i]; }
  const float* data() const { return floats_->data(); }
  auto begin() const { return floats_->begin(); }
  auto end() const { return floats_->end(); }
  operator const AlignedFloats&() const { return *floats_; }

 private:
  std::shared_ptr<const AlignedFloats> floats_;
};

}  // namespace gossamer::node
