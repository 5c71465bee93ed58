#include "encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <stdexcept>

#include "shared_blocks.h"

namespace gossamer::node {

Encoder::Encoder(std::shared_ptr<const CodecSchedule> codecs, SharedList<Parcel> parcels, std::uint64_t seed,
                 std::uint32_t peer, Planted planted)
    : codecs_(std::move(codecs)), parcels_(std::move(parcels)), seed_(seed), peer_(peer), planted_(planted) {}

const compress::Codec& Encoder::codec_of(const op::Encode& o) const {
  assert(o.parcel < parcels_.size());
  return o.exact ? codecs_->dense() : codecs_->at(o.round, parcels_[o.parcel].layer);
}

/// The random numbers of a payload.
compress::RandomKey Encoder::key_of(const op::Encode& o) const {
  return {seed_, peer_, static_cast<std::uint32_t>(o.range.begin / 16),
          o.round * 2 + (o.feedback > 0 ? 1u : 0u)};
}

/// What write(room) leaves in room for so many bytes at most; it returns how many.
template <class Write>
Payload Encoder::written(Round round, std::size_t most, const Write& write) const {
  ByteBlock block = take_readable_block(most);
  std::size_t bytes = 0;
  try {
    bytes = write(block.bytes);
  } catch (const compress::EncodeError& e) {
    throw Diverged(fmt::format("{} in round {}", e.what(), round));
  }
  if (bytes < most / 2) {  // payloads are kept while they are under way
    const ByteBlock whole = std::exchange(block, take_readable_block(bytes));
    std::copy_n(whole.bytes.begin(), bytes, block.bytes.begin());
  }
  return {block.owner, block.bytes.first(bytes)};
}

Payload Encoder::encode(const op::Encode& o, std::span<const float> v, compress::Workspace& workspace) {
  const compress::Codec& codec = codec_of(o);
  Payload payload = written(o.round, codec.max_bytes(v.size()),
                            [&](std::span<std::byte> out) { return write(o, codec, v, workspace, out); });
  if (o.add_error_to >= 0 && !codec.traits().exact) add_error(o, v, payload);
  return payload;
}

Payload Encoder::encode_difference(const op::Encode& o, std::span<const float> x, std::span<float> estimate,
                                   compress::Workspace& workspace, const compress::Codec::Make& make) {
  const compress::Codec& codec = codec_of(o);
  return written(o.round, codec.max_bytes(x.size()), [&](std::span<std::byte> out) {
    return codec.encode_difference(x, estimate, key_of(o), workspace, out, make);
  });
}

Payload Encoder::pass_on(const op::PassOn& o, std::span<const float> x, compress::Threads* threads) {
  return written(o.round, codecs_->dense().max_bytes(x.size()), [&](std::span<std::byte> out) {
    return o.payload ? compress::encode_sum(*o.payload, o.factor, x, out, threads)
                     : compress::encode_multiple(o.factor, x, out, threads);
  });
}

std::size_t Encoder::write(const op::Encode& o, const compress::Codec& codec, std::span<const float> v,
                           compress::Workspace& workspace, std::span<std::byte> out) {
  const compress::RandomKey key = key_of(o);
  // An empty range begins where another may begin as well, and has nothing to keep.
  if (o.feedback < 0 || v.empty()) return codec.encode(v, key, workspace, out);
  Kept& state = states_[{o.feedback, o.range.begin}];
  if (o.momentum > 0) return write_with_momentum(o.momentum, codec, v, state.momentum, key, workspace, out);
  const bool forgets = planted_.is(Bug::residual_not_updated);
  const compress::FeedbackState before = forgets ? state.feedback : compress::FeedbackState{};
  const std::size_t bytes = codec.encode_feedback(v, state.feedback, key, workspace, out);
  if (forgets) state.feedback = before;
  return bytes;
}

const compress::FeedbackState* Encoder::unsent(const op::Encode& o) const {
  const auto at = states_.find({o.feedback, o.range.begin});
  const bool none = o.feedback < 0 || o.range.size == 0 || o.momentum > 0 || at == states_.end();
  return none ? nullptr : &at->second.feedback;
}

/// Where all is sent masking would leave no momentum at all: the velocity itself goes out, as the optimiser's
/// momentum would make it.
std::size_t Encoder::write_with_momentum(float momentum, const compress::Codec& codec,
                                         std::span<const float> v, compress::MomentumState& state,
                                         compress::RandomKey key, compress::Workspace& workspace,
                                         std::span<std::byte> out) {
  if (!codec.traits().exact)
    return compress::MomentumCorrection(momentum).encode(codec, v, state, key, workspace, out);
  state.velocity.resize(v.size());
  for (std::size_t i = 0; i < v.size(); ++i) state.velocity[i] = momentum * state.velocity[i] + v[i];
  return codec.encode(state.velocity, key, workspace, out);
}

/// What command's `add_error_to` names.
std::span<float> Encoder::error(const op::Encode& o) {
  Kept& state = states_[{o.add_error_to, o.range.begin}];
  state.feedback.materialise();
  auto& e = state.momentum.velocity.empty() ? state.feedback.residual : state.momentum.unsent;
  e.resize(o.range.size);
  return e;
}

void Encoder::add_error(const op::Encode& o, std::span<const float> v, const Payload& payload) {
  // v − decoded first: where v was sent exactly that is 0, which (e + v) − v need not leave of e.
  left_.assign(v.begin(), v.end());
  compress::decode_add(*payload, -1.0f, left_);
  const std::span<float> e = error(o);
  for (std::size_t i = 0; i < v.size(); ++i) e[i] += left_[i];
}

std::optional<Payload> Encoder::merge(const op::Merge& o, compress::Workspace& workspace) {
  const op::Encode encode = o.encode();
  const compress::Codec& codec = codec_of(encode);
  const std::size_t n = o.range.size;
  bool merged = true;
  Payload payload = written(o.round, codec.max_bytes(n), [&](std::span<std::byte> out) {
    const auto bytes = codec.encode_sparse_sum(*o.mine, *o.theirs, n, workspace, out, left_out_);
    merged = bytes.has_value();
    return bytes.value_or(0);
  });
  if (!merged) return std::nullopt;
  if (o.add_error_to >= 0) {
    const std::span<float> e = error(encode);
    for (const auto& [index, left] : left_out_) e[index] += left;
  }
  return payload;
}

void Encoder::add_unsent(int feedback, std::span<float> total) const {
  for (const auto& [key, state] : states_) {
    if (key.first != feedback) continue;
    compress::FeedbackState whole = state.feedback;
    whole.materialise();
    for (const std::span<const float> e :
         {std::span<const float>(whole.residual), std::span<const float>(state.momentum.unsent)})
      for (std::size_t i = 0; i < e.size(); ++i) total[key.second + i] += e[i];
  }
}

void Encoder::archive(Archive archive) {
  std::vector<std::uint64_t> numbers, begins;
  for (const auto& [key, state] : states_) {
    numbers.push_back(static_cast<std::uint64_t>(key.first));
    begins.push_back(key.second);
  }
  archive.numbers("numbers", numbers);
  archive.numbers("begins", begins, numbers.size());
  if (archive.restores()) states_.clear();
  for (std::size_t n = 0; n < numbers.size(); ++n) {
    Kept& state = states_[{static_cast<int>(numbers[n]), begins[n]}];
    Archive part = archive.part("state", n);
    std::vector<std::byte> feedback = save(state.feedback), momentum = save(state.momentum);
    part.bytes("feedback", feedback);
    part.bytes("momentum", momentum);
    if (!archive.restores()) continue;
    try {
      state = {compress::restore_feedback(feedback), compress::restore_momentum(momentum)};
    } catch (const compress::StateError& error) {
      part.refuse("feedback", error.what());
    }
  }
}

}  // namespace gossamer::node
