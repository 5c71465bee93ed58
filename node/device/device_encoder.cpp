#include "device_encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <vector>

namespace gossamer::node {

namespace cuda = compress::cuda;

DeviceEncoder::DeviceEncoder(std::shared_ptr<const CodecSchedule> codecs, SharedList<Parcel> parcels,
                             std::uint64_t seed, std::uint32_t peer, const cuda::Stream& stream)
    : codecs_(std::move(codecs)), parcels_(std::move(parcels)), seed_(seed), peer_(peer), stream_(stream) {}

const cuda::DeviceCodec& DeviceEncoder::of(const compress::Codec& host) {
  auto& codec = device_codecs_[&host];
  if (!codec) codec = cuda::make_device_codec(host.spec());
  return *codec;
}

DeviceEncoder::Kept& DeviceEncoder::kept(int number, std::size_t begin) {
  const auto [at, is_new] = states_.try_emplace({number, begin});
  if (is_new) cuda::clear(at->second.selection.data(), sizeof(compress::SelectionState), stream());
  return at->second;
}

DeviceFloats& DeviceEncoder::zeros(std::unique_ptr<DeviceFloats>& floats, std::size_t n) {
  if (!floats || floats->size() == 0) {
    floats = std::make_unique<DeviceFloats>(n);
    cuda::clear(floats->data(), floats->bytes(), stream());
  }
  if (floats->size() != n)
    throw compress::EncodeError(
        fmt::format("cannot encode: found a residual of {} entries, expected {}", floats->size(), n));
  return *floats;
}

void DeviceEncoder::copy_result() {
  cuda::copy_to_host(result_here_.data(), result_.data(), sizeof(cuda::DeviceResult), stream());
}

cuda::DeviceResult DeviceEncoder::result() {
  stream_.wait();
  return *reinterpret_cast<const cuda::DeviceResult*>(result_here_.data());
}

Payload DeviceEncoder::encode(const op::Encode& o, const float* v_dev, float* apply_to_dev) {
  assert(o.parcel < parcels_.size());
  const compress::Codec& host = o.exact ? codecs_->dense() : codecs_->at(o.round, parcels_[o.parcel].layer);
  const cuda::DeviceCodec& codec = of(host);
  const std::size_t n = o.range.size;
  const compress::RandomKey key{seed_, peer_, static_cast<std::uint32_t>(o.range.begin / 16),
                                o.round * 2 + (o.feedback > 0 ? 1u : 0u)};
  std::memcpy(key_here_.data(), &key, sizeof key);
  cuda::copy_to_device(key_.data(), key_here_.data(), sizeof key, stream());
  auto* const out = out_.need_of<std::byte>(codec.max_bytes(n));
  const cuda::EncodeCall call{static_cast<const compress::RandomKey*>(key_.data()),
                              workspace_.need(codec.workspace_bytes(n)), out,
                              static_cast<cuda::DeviceResult*>(result_.data()), stream()};
  // How long it is is known when it is made: as much as the last one had is copied without asking, and most
  // payloads need no more.
  std::size_t& usual = usual_[{o.parcel, o.tag}];
  usual = std::min(usual, codec.max_bytes(n));
  cuda::DeviceResult made{};
  auto memory = payloads_.take(usual);
  try {
    write(o, host, codec, v_dev, call);
    copy_result();
    cuda::copy_to_host(memory->data(), out, usual, stream());
    made = result();
    cuda::require_success(made, n);
  } catch (const compress::EncodeError& e) {
    throw Diverged(fmt::format("{} in round {}", e.what(), o.round));
  }
  if (made.bytes > usual) {
    memory = payloads_.take(made.bytes);
    cuda::copy_to_host(memory->data(), out, made.bytes, stream());
    stream_.wait();
  }
  usual = made.bytes;
  if (o.add_error_to >= 0 && n > 0 && !host.traits().exact) add_error(o, codec, v_dev, made.bytes);
  if (apply_to_dev)
    codec.decode_add(out, made.bytes, 1.0f, apply_to_dev, n, call.workspace_dev, call.result_dev, stream());
  return {memory, std::span<const std::byte>(memory->data(), made.bytes)};
}

void DeviceEncoder::write(const op::Encode& o, const compress::Codec& host, const cuda::DeviceCodec& codec,
                          const float* v_dev, const cuda::EncodeCall& call) {
  const std::size_t n = o.range.size;
  if (o.feedback < 0 || n == 0) return codec.encode(v_dev, n, call);
  Kept& state = kept(o.feedback, o.range.begin);
  cuda::EncodeCall selecting = call;
  selecting.selection_dev = static_cast<compress::SelectionState*>(state.selection.data());
  if (o.momentum == 0) {
    const bool is_new = !state.residual;
    float* residual = zeros(state.residual, n).data();
    return codec.encode_feedback(v_dev, is_new ? nullptr : residual, residual, n, selecting);
  }
  float* velocity = zeros(state.velocity, n).data();
  if (host.traits().exact) {
    const cuda::Term added{1.0f, v_dev};
    cuda::combine(o.momentum, velocity, {&added, 1}, n, stream());
    return codec.encode(velocity, n, call);
  }
  float* unsent = zeros(state.unsent, n).data();
  codec.encode_momentum(v_dev, o.momentum, {velocity, unsent, velocity, unsent}, n, selecting);
}

void DeviceEncoder::add_error(const op::Encode& o, const cuda::DeviceCodec& codec, const float* v_dev,
                              std::size_t bytes) {
  const std::size_t n = o.range.size;
  auto* const left = left_.need_of<float>(n);
  cuda::copy_on_device(left, v_dev, n * sizeof(float), stream());
  codec.decode_add(out_.need_of<std::byte>(bytes), bytes, -1.0f, left, n,
                   workspace_.need(codec.workspace_bytes(n)),
                   static_cast<cuda::DeviceResult*>(result_.data()), stream());
  Kept& state = kept(o.add_error_to, o.range.begin);
  const cuda::Term error{1.0f, left};
  cuda::combine(1, zeros(state.velocity ? state.unsent : state.residual, n).data(), {&error, 1}, n, stream());
}

void DeviceEncoder::decode_add(const Payload& payload, float weight, float* acc_dev, std::size_t n,
                               Round round, std::size_t layer) {
  const std::string_view name = compress::inspect(*payload).codec;
  const compress::Codec& own = codecs_->at(round, layer);
  const compress::Codec& host = name == own.name() ? own : codecs_->dense();
  if (name == host.name()) {
    const cuda::DeviceCodec& codec = of(host);
    auto* const in = in_.need_of<std::byte>(payload->size());
    cuda::copy_to_device(in, payload->data(), payload->size(), stream());
    codec.decode_add(in, payload->size(), weight, acc_dev, n, workspace_.need(codec.workspace_bytes(n)),
                     static_cast<cuda::DeviceResult*>(result_.data()), stream());
    copy_result();
    const cuda::DeviceResult found = result();
    // other parameters than ours are seen before anything is added
    if (found.error != cuda::DeviceError::front && found.error != cuda::DeviceError::size)
      return cuda::require_success(found, n);
  }
  std::vector<float> decoded(n, -0.0f);  // which anything is added to, or it to anything, to the bit
  compress::decode_add(*payload, weight, decoded);
  decoded_on_host_ += payload->size();
  auto* const left = left_.need_of<float>(n);
  cuda::copy_to_device(left, decoded.data(), n * sizeof(float), stream());
  const cuda::Term added{1.0f, left};
  cuda::combine(1, acc_dev, {&added, 1}, n, stream());
  stream_.wait();  // decoded goes
}

void DeviceEncoder::archive(Archive archive) {
  std::vector<std::uint64_t> numbers, begins;
  for (const auto& [key, state] : states_) {
    numbers.push_back(static_cast<std::uint64_t>(key.first));
    begins.push_back(key.second);
  }
  archive.numbers("numbers", numbers);
  archive.numbers("begins", begins, numbers.size());
  if (archive.restores()) states_.clear();
  const auto here = [&](const std::unique_ptr<DeviceFloats>& floats, compress::LineVector<float>& to) {
    to.resize(floats ? floats->size() : 0);
    if (floats) cuda::copy_to_host(to.data(), floats->data(), floats->bytes(), stream());
  };
  const auto there = [&](const compress::LineVector<float>& from, std::unique_ptr<DeviceFloats>& floats) {
    if (from.empty()) return;
    floats = std::make_unique<DeviceFloats>(from.size());
    cuda::copy_to_device(floats->data(), from.data(), floats->bytes(), stream());
  };
  for (std::size_t n = 0; n < numbers.size(); ++n) {
    Kept& state = kept(static_cast<int>(numbers[n]), begins[n]);
    Archive part = archive.part("state", n);
    compress::FeedbackState feedback;
    compress::MomentumState momentum;
    if (!archive.restores()) {
      compress::SelectionState selection;
      cuda::copy_to_host(&selection, state.selection.data(), sizeof selection, stream());
      here(state.residual, feedback.residual);
      here(state.velocity, momentum.velocity);
      here(state.unsent, momentum.unsent);
      stream_.wait();
      (state.velocity ? momentum.selection : feedback.selection) = selection;
    }
    std::vector<std::byte> saved = save(feedback), saved_momentum = save(momentum);
    part.bytes("feedback", saved);
    part.bytes("momentum", saved_momentum);
    if (!archive.restores()) continue;
    try {
      feedback = compress::restore_feedback(saved), momentum = compress::restore_momentum(saved_momentum);
    } catch (const compress::StateError& error) {
      part.refuse("feedback", error.what());
    }
    feedback.materialise();
    there(feedback.residual, state.residual);
    there(momentum.velocity, state.velocity);
    there(momentum.unsent, state.unsent);
    const compress::SelectionState& selection =
        momentum.velocity.empty() ? feedback.selection : momentum.selection;
    cuda::copy_to_device(state.selection.data(), &selection, sizeof selection, stream());
    stream_.wait();
  }
}

}  // namespace gossamer::node
