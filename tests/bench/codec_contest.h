#pragma once
// Codecs against plain loops that do the same (codec_reference.h), and top-k on inputs that slow others down.
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "gossamer/compress/codec.h"

namespace gossamer::node {

/// One operation on the same vector, done in turn by both; GB/s of fp32 input, medians, one thread.
struct Contest {
  std::string operation;  ///< "1-bit decode-add"
  std::string codec;      ///< spec
  std::string reference;  ///< "plain loop"
  double speed, reference_speed;
  double ratio() const { return speed / reference_speed; }
};

/// Told what is about to be measured.
using Announce = std::function<void(const std::string&)>;
/// Whether a codec of this name ("topk") is of interest.
using Wanted = std::function<bool(std::string_view)>;

std::vector<Contest> compare_with_reference(std::size_t entries, const Wanted& wanted,
                                            const Announce& announce);

/// What a codec's encode takes on an awkward vector, as a multiple of its time on a Laplacian one.
struct Awkward {
  std::string codec, input;  ///< "constant"
  double times;
};
std::vector<Awkward> bench_adversarial(std::size_t entries, const Wanted& wanted, const Announce& announce);

}  // namespace gossamer::node
