#include "gossamer/compress/feedback.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "sparse.h"
#include "sums.h"

namespace gossamer::compress {
namespace {

float at(const LineVector<float>& state, std::size_t i) { return state.empty() ? 0.0f : state[i]; }

}  // namespace

MomentumCorrection::MomentumCorrection(float momentum) : momentum_(momentum) {
  if (!(momentum >= 0 && momentum < 1))
    throw std::invalid_argument("momentum is " + std::to_string(momentum) + ", expected 0 <= momentum < 1");
}

std::size_t MomentumCorrection::encode(const Codec& codec, std::span<const float> g, MomentumState& state,
                                       RandomKey key, Workspace& workspace, std::span<std::byte> out) const {
  if (const auto* sparse = dynamic_cast<const SparseCodec*>(&codec); sparse != nullptr)
    return sparse->encode_momentum(g, momentum_, state, key, workspace, out);
  const std::size_t n = g.size();
  require_size(state.velocity, n, "velocity");
  require_size(state.unsent, n, "unsent part");
  // encode may use every scratch array but floats(), which holds v until the state may change.
  const std::span<float> v = workspace.floats(n);
  for (std::size_t i = 0; i < n; ++i) {
    v[i] = at(state.unsent, i) + (momentum_ * at(state.velocity, i) + g[i]);
  }
  const std::size_t bytes = codec.encode_selecting(v, state.selection, key, workspace, out);
  const std::span<float> decoded = workspace.more_floats(n);
  std::fill(decoded.begin(), decoded.end(), 0.0f);
  decode_add(out.first(bytes), 1.0f, decoded);
  state.velocity.resize(n);
  state.unsent.resize(n);
  for (std::size_t i = 0; i < n; ++i) {
    const bool sent = decoded[i] != 0;
    const float u = momentum_ * state.velocity[i] + g[i];
    state.velocity[i] = sent ? 0.0f : u;
    state.unsent[i] = sent ? v[i] - decoded[i] : v[i];
  }
  return bytes;
}

float local_clip_factor(double norm, double limit, std::size_t peers) {
  if (!(limit > 0) || peers == 0 || !(norm >= 0) || !std::isfinite(norm)) {
    throw std::invalid_argument("cannot clip a norm of " + std::to_string(norm) + " to " +
                                std::to_string(limit) + " over " + std::to_string(peers) +
                                " peers; expected a finite norm, a limit above 0 and at least one peer");
  }
  const double most = limit / std::sqrt(static_cast<double>(peers));
  return norm <= most ? 1.0f : static_cast<float>(most / norm);
}

double l2_norm(std::span<const float> g) { return std::sqrt(sum_of_squares(g)); }

float clip_locally(std::span<float> g, double limit, std::size_t peers) {
  const float factor = local_clip_factor(l2_norm(g), limit, peers);
  if (factor < 1) {
    for (float& x : g) x *= factor;
  }
  return factor;
}

double warm_up_density(std::size_t epoch, double final_density) {
  if (!(final_density > 0 && final_density <= 1)) {
    throw std::invalid_argument("density is " + std::to_string(final_density) +
                                ", expected a number above 0 and at most 1");
  }
  double density = 0.25;
  for (; epoch > 0 && density > final_density; --epoch) density /= 4;
  return std::max(density, final_density);
}

double density_of_layer(std::span<const LayerDensity> rules, std::string_view layer, std::size_t entries,
                        double shared) {
  const auto fits = [&](const LayerDensity& rule) {
    const std::string_view name = rule.layer;
    const bool front = name.ends_with('*');
    return entries >= rule.at_least &&
           (front ? layer.starts_with(name.substr(0, name.size() - 1)) : layer == name);
  };
  const auto rule = std::find_if(rules.begin(), rules.end(), fits);
  return rule == rules.end() ? shared : rule->density;
}

bool stays_dense(const Codec& codec, std::size_t entries, std::size_t least) {
  constexpr std::array<std::string_view, 6> kNames = {"intq",  "qsgd",      "terngrad",
                                                      "randk", "threshold", "topk"};
  return entries < least && std::find(kNames.begin(), kNames.end(), codec.name()) != kNames.end();
}

}  // namespace gossamer::compress
