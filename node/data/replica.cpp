#include "replica.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>

#include "gossamer/compress/feedback.h"
#include "gossamer/compress/kernels.h"
#include "gossamer/optim/finite.h"
#include "hash.h"
#include "learned_state.h"

namespace gossamer::node {
namespace {

/// Floats that are combined at a time, so that a block stays in the first-level cache over all its terms.
constexpr std::size_t kBlock = 2048;

/// As the alternatives of Op stand.
constexpr const char* kOpNames[] = {"update",    "clip",     "mix",         "encode",    "decode",
                                    "aggregate", "extended", "encode rows", "push rows", "measure"};
static_assert(std::size(kOpNames) == std::variant_size_v<Op>);

template <class AnyOp>
void describe(const AnyOp& o, TraceSpan& span) {
  if constexpr (requires { o.parcel; }) span.parcel = static_cast<std::int64_t>(o.parcel);
  if constexpr (requires { o.round; }) span.round = static_cast<std::int64_t>(o.round);
  if constexpr (requires { o.range; }) span.bytes = static_cast<std::int64_t>(o.range.size * sizeof(float));
}

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
    : parts_(std::move(parts)),
      encoder_(std::move(parts_.codecs), parts_.parcels, parts_.seed, parts_.peer, parts_.planted),
      team_(parts_.threads > 1 ? std::make_unique<compress::Threads>(parts_.threads) : nullptr),
      workspace_(team_.get()),
      rule_(parts_.aggregate),
      attack_(parts_.attack, parts_.seed, parts_.peer) {
  const std::size_t n = parts_.objective->buffer_size();
  assert(x0.size() == n);
  buffers_ = buffers;
  if (buffers.extension) extension_ = buffers.extension({x0, parts_.rate});
  if (parts_.rows)
    rows_ = std::make_unique<RowExchange>(*parts_.rows, parts_.peers, parts_.peer, parts_.seed,
                                          *parts_.objective->keyed_rows(), parts_.planted);
  slots_.resize(2 + buffers.slots);
  for (auto& s : slots_) s.assign(x0.begin(), x0.end());
  std::fill(slots_[kGradient].begin(), slots_[kGradient].end(), 0.0f);
  for (const std::size_t size : parts_.peer_sizes) slots_.emplace_back(size);
  parcels_of_layer_.resize(parts_.objective->layers().size());
  for (ParcelId p = 0; p < parts_.parcels.size(); ++p)
    parcels_of_layer_[parts_.parcels[p].layer].push_back(p);
}

void Replica::archive(Archive archive) {
  archive_learned(archive);
  for (std::size_t s = kParameters + 1; s < slots_.size(); ++s)
    archive.floats("slot" + std::to_string(s), std::span<float>(slots_[s]));
  encoder_.archive(archive.part("encoder"));
  attack_.archive(archive.part("attack"));
  if (extension_) extension_->archive(archive.part("extension"));
  if (rows_) rows_->archive(archive.part("rows"));
  archive_private(archive, *parts_.objective);
}

std::vector<float> parameters_in(const State& state) {
  std::vector<float> x;
  Archive::restoring(state).floats(kParametersArray, x);
  return x;
}

Learned learned_bytes(const State& state) {
  auto bytes = std::make_shared<const std::vector<std::byte>>(to_bytes(state));
  const std::uint64_t hash = hash_bytes(*bytes);
  return {std::move(bytes), hash};
}

State Replica::save(State used) {
  State state;
  archive(Archive::saving(state, &used).part("data"));
  return state;
}

State Replica::save_learned() {
  State state;
  archive_learned(Archive::saving(state).part("data"));
  return state;
}

State Replica::save_for_next_view(std::span<const Incarnation> seats) {
  State state = save_learned();
  if (extension_) extension_->save_own(Archive::saving(state).part("data").part("own"), seats);
  return state;
}

void Replica::restore(const State& state, Kept kept) {
  const Archive from = Archive::restoring(state).part("data");
  if (kept == Kept::all) return archive(from);
  archive_learned(from);
  if (buffers_.anchored) return;
  for (std::size_t s = 0; s < buffers_.slots; ++s) slots_[2 + s] = slots_[kParameters];
  if (buffers_.extension) extension_ = buffers_.extension({slots_[kParameters], parts_.rate});
  if (extension_) restore_own(*extension_, state);
}

/// What does not depend on whom the peer exchanges with, and how.
void Replica::archive_learned(Archive archive) {
  archive.floats("slot" + std::to_string(kParameters), std::span<float>(slots_[kParameters]));
  OptimizerState optimizer(archive.part("optimizer"));
  parts_.optimizer->show(optimizer);
  archive_objective(archive, *parts_.objective);
  archive.value("steps", steps_);
}

void Replica::use_threads(std::size_t threads) {
  team_ = threads > 1 ? std::make_unique<compress::Threads>(threads) : nullptr;
  workspace_ = compress::Workspace(team_.get());
}

std::vector<float> Replica::unsent(int feedback) const {
  std::vector<float> total(parts_.objective->buffer_size());
  encoder_.add_unsent(feedback, total);
  return total;
}

void Replica::run(const Op& op, const Post& post) {
  const double begin = trace_ ? steady_seconds() : 0;
  std::visit([&](const auto& o) { run_one(o, post); }, op);
  if (trace_) {
    TraceSpan span{kOpNames[op.index()], TraceSpan::Track::work, begin, steady_seconds(),
                   static_cast<std::int64_t>(traced_round_)};
    std::visit([&](const auto& o) { describe(o, span); }, op);
    trace_->add(std::move(span));
  }
  if (observer_) observer_->on_op(parts_.peer, op, *this);
}

void Replica::run(const Gradient& gradient, const Post& post, const std::function<void()>& between_layers) {
  if (observer_) observer_->on_gradient(parts_.peer, gradient);
  if (gradient.idle) return stand_idle(gradient, post);
  const auto models = teachers(gradient.soft);
  const optim::BatchKey key{steps_++, attack_.flips_labels(), gradient.soft.weight, models, &between_layers};
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
  traced_round_ = gradient.round;
  const double begin = trace_ ? steady_seconds() : 0;
  const auto [loss, rows, left_out] =
      parts_.objective->gradient(slots_[kParameters], key, slots_[kGradient], on_layer);
  if (trace_)
    trace_->add({"gradient", TraceSpan::Track::work, begin, steady_seconds(),
                 static_cast<std::int64_t>(gradient.round)});
  if (observer_) observer_->on_rows(parts_.peer, parts_.objective->batch_rows());
  skipped |= left_out || !std::isfinite(loss);
  if (rows_) {
    for (const Op& o : gradient.on_ready.back()) run(o, post);
    post(ParcelReady{gradient.round, static_cast<ParcelId>(parts_.parcels.size())});
  }
  post(GradientDone{gradient.round, loss, rows, skipped});
}

void Replica::stand_idle(const Gradient& gradient, const Post& post) {
  std::fill(slots_[kGradient].begin(), slots_[kGradient].end(), 0.0f);
  skips_update_ = true;
  for (std::size_t p = gradient.on_ready.size(); p-- > 0;) {
    for (const Op& o : gradient.on_ready[p]) run(o, post);
    post(ParcelReady{gradient.round, static_cast<ParcelId>(p)});
  }
  skips_update_ = false;
  post(GradientDone{.round = gradient.round, .loss = 0, .rows = 0, .idle = true});
}

/// Whether the layer's gradient was not finite; then it is zero.
bool Replica::drop_not_finite(std::size_t layer) {
  const optim::Layer& l = parts_.objective->layers()[layer];
  const auto g = at(kGradient, {l.offset, l.size});
  if (optim::all_finite(g)) return false;
  std::fill(g.begin(), g.end(), 0.0f);
  return true;
}

std::vector<optim::Teacher> Replica::teachers(const SoftLabels& soft) const {
  const std::size_t first_of_peers = slots_.size() - parts_.peer_sizes.size();
  std::vector<optim::Teacher> models;
  for (const auto& [weight, s] : soft.models)
    models.push_back({weight, slot(s), s < first_of_peers ? 0 : 1 + s - first_of_peers});
  return models;
}

void Replica::evaluate(Round round, const Post& post) {
  post(Evaluated{round, all_figures(*parts_.objective, parameters(), rows_.get())});
}

void Replica::run_one(const op::Update& o, const Post&) {
  const auto g = at(kGradient, o.range);
  if (skips_update_) return std::fill(g.begin(), g.end(), 0.0f);
  parts_.optimizer->step(o.place, o.range.begin, at(kParameters, o.range), g, g);
}

void Replica::run_one(const op::Clip& o, const Post&) {
  const auto g = at(kGradient, o.range);
  if (!std::isfinite(compress::l2_norm(g))) throw Diverged("the gradient is not finite");
  compress::clip_locally(g, o.limit, 1);
}

void Replica::run_one(const op::Combine& o, const Post&) {
  for (std::size_t b = 0; b < o.range.size; b += kBlock) {
    const std::size_t n = std::min(kBlock, o.range.size - b);
    float* dst = slots_[o.dst].data() + o.range.begin + b;
    scale(o.keep, dst, n);
    for (const auto& [factor, src] : o.terms) {
      assert(src != o.dst);
      compress::axpy(factor, {slots_[src].data() + o.range.begin + b, n}, {dst, n});
    }
  }
}

void Replica::run_one(const op::Encode& o, const Post& post) {
  std::span<const float> v = at(o.src, o.range);
  if (o.minus) {
    if (difference_.size() < o.range.size) difference_.resize(o.range.size);
    const auto m = at(*o.minus, o.range);
    for (std::size_t i = 0; i < o.range.size; ++i) difference_[i] = v[i] - m[i];
    v = {difference_.data(), o.range.size};
  }
  v = attack_.corrupt(v, o);
  if (observer_) observer_->before_encode(parts_.peer, o, v, encoder_.unsent(o));
  Payload payload = encoder_.encode(o, v, workspace_);
  if (observer_) observer_->after_encode(parts_.peer, o, encoder_.unsent(o), payload);
  if (o.apply_to) compress::decode_add(*payload, 1.0f, at(*o.apply_to, o.range), team_.get());
  post(Encoded{o.round, o.parcel, o.tag, o.range.size, attack_.spoil(std::move(payload), o.range.size)});
}

void Replica::run_one(const op::DecodeAdd& o, const Post&) {
  if (attack_.spoiled(o.payload)) return;
  compress::decode_add(*o.payload, o.weight, at(o.dst, o.range), team_.get());
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

void Replica::run_one(const op::Aggregate& o, const Post&) { rule_.run(o, slots_[o.dst], team_.get()); }

}  // namespace gossamer::node
