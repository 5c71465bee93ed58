#include "model_parts.h"

#include <algorithm>
#include <map>
#include <random>

#include "frame.h"
#include "gossamer/compress/feedback.h"
#include "own_key.h"
#include "parcel.h"

namespace gossamer::node {
namespace {

constexpr double kForwardShare = 1.0 / 3;
constexpr std::size_t kMostEncoded = std::size_t{1} << 22;  ///< entries: beyond, sizes are proportional

}  // namespace

std::vector<optim::Layer> equal_layers(std::size_t entries, std::size_t count) {
  std::vector<optim::Layer> layers;
  for (std::size_t l = 0; l < count; ++l) {
    const std::size_t begin = entries * l / count, end = entries * (l + 1) / count;
    layers.push_back({"layer" + std::to_string(l), begin, end - begin, {}});
  }
  return layers;
}

double payload_bytes(const compress::Codec& codec, std::size_t entries) {
  const std::size_t encoded = std::min(entries, kMostEncoded);
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> x(encoded);
  std::generate(x.begin(), x.end(), [&] { return normal(random); });
  std::vector<std::byte> out(codec.max_bytes(encoded));
  compress::Workspace workspace;
  const std::size_t bytes = codec.encode(x, {.seed = 1}, workspace, out);
  return static_cast<double>(bytes) * static_cast<double>(entries) / static_cast<double>(encoded);
}

std::vector<topology::Part> model_parts(const Job& job, const std::vector<optim::Layer>& layers,
                                        const std::function<double(std::size_t)>& payload) {
  const auto codec = compress::make_codec(job.exchange.codec), dense = compress::make_codec(compress::kDense);
  std::map<std::pair<bool, std::size_t>, double> sizes;
  const auto count = static_cast<double>(layers.size());
  std::vector<topology::Part> parts;
  for (const Parcel& p : make_parcels(layers, job.exchange.parcel)) {
    const bool plain = compress::stays_dense(*codec, layers[p.layer].size, job.exchange.dense_below);
    double& bytes = sizes[{plain, p.range.size}];
    if (bytes == 0)
      bytes = payload ? payload(p.range.size) : payload_bytes(plain ? *dense : *codec, p.range.size);
    const double done = (count - static_cast<double>(p.layer)) / count;
    parts.push_back({job.exchange.overlap ? 0 : kForwardShare + (1 - kForwardShare) * done, bytes});
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

topology::Framing wire_framing() {
  Frame empty;
  empty.body = ParcelBody{};
  return {static_cast<double>(encode_frame(empty)->size()), static_cast<double>(kChunkBytes)};
}

}  // namespace gossamer::node
