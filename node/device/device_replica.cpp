#include "device_replica.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <stdexcept>

#include "gossamer/compress/feedback.h"
#include "learned_state.h"

namespace gossamer::node {

namespace cuda = compress::cuda;

namespace {

constexpr const char* kNoRows = "rows of a table are learned on the host only";

}  // namespace

/// Whole slots on the host, from when they are first asked for until they are handed back.
class DeviceReplica::HostCopies {
 public:
  explicit HostCopies(DeviceReplica& replica) : replica_(replica) {}
  std::span<float> at(Slot s, Range r) {
    auto [copy, is_new] = copies_.try_emplace(s);
    if (is_new) {
      copy->second.resize(replica_.slots_[s].size());
      cuda::copy_to_host(copy->second.data(), replica_.slots_[s].data(), replica_.slots_[s].bytes(),
                         replica_.stream());
      replica_.parts_.stream->wait();
      replica_.copied_ += replica_.slots_[s].bytes();
    }
    return std::span<float>(copy->second).subspan(r.begin, r.size);
  }
  void hand_back() {
    for (auto& [s, copy] : copies_) {
      replica_.upload(s, copy);
      replica_.copied_ += replica_.slots_[s].bytes();
    }
  }

 private:
  DeviceReplica& replica_;
  std::map<Slot, AlignedFloats> copies_;
};

DeviceReplica::DeviceReplica(DeviceReplicaParts parts, std::span<const float> x0, const Buffers& buffers)
    : parts_(std::move(parts)),
      encoder_(parts_.codecs, parts_.parcels, parts_.seed, parts_.peer, *parts_.stream),
      rule_(parts_.aggregate),
      buffers_(buffers) {
  assert(x0.size() == parts_.objective->buffer_size());
  if (parts_.objective->keyed_rows()) throw std::runtime_error(kNoRows);
  if (buffers.extension) extension_ = buffers.extension({x0, parts_.rate});
  for (std::size_t s = 0; s < 2 + buffers.slots; ++s) {
    slots_.emplace_back(x0.size());
    upload(static_cast<Slot>(s), x0);
  }
  clear(kGradient, {0, x0.size()});
  for (const std::size_t size : parts_.peer_sizes) {
    slots_.emplace_back(size);
    clear(static_cast<Slot>(slots_.size() - 1), {0, size});
  }
  parcels_of_layer_.resize(parts_.objective->layers().size());
  for (ParcelId p = 0; p < parts_.parcels.size(); ++p)
    parcels_of_layer_[parts_.parcels[p].layer].push_back(p);
}

void DeviceReplica::upload(Slot s, std::span<const float> from) {
  assert(from.size() == slots_[s].size());
  cuda::copy_to_device(slots_[s].data(), from.data(), from.size_bytes(), stream());
  parts_.stream->wait();
}

void DeviceReplica::clear(Slot s, Range r) { cuda::clear(at(s, r), r.size * sizeof(float), stream()); }

std::vector<float> DeviceReplica::slot(Slot s) const {
  std::vector<float> here(slots_[s].size());
  cuda::copy_to_host(here.data(), slots_[s].data(), slots_[s].bytes(), stream());
  parts_.stream->wait();
  return here;
}

// --- what it keeps

void DeviceReplica::archive(Archive archive) {
  archive_learned(archive);
  for (Slot s = kParameters + 1; s < slots_.size(); ++s) {
    std::vector<float> here = slot(s);
    archive.floats("slot" + std::to_string(s), std::span<float>(here));
    if (archive.restores()) upload(s, here);
  }
  encoder_.archive(archive.part("encoder"));
  attack_.archive(archive.part("attack"));
  if (extension_) extension_->archive(archive.part("extension"));
  archive_private(archive, *parts_.objective);
}

void DeviceReplica::archive_learned(Archive archive) {
  std::vector<float> here = slot(kParameters);
  archive.floats("slot" + std::to_string(kParameters), std::span<float>(here));
  if (archive.restores()) upload(kParameters, here);
  OptimizerState optimizer(archive.part("optimizer"));
  parts_.optimizer->show(optimizer);
  archive_objective(archive, *parts_.objective);
  archive.value("steps", steps_);
}

State DeviceReplica::save(State used) {
  State state;
  archive(Archive::saving(state, &used).part("data"));
  return state;
}

State DeviceReplica::save_learned() {
  State state;
  archive_learned(Archive::saving(state).part("data"));
  return state;
}

State DeviceReplica::save_for_next_view(std::span<const Incarnation> seats) {
  State state = save_learned();
  if (extension_) extension_->save_own(Archive::saving(state).part("data").part("own"), seats);
  return state;
}

void DeviceReplica::restore(const State& state, Kept kept) {
  const Archive from = Archive::restoring(state).part("data");
  if (kept == Kept::all) return archive(from);
  archive_learned(from);
  if (buffers_.anchored) return;
  const std::vector<float> x = slot(kParameters);
  for (std::size_t s = 0; s < buffers_.slots; ++s) upload(static_cast<Slot>(2 + s), x);
  if (buffers_.extension) extension_ = buffers_.extension({x, parts_.rate});
  if (extension_) restore_own(*extension_, state);
}

// --- gradients

void DeviceReplica::run(const Gradient& gradient, const Post& post,
                        const std::function<void()>& between_layers) {
  round_ = gradient.round;
  if (gradient.idle) return stand_idle(gradient, post);
  if (!gradient.soft.models.empty())
    throw std::runtime_error("labels by others' models are made on the host only");
  const optim::BatchKey key{steps_++, false, 0, {}, &between_layers};
  bool skipped = false;
  const auto on_layer = [&](std::size_t layer) {
    const auto& parcels = parcels_of_layer_[layer];
    skips_update_ = drop_not_finite(layer);
    skipped |= skips_update_;
    for (auto p = parcels.rbegin(); p != parcels.rend(); ++p) {
      for (const Op& o : gradient.on_ready[*p]) run(o, post);
      post(ParcelReady{gradient.round, *p});
    }
    skips_update_ = false;
    between_layers();
  };
  const auto [loss, rows, left_out] =
      parts_.objective->gradient(whole(kParameters), key, whole(kGradient), on_layer);
  skipped |= left_out || !std::isfinite(loss);
  post(GradientDone{gradient.round, loss, rows, skipped});
}

void DeviceReplica::stand_idle(const Gradient& gradient, const Post& post) {
  clear(kGradient, {0, slots_[kGradient].size()});
  skips_update_ = true;
  for (std::size_t p = gradient.on_ready.size(); p-- > 0;) {
    for (const Op& o : gradient.on_ready[p]) run(o, post);
    post(ParcelReady{gradient.round, static_cast<ParcelId>(p)});
  }
  skips_update_ = false;
  post(GradientDone{.round = gradient.round, .loss = 0, .rows = 0, .idle = true});
}

/// Whether the layer's gradient was not finite; then it is zero.
bool DeviceReplica::drop_not_finite(std::size_t layer) {
  const optim::Layer& l = parts_.objective->layers()[layer];
  const Range range{l.offset, l.size};
  auto* const flag_dev = static_cast<std::uint32_t*>(flag_.data());
  cuda::clear(flag_dev, sizeof *flag_dev, stream());
  cuda::flag_not_finite(at(kGradient, range), range.size, flag_dev, stream());
  std::uint32_t flag = 0;
  cuda::copy_to_host(&flag, flag_dev, sizeof flag, stream());
  parts_.stream->wait();
  if (flag != 0) clear(kGradient, range);
  return flag != 0;
}

void DeviceReplica::evaluate(Round round, const Post& post) {
  post(Evaluated{round, parts_.objective->evaluate(whole(kParameters))});
}

// --- commands

void DeviceReplica::run(const Op& op, const Post& post) {
  std::visit([&](const auto& o) { run_one(o, post); }, op);
}

void DeviceReplica::run_one(const op::Update& o, const Post&) {
  if (skips_update_) return clear(kGradient, o.range);
  float* const g = at(kGradient, o.range);
  parts_.optimizer->step(o.place, o.range.begin, at(kParameters, o.range), g, g, o.range.size);
}

double DeviceReplica::norm(const float* x_dev, std::size_t n) {
  auto* const sum_dev = static_cast<double*>(number_.data());
  cuda::sum_of_squares(x_dev, n, partials_.need_of<double>(cuda::kSquarePartials), sum_dev, stream());
  double sum = 0;
  cuda::copy_to_host(&sum, sum_dev, sizeof sum, stream());
  parts_.stream->wait();
  return std::sqrt(sum);
}

void DeviceReplica::run_one(const op::Clip& o, const Post&) {
  float* const g = at(kGradient, o.range);
  const double found = norm(g, o.range.size);
  if (!std::isfinite(found)) throw Diverged("the gradient is not finite");
  const float factor = compress::local_clip_factor(found, o.limit, 1);
  if (factor != 1) cuda::scale(factor, g, o.range.size, stream());
}

void DeviceReplica::run_one(const op::Combine& o, const Post&) {
  std::vector<cuda::Term> terms;
  for (const auto& [factor, src] : o.terms) terms.push_back({factor, at(src, o.range)});
  cuda::combine(o.keep, at(o.dst, o.range), terms, o.range.size, stream());
}

void DeviceReplica::run_one(const op::Encode& o, const Post& post) {
  const float* v = at(o.src, o.range);
  if (o.minus) {
    auto* const difference = difference_.need_of<float>(o.range.size);
    cuda::subtract(v, at(*o.minus, o.range), difference, o.range.size, stream());
    v = difference;
  }
  Payload payload = encoder_.encode(o, v, o.apply_to ? at(*o.apply_to, o.range) : nullptr);
  post(Encoded{o.round, o.parcel, o.tag, o.range.size, std::move(payload)});
}

std::size_t DeviceReplica::layer_of(Range r) const {
  const auto& layers = parts_.objective->layers();
  std::size_t layer = 0;
  while (layer + 1 < layers.size() && layers[layer + 1].offset <= r.begin) ++layer;
  return layer;
}

void DeviceReplica::run_one(const op::DecodeAdd& o, const Post&) {
  encoder_.decode_add(o.payload, o.weight, at(o.dst, o.range), o.range.size, round_, layer_of(o.range));
}

void DeviceReplica::run_one(const op::Aggregate& o, const Post&) {
  HostCopies copies(*this);
  rule_.run(o, copies.at(o.dst, {0, slots_[o.dst].size()}), nullptr);
  copies.hand_back();
}

void DeviceReplica::run_one(const op::Extended& o, const Post& post) {
  assert(extension_);
  HostCopies copies(*this);
  extension_->run(
      o.command, [&](Slot s, Range r) { return copies.at(s, r); }, post);
  copies.hand_back();
}

void DeviceReplica::run_one(const op::EncodeRows&, const Post&) { throw std::logic_error(kNoRows); }
void DeviceReplica::run_one(const op::PushRows&, const Post&) { throw std::logic_error(kNoRows); }

void DeviceReplica::run_one(const op::Measure& o, const Post& post) {
  post(Measured{o.round, norm(slots_[kParameters].data(), slots_[kParameters].size())});
}

}  // namespace gossamer::node
