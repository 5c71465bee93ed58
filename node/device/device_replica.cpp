#include "device_replica.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <map>
#include <stdexcept>
#include <utility>

#include "aligned.h"
#include "gossamer/compress/feedback.h"

namespace gossamer::node {

namespace cuda = compress::cuda;

namespace {

constexpr const char* kNoRows = "rows of a table are learned on the host only";

}  // namespace

/// Ranges of slots on the host, from when they are first asked for until they are handed back. What is asked
/// for stands; gradients of other ranges may still be under way.
class DeviceReplica::HostCopies {
 public:
  explicit HostCopies(DeviceReplica& replica) : replica_(replica) {}
  std::span<float> at(Slot s, Range r) {
    auto [place, is_new] = copies_.try_emplace({s, r.begin});
    AlignedFloats& copy = place->second;
    if (is_new) {
      copy.resize(r.size);
      cuda::copy_to_host(copy.data(), replica_.at(s, r), r.size * sizeof(float), replica_.stream());
      replica_.stream_.wait();
      replica_.copied_ += r.size * sizeof(float);
    }
    assert(copy.size() == r.size);  // no command works on ranges that overlap
    return copy;
  }
  void hand_back() {
    for (const auto& [place, copy] : copies_) {
      cuda::copy_to_device(replica_.at(place.first, {place.second, copy.size()}), copy.data(),
                           copy.size() * sizeof(float), replica_.stream());
      replica_.copied_ += copy.size() * sizeof(float);
    }
    replica_.stream_.wait();
  }

 private:
  DeviceReplica& replica_;
  std::map<std::pair<Slot, std::size_t>, AlignedFloats> copies_;  ///< by slot and where the range begins
};

DeviceReplica::DeviceReplica(DeviceReplicaParts parts, std::span<const float> x0, const Buffers& buffers)
    : ReplicaBase(std::move(parts), x0, buffers),
      device_(parts.device),
      stream_(parts.stream),
      optimizer_(std::move(parts.optimizer)),
      encoder_(base_.codecs, base_.parcels, base_.seed, base_.peer, stream_),
      rule_(base_.aggregate) {
  if (base_.objective->keyed_rows()) throw std::runtime_error(kNoRows);
  for (std::size_t s = 0; s < 2 + buffers.slots; ++s) {
    slots_.emplace_back(x0.size());
    upload(static_cast<Slot>(s), x0);
  }
  clear(kGradient, {0, x0.size()});
  const auto add_zeros = [&](std::size_t size) {
    slots_.emplace_back(size);
    clear(static_cast<Slot>(slots_.size() - 1), {0, size});
  };
  for (std::size_t s = 0; s < buffers.scratch; ++s) add_zeros(x0.size());
  for (const std::size_t size : base_.peer_sizes) add_zeros(size);
}

/// Memory goes where it is.
DeviceReplica::~DeviceReplica() {
  try {
    cuda::use_device(device_);
  } catch (const std::runtime_error&) {  // which has failed
  }
}

void DeviceReplica::upload(Slot s, std::span<const float> from) {
  parameters_here_.clear();
  assert(from.size() == slots_[s].size());
  cuda::copy_to_device(slots_[s].data(), from.data(), from.size_bytes(), stream());
  stream_.wait();
}

void DeviceReplica::clear(Slot s, Range r) { cuda::clear(at(s, r), r.size * sizeof(float), stream()); }

std::vector<float> DeviceReplica::slot(Slot s) const {
  std::vector<float> here(slots_[s].size());
  cuda::copy_to_host(here.data(), slots_[s].data(), slots_[s].bytes(), stream());
  stream_.wait();
  return here;
}

std::span<const float> DeviceReplica::parameters() const {
  if (parameters_here_.empty()) parameters_here_ = slot(kParameters);
  return parameters_here_;
}

void DeviceReplica::spread_parameters() {
  for (std::size_t s = 2; s < 2 + buffers_.slots; ++s)
    cuda::copy_on_device(slots_[s].data(), slots_[kParameters].data(), slots_[s].bytes(), stream());
}

void DeviceReplica::archive_slot(Archive archive, const std::string& name, Slot s) {
  std::vector<float> here = slot(s);
  archive.floats(name, std::span<float>(here));
  if (archive.restores()) upload(s, here);
}

// --- gradients

std::vector<optim::Teacher> DeviceReplica::teachers(const SoftLabels& soft) const {
  if (!soft.models.empty()) throw std::runtime_error("labels by others' models are made on the host only");
  return {};
}

bool DeviceReplica::all_finite(Range gradient) {
  auto* const flag_dev = static_cast<std::uint32_t*>(flag_.data());
  cuda::clear(flag_dev, sizeof *flag_dev, stream());
  cuda::flag_not_finite(at(kGradient, gradient), gradient.size, flag_dev, stream());
  std::uint32_t flag = 0;
  cuda::copy_to_host(&flag, flag_dev, sizeof flag, stream());
  stream_.wait();
  return flag == 0;
}

void DeviceReplica::evaluate(Round round, const Post& post) {
  post(Evaluated{round, base_.objective->evaluate(whole(kParameters))});
}

// --- commands

void DeviceReplica::execute(const Op& op, const Post& post) {
  parameters_here_.clear();
  if (const std::vector<Op> simple = op::in_simple_ones(op); !simple.empty()) {
    for (const Op& o : simple) execute(o, post);
    return;
  }
  std::visit([&](const auto& o) { run_one(o, post); }, op);
}

void DeviceReplica::run_one(const op::Update& o, const Post&) {
  if (skips_update_) return clear_gradient(o.range);
  float* const g = at(o.slot, o.range);
  optimizer_->step(o.place, o.range.begin, at(kParameters, o.range), g, g, o.range.size);
}

double DeviceReplica::norm(const float* x_dev, std::size_t n) {
  auto* const sum_dev = static_cast<double*>(number_.data());
  cuda::sum_of_squares(x_dev, n, partials_.need_of<double>(cuda::kSquarePartials), sum_dev, stream());
  double sum = 0;
  cuda::copy_to_host(&sum, sum_dev, sizeof sum, stream());
  stream_.wait();
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
  const auto& layers = base_.objective->layers();
  std::size_t layer = 0;
  while (layer + 1 < layers.size() && layers[layer + 1].offset <= r.begin) ++layer;
  return layer;
}

void DeviceReplica::run_one(const op::DecodeAdd& o, const Post&) {
  encoder_.decode_add(o.payload, o.weight, at(o.dst, o.range), o.range.size, round_, layer_of(o.range));
}

void DeviceReplica::run_one(const op::Aggregate& o, const Post&) {
  HostCopies copies(*this);
  rule_.run(
      o, [&](Range r) { return copies.at(o.dst, r); }, nullptr);
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
