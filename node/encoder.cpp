#include "encoder.h"

#include <fmt/format.h>

#include <cassert>
#include <stdexcept>

namespace gossamer::node {

Encoder::Encoder(EncoderParts parts) : parts_(std::move(parts)), dense_(compress::make_codec("dense")) {}

Payload Encoder::encode(const op::Encode& o, std::span<const float> v, compress::Workspace& workspace) {
  assert(o.parcel < parts_.dense_parcels.size());
  const compress::Codec& codec = o.exact || parts_.dense_parcels[o.parcel] ? *dense_ : *parts_.codec;
  const std::size_t most = codec.max_bytes(v.size());
  if (encoded_.size() < most) encoded_.resize(most);
  std::size_t bytes = 0;
  try {
    bytes = write(o, codec, v, workspace);
  } catch (const compress::EncodeError& e) {
    throw std::runtime_error(
        fmt::format("{} in round {}: the run diverged; lower optimizer.learning_rate "
                    "(or exchange.gamma)",
                    e.what(), o.round));
  }
  auto payload = std::make_shared<const std::vector<std::byte>>(encoded_.begin(), encoded_.begin() + bytes);
  if (o.undelivered_to >= 0 && !codec.traits().exact) keep_undelivered(o, v, payload);
  return payload;
}

std::size_t Encoder::write(const op::Encode& o, const compress::Codec& codec, std::span<const float> v,
                           compress::Workspace& workspace) {
  const compress::RandomKey key{parts_.seed, parts_.peer, static_cast<std::uint32_t>(o.range.begin / 16),
                                o.round * 2 + (o.feedback > 0 ? 1u : 0u)};
  // An empty range begins where another may begin as well, and has nothing to keep.
  if (o.feedback < 0 || v.empty()) return codec.encode(v, key, workspace, encoded_);
  compress::FeedbackState& state = states_[{o.feedback, o.range.begin}];
  const compress::FeedbackState before =
      parts_.planted.is(Bug::residual_not_updated) ? state : compress::FeedbackState{};
  const std::size_t bytes = codec.encode_feedback(v, state, key, workspace, encoded_);
  if (parts_.planted.is(Bug::residual_not_updated)) state = before;
  return bytes;
}

const compress::FeedbackState* Encoder::unsent(const op::Encode& o) const {
  const auto at = states_.find({o.feedback, o.range.begin});
  return o.feedback < 0 || o.range.size == 0 || at == states_.end() ? nullptr : &at->second;
}

void Encoder::keep_undelivered(const op::Encode& o, std::span<const float> v, const Payload& payload) {
  // v − decoded first: where v was sent exactly that is 0, which (e + v) − v need not leave of e.
  left_.assign(v.begin(), v.end());
  compress::decode_add(*payload, -1.0f, left_);
  compress::FeedbackState& state = states_[{o.undelivered_to, o.range.begin}];
  state.materialise();
  state.residual.resize(v.size());
  for (std::size_t i = 0; i < v.size(); ++i) state.residual[i] += left_[i];
}

void Encoder::add_unsent(int feedback, std::span<float> total) const {
  for (const auto& [key, state] : states_) {
    if (key.first != feedback) continue;
    compress::FeedbackState whole = state;
    whole.materialise();
    for (std::size_t i = 0; i < whole.residual.size(); ++i) total[key.second + i] += whole.residual[i];
  }
}

}  // namespace gossamer::node
