#include "replica_base.h"

#include <cassert>
#include <cmath>
#include <utility>

#include "hash.h"
#include "learned_state.h"
#include "row_exchange.h"

namespace gossamer::node {
namespace {

/// As the alternatives of Op stand.
constexpr const char* kOpNames[] = {
    "update", "update",    "clip",     "mix",         "encode",    "update and encode",
    "update", "update",    "decode",   "mix",         "decode",    "pass on",
    "merge",  "aggregate", "extended", "encode rows", "push rows", "measure"};
static_assert(std::size(kOpNames) == std::variant_size_v<Op>);

template <class AnyOp>
void describe(const AnyOp& o, TraceSpan& span) {
  if constexpr (requires { o.encode.parcel; }) return describe(o.encode, span);
  if constexpr (requires { o.update; }) return describe(o.update, span);
  if constexpr (requires { o.parcel; }) span.parcel = static_cast<std::int64_t>(o.parcel);
  if constexpr (requires { o.round; }) span.round = static_cast<std::int64_t>(o.round);
  if constexpr (requires { o.range; }) span.bytes = static_cast<std::int64_t>(o.range.size * sizeof(float));
}

}  // namespace

ReplicaBase::ReplicaBase(ReplicaBaseParts parts, std::span<const float> x0, const Buffers& buffers)
    : base_(std::move(parts)), buffers_(buffers), attack_(base_.attack, base_.seed, base_.peer) {
  assert(x0.size() == base_.objective->buffer_size());
  if (buffers.extension) extension_ = buffers.extension({x0, base_.rate});
  parcels_of_layer_.resize(base_.objective->layers().size());
  for (ParcelId p = 0; p < base_.parcels.size(); ++p) parcels_of_layer_[base_.parcels[p].layer].push_back(p);
}

// --- what it keeps

void ReplicaBase::archive(Archive archive) {
  archive_learned(archive);
  const std::size_t scratch = 2 + buffers_.slots;
  for (Slot s = kParameters + 1; s < slots(); ++s)
    if (s < scratch || s >= scratch + buffers_.scratch) archive_slot(archive, "slot" + std::to_string(s), s);
  archive_unsent(archive);
  attack_.archive(archive.part("attack"));
  if (extension_) extension_->archive(archive.part("extension"));
  archive_private(archive, *base_.objective);
}

/// What does not depend on whom the peer exchanges with, and how.
void ReplicaBase::archive_learned(Archive archive) {
  archive_slot(archive, "slot" + std::to_string(kParameters), kParameters);
  OptimizerState optimizer(archive.part("optimizer"));
  show_optimizer(optimizer);
  archive_objective(archive, *base_.objective);
  archive.value("steps", steps_);
}

State ReplicaBase::save(State used) {
  State state;
  archive(Archive::saving(state, &used).part("data"));
  return state;
}

State ReplicaBase::save_learned() {
  State state;
  archive_learned(Archive::saving(state).part("data"));
  return state;
}

State ReplicaBase::save_for_next_view(std::span<const Incarnation> seats, bool with_gradient) {
  RowExchange* const rows = row_exchange();
  if (rows) rows->end_view();
  State state = save_learned();
  if (rows) rows->archive_untold(own_rows(Archive::saving(state)));
  if (extension_) extension_->save_own(Archive::saving(state).part("data").part("own"), seats);
  if (with_gradient && loss_of_g_) {
    Archive own = own_gradient(Archive::saving(state));
    own.value("loss", *loss_of_g_);
    archive_slot(own, "g", kGradient);
  }
  return state;
}

/// A loop computes its own, and rows of a table go another way.
bool ReplicaBase::hands_on_gradients() const {
  return buffers_.keeps_gradient && !base_.objective->keeps_private() && !rows();
}

void ReplicaBase::restore(const State& state, Kept kept) {
  const Archive from = Archive::restoring(state).part("data");
  if (kept == Kept::all) return archive(from);
  archive_learned(from);
  handed_on_ = hands_on_gradients() && has_own_gradient(state);
  if (handed_on_) {
    Archive own = own_gradient(Archive::restoring(state));
    own.value("loss", loss_of_g_.emplace());
    archive_slot(own, "g", kGradient);
  }
  if (RowExchange* const rows = row_exchange(); rows && has_own_rows(state))
    rows->archive_untold(own_rows(Archive::restoring(state)));
  if (buffers_.anchored) return;
  spread_parameters();
  if (buffers_.extension) extension_ = buffers_.extension({parameters(), base_.rate});
  if (extension_) restore_own(*extension_, state);
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

// --- a round

void ReplicaBase::run(const Op& op, const Post& post) {
  const auto is = [&]<class... Kinds>() { return (std::holds_alternative<Kinds>(op) || ...); };
  const auto* mix = std::get_if<op::Mix>(&op);
  const bool mix_steps = mix && mix->step;
  if (is.template operator()<op::Update, op::Step, op::StepEncode, op::StepBySum, op::StepByParts>() ||
      mix_steps) {
    loss_of_g_.reset();
    stepped_ = true;
  }
  const double begin = trace_ ? steady_seconds() : 0;
  if (mix_steps) skips_update_ = left_out_.contains(mix->range.begin);
  execute(op, post);
  if (mix_steps) skips_update_ = false;
  if (!trace_) return;
  TraceSpan span{kOpNames[op.index()], TraceSpan::Track::work, begin, steady_seconds(),
                 static_cast<std::int64_t>(round_)};
  std::visit([&](const auto& o) { describe(o, span); }, op);
  trace_->add(std::move(span));
}

std::optional<ParcelId> ReplicaBase::waits_for(const Op& op) const {
  const auto* mix = std::get_if<op::Mix>(&op);
  const auto found = mix && mix->step ? under_way_.find(mix->range.begin) : under_way_.end();
  return found == under_way_.end() ? std::nullopt : std::optional(found->second);
}

void ReplicaBase::run(const Gradient& gradient, const Post& post,
                      const std::function<void()>& between_layers) {
  if (observer_) observer_->on_gradient(base_.peer, gradient);
  round_ = gradient.round;
  left_out_.clear();
  stepped_ = false;
  if (gradient.steps_in_mix && !gradient.idle)
    for (ParcelId p = 0; p < base_.parcels.size(); ++p) under_way_[base_.parcels[p].range.begin] = p;
  if (std::exchange(handed_on_, false) && !gradient.idle) return take_up(gradient, post, between_layers);
  loss_of_g_.reset();
  if (gradient.idle) return stand_idle(gradient, post);
  const auto models = teachers(gradient.soft);
  const optim::BatchKey key{steps_++ - taken_up_, attack_.flips_labels(), gradient.soft.weight, models,
                            &between_layers};
  bool skipped = false;
  const auto on_layer = [&](std::size_t layer) {
    skipped |= make_ready(gradient, layer, post);
    between_layers();
  };
  const double begin = trace_ ? steady_seconds() : 0;
  const auto [loss, rows_taken, left_out] =
      base_.objective->gradient(whole(kParameters), key, whole(kGradient), on_layer);
  if (trace_)
    trace_->add({"gradient", TraceSpan::Track::work, begin, steady_seconds(),
                 static_cast<std::int64_t>(gradient.round)});
  if (observer_) observer_->on_rows(base_.peer, base_.objective->batch_rows());
  const bool idle = left_out && rows_taken == 0;  // there were no data, and none are waited for
  skipped |= (left_out && !idle) || !std::isfinite(loss);
  if (rows()) {
    for (const Op& o : gradient.on_ready.back()) run(o, post);
    post(ParcelReady{gradient.round, static_cast<ParcelId>(base_.parcels.size())});
  }
  if (hands_on_gradients() && !skipped && !idle && !stepped_) loss_of_g_ = loss;
  post(GradientDone{gradient.round, loss, rows_taken, skipped, idle});
}

/// What a parcel's commands read of the gradient: where its layer is clipped, those of the first read it all.
Range ReplicaBase::gradient_read(const std::vector<Op>& on_ready, ParcelId parcel) const {
  for (const Op& o : on_ready)
    if (const auto* clip = std::get_if<op::Clip>(&o)) return clip->range;
  return base_.parcels[parcel].range;
}

/// The gradient is looked at just before a parcel's commands read it, and is zero where it was not finite.
/// Whether any was.
bool ReplicaBase::make_ready(const Gradient& gradient, std::size_t layer, const Post& post) {
  bool left_out = false;
  const auto& parcels = parcels_of_layer_[layer];
  for (auto p = parcels.rbegin(); p != parcels.rend(); ++p) {
    const Range range = gradient_read(gradient.on_ready[*p], *p);
    skips_update_ = !all_finite(range);
    if (skips_update_) {
      clear_gradient(range);
      left_out_.insert(base_.parcels[*p].range.begin);
    }
    left_out |= skips_update_;
    for (const Op& o : gradient.on_ready[*p]) run(o, post);
    under_way_.erase(base_.parcels[*p].range.begin);
    post(ParcelReady{gradient.round, *p});
  }
  skips_update_ = false;
  return left_out;
}

/// The view before took the batch: to the objective there was none.
void ReplicaBase::take_up(const Gradient& gradient, const Post& post,
                          const std::function<void()>& between_layers) {
  ++steps_, ++taken_up_;
  const double loss = *loss_of_g_;  // that is gone with a step between two layers
  for (std::size_t layer = parcels_of_layer_.size(); layer-- > 0;) {
    make_ready(gradient, layer, post);  // finite, or it would not have been handed on
    between_layers();
  }
  post(GradientDone{.round = gradient.round, .loss = loss, .rows = 0});
}

void ReplicaBase::stand_idle(const Gradient& gradient, const Post& post) {
  clear_gradient({0, base_.objective->buffer_size()});
  skips_update_ = true;
  for (const Parcel& p : base_.parcels) left_out_.insert(p.range.begin);
  for (std::size_t p = gradient.on_ready.size(); p-- > 0;) {
    for (const Op& o : gradient.on_ready[p]) run(o, post);
    post(ParcelReady{gradient.round, static_cast<ParcelId>(p)});
  }
  skips_update_ = false;
  post(GradientDone{.round = gradient.round, .loss = 0, .rows = 0, .idle = true});
}

}  // namespace gossamer::node
