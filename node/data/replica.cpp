#include "replica.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

#include "gossamer/compress/feedback.h"
#include "gossamer/compress/kernels.h"
#include "gossamer/optim/finite.h"

namespace gossamer::node {
namespace {

/// Floats that are combined at a time, so that a block stays in the first-level cache over all its terms.
constexpr std::size_t kBlock = 2048;

void scale(float factor, float* dst, std::size_t n) {
  if (factor == 1.0f) return;
  if (factor == 0.0f) {
    std::fill_n(dst, n, 0.0f);
    return;
  }
  for (std::size_t i = 0; i < n; ++i) dst[i] *= factor;
}

}  // namespace

Replica::Replica(ReplicaParts parts, std::span<const float> x0, const Buffers& buffers)
    : ReplicaBase(std::move(parts), x0, buffers),
      optimizer_(std::move(parts.optimizer)),
      encoder_(base_.codecs, base_.parcels, base_.seed, base_.peer, parts.planted),
      team_(parts.threads > 1 ? std::make_unique<compress::Threads>(parts.threads) : nullptr),
      workspace_(team_.get()),
      rule_(base_.aggregate) {
  if (parts.rows)
    rows_ = std::make_unique<RowExchange>(*parts.rows, parts.peers, base_.peer, base_.seed,
                                          *base_.objective->keyed_rows(), parts.planted);
  const auto memory = [&spare = parts.spare](std::size_t size) {
    const auto fits =
        std::find_if(spare.begin(), spare.end(), [&](const auto& s) { return s.size() == size; });
    return fits == spare.end() ? AlignedFloats() : std::exchange(*fits, {});
  };
  for (std::size_t s = 0; s < 2 + buffers.slots; ++s)
    slots_.emplace_back(memory(x0.size())).assign(x0.begin(), x0.end());
  for (std::size_t s = 0; s < buffers.scratch; ++s) slots_.push_back(memory(x0.size()));
  clear_gradient({0, x0.size()});
  for (const std::size_t size : base_.peer_sizes) slots_.emplace_back(memory(size)).assign(size, 0.0f);
}

std::span<float> Replica::whole(Slot s) {
  AlignedFloats& floats = slots_[s];
  if (floats.empty()) floats.resize(base_.objective->buffer_size());  // scratch
  return {floats.data(), floats.size()};
}

void Replica::archive_slot(Archive archive, const std::string& name, Slot s) {
  archive.floats(name, whole(s));
}

void Replica::archive_unsent(Archive archive) {
  encoder_.archive(archive.part("encoder"));
  if (rows_) rows_->archive(archive.part("rows"));
}

void Replica::spread_parameters() {
  for (std::size_t s = 0; s < buffers_.slots; ++s) slots_[2 + s] = slots_[kParameters];
}

void Replica::use_threads(std::size_t threads) {
  team_ = threads > 1 ? std::make_unique<compress::Threads>(threads) : nullptr;
  workspace_ = compress::Workspace(team_.get());
}

std::vector<float> Replica::unsent(int feedback) const {
  std::vector<float> total(base_.objective->buffer_size());
  encoder_.add_unsent(feedback, total);
  return total;
}

/// Observers, and attackers, know the simple commands.
void Replica::execute(const Op& op, const Post& post) {
  if (observer_ || attack_.attacks())
    if (const std::vector<Op> simple = op::in_simple_ones(op); !simple.empty()) {
      for (const Op& o : simple) execute(o, post);
      return;
    }
  std::visit([&](const auto& o) { run_one(o, post); }, op);
  if (observer_) observer_->on_op(base_.peer, op, *this);
}

bool Replica::all_finite(Range gradient) { return optim::all_finite(at(kGradient, gradient)); }

void Replica::clear_gradient(Range range) {
  const auto g = at(kGradient, range);
  std::fill(g.begin(), g.end(), 0.0f);
}

std::vector<optim::Teacher> Replica::teachers(const SoftLabels& soft) const {
  const std::size_t first_of_peers = slots_.size() - base_.peer_sizes.size();
  std::vector<optim::Teacher> models;
  for (const auto& [weight, s] : soft.models)
    models.push_back({weight, slot(s), s < first_of_peers ? 0 : 1 + s - first_of_peers});
  return models;
}

void Replica::evaluate(Round round, const Post& post) {
  post(Evaluated{round, all_figures(*base_.objective, parameters(), rows_.get())});
}

void Replica::run_one(const op::Update& o, const Post&) {
  const auto g = at(o.slot, o.range);
  if (skips_update_) return clear_gradient(o.range);
  optimizer_->step(o.place, o.range.begin, at(kParameters, o.range), g, g);
}

void Replica::run_one(const op::Step& o, const Post&) {
  const op::Update& u = o.update;
  if (!skips_update_)
    optimizer_->apply(u.place, u.range.begin, at(kParameters, u.range), at(u.slot, u.range));
}

void Replica::run_one(const op::Clip& o, const Post&) {
  const auto g = at(kGradient, o.range);
  if (!std::isfinite(compress::l2_norm(g))) throw Diverged("the gradient is not finite");
  compress::clip_locally(g, o.limit, 1);
}

void Replica::run_one(const op::Combine& o, const Post&) { combine(o, 0, o.range.size); }

/// Of so many entries of its range.
void Replica::combine(const op::Combine& o, std::size_t begin, std::size_t size) {
  for (std::size_t b = begin; b < begin + size; b += kBlock) {
    const std::size_t n = std::min(kBlock, begin + size - b);
    float* dst = whole(o.dst).data() + o.range.begin + b;
    scale(o.keep, dst, n);
    for (const auto& [factor, src] : o.terms) {
      assert(src != o.dst);
      compress::axpy(factor, at(src, {o.range.begin + b, n}), {dst, n});
    }
  }
}

bool Replica::tells_difference(const op::Encode& o) const {
  const bool plain = !observer_ && !attack_.attacks() && o.feedback < 0 && o.add_error_to < 0;
  return plain && o.minus && o.minus == o.apply_to;
}

/// make: as of Codec.
void Replica::encode_difference(const op::Encode& o, const compress::Codec::Make& make, const Post& post) {
  Payload payload =
      encoder_.encode_difference(o, at(o.src, o.range), at(*o.minus, o.range), workspace_, make);
  post(Encoded{o.round, o.parcel, o.tag, o.range.size, std::move(payload)});
}

void Replica::run_one(const op::StepEncode& o, const Post& post) {
  const op::Update& u = o.update;
  if (skips_update_ || o.encode.src != kParameters || !tells_difference(o.encode)) {
    run_one(op::Step{u}, post);
    return run_one(o.encode, post);
  }
  const auto step =
      optimizer_->apply_in_pieces(u.place, u.range.begin, at(kParameters, u.range), at(u.slot, u.range));
  encode_difference(o.encode, step, post);
}

void Replica::run_one(const op::StepBySum& o, const Post& post) {
  const op::Update& u = o.update;
  std::vector<compress::WeightedPayload> payloads;
  for (const auto& [weight, payload] : o.payloads) payloads.push_back({weight, *payload});
  if (!optimizer_->is_idle_without_gradient() || !compress::add_few(payloads, u.range.size, few_)) {
    run_one(op::Combine{u.range, u.slot, 0, {}}, post);
    for (const auto& [weight, payload] : o.payloads)
      run_one(op::DecodeAdd{u.range, u.slot, weight, payload}, post);
    return run_one(op::Step{u}, post);
  }
  const auto x = at(kParameters, u.range);
  stepped_.resize(few_.indices.size());
  for (std::size_t k = 0; k < stepped_.size(); ++k) stepped_[k] = x[few_.indices[k]];
  optimizer_->apply(u.place, u.range.begin, stepped_, few_.values);
  for (std::size_t k = 0; k < stepped_.size(); ++k) x[few_.indices[k]] = stepped_[k];
}

void Replica::run_one(const op::StepByParts& o, const Post& post) {
  assert(!skips_update_);  // it is of all peers' gradients
  bool in_blocks = false;
  for (const auto& [u, parts] : o.steps) {
    const auto step = optimizer_->apply_in_blocks(u.place, u.range.begin, at(kParameters, u.range));
    if (!(in_blocks = static_cast<bool>(step))) break;
    for (const auto& [range, payload] : parts)
      compress::read_in_blocks(
          *payload, range.size,
          [&, begin = range.begin - u.range.begin](std::size_t first, std::span<const float> g) {
            step(begin + first, g);
          },
          team_.get());
  }
  if (in_blocks) return;
  for (const Op& simple : op::in_simple_ones(o))
    std::visit([&](const auto& one) { run_one(one, post); }, simple);
}

void Replica::run_one(const op::Encode& o, const Post& post) {
  if (tells_difference(o)) return encode_difference(o, {}, post);
  std::span<const float> v = at(o.src, o.range);
  if (o.minus) {
    if (difference_.size() < o.range.size) difference_.resize(o.range.size);
    const auto m = at(*o.minus, o.range);
    for (std::size_t i = 0; i < o.range.size; ++i) difference_[i] = v[i] - m[i];
    v = {difference_.data(), o.range.size};
  }
  v = attack_.corrupt(v, o);
  if (observer_) observer_->before_encode(base_.peer, o, v, encoder_.unsent(o));
  Payload payload = encoder_.encode(o, v, workspace_);
  if (observer_) observer_->after_encode(base_.peer, o, encoder_.unsent(o), payload);
  if (o.apply_to) compress::decode_add(*payload, 1.0f, at(*o.apply_to, o.range), team_.get());
  post(Encoded{o.round, o.parcel, o.tag, o.range.size, attack_.spoil(std::move(payload), o.range.size)});
}

void Replica::run_one(const op::DecodeAdd& o, const Post&) {
  if (attack_.spoiled(o.payload)) return;
  compress::decode_add(*o.payload, o.weight, at(o.dst, o.range), team_.get());
}

void Replica::run_one(const op::Mix& o, const Post& post) {
  std::vector<compress::WeightedPayload> payloads;
  for (const auto& [weight, payload] : o.payloads) payloads.push_back({weight, *payload});
  optim::Optimizer::Pieces step;
  if (o.step && !skips_update_)
    step = optimizer_->apply_in_pieces(o.step->place, o.range.begin, at(kParameters, o.range),
                                       at(o.step->slot, o.range));
  const auto after = [&](std::size_t begin, std::size_t size) {
    if (step) step(begin, size);
    combine(o.then, begin, size);
  };
  if (o.encode && !team_ && tells_difference(*o.encode))
    if (compress::JointDecoder joint(payloads, at(o.dst, o.range), after); joint)
      return encode_difference(
          *o.encode, [&](std::size_t first, std::size_t n) { joint.reach(first + n); }, post);
  compress::decode_add(payloads, at(o.dst, o.range), after, team_.get());
  if (o.encode) run_one(*o.encode, post);
}

void Replica::run_one(const op::Decode& o, const Post&) {
  compress::decode_to(*o.payload, at(o.dst, o.range), team_.get());
}

void Replica::run_one(const op::PassOn& o, const Post& post) {
  Payload payload = encoder_.pass_on(o, at(o.src, o.range), team_.get());
  post(Encoded{o.round, o.parcel, o.tag, o.range.size, std::move(payload)});
}

void Replica::run_one(const op::Merge& o, const Post& post) {
  if (std::optional<Payload> sum = encoder_.merge(o, workspace_))
    return post(Encoded{o.round, o.parcel, 0, o.range.size, std::move(*sum)});
  for (const Op& simple : op::in_simple_ones(o))
    std::visit([&](const auto& one) { run_one(one, post); }, simple);
}

void Replica::run_one(const op::Extended& o, const Post& post) {
  assert(extension_);
  extension_->run(
      o.command, [this](Slot s, Range r) { return at(s, r); }, post);
}

void Replica::run_one(const op::EncodeRows& o, const Post& post) { rows_->run(o, workspace_, post); }
void Replica::run_one(const op::PushRows& o, const Post&) { rows_->run(o); }

void Replica::run_one(const op::Measure& o, const Post& post) {
  post(Measured{o.round, compress::l2_norm(parameters())});
}

void Replica::run_one(const op::Aggregate& o, const Post&) {
  rule_.run(
      o, [&](Range r) { return at(o.dst, r); }, team_.get());
}

}  // namespace gossamer::node
