// The frame of an exchange every H rounds. After the step of round t a parcel's outer round begins: the
// method offers a message. Its result is due τ = exchange.outer_delay rounds later, while training goes on:
//
//   τ = 0    x ← φ
//   τ > 0    x ← x + (φ − x at the outer round)
//
// With τ > 0 what the peer learned meanwhile is kept on top of the new φ, so that every inner step enters
// exactly one outer gradient, x at the next outer round against φ. (Where Douillard et al. 2025, "Streaming
// DiLoCo", blend the two at one half, half of those steps is lost.)
//
// τ < H: a parcel has one outer round under way at a time.
#include "outer.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "message_state.h"
#include "method.h"

namespace gossamer::node {

Fragments::Fragments(std::size_t steps, std::size_t count, const SharedList<Parcel>& parcels)
    : steps_(steps), count_(count) {
  assert(count >= 1 && count <= steps);
  std::size_t all = 0, before = 0;
  for (const Parcel& p : parcels) all += p.range.size;
  for (const Parcel& p : parcels) {  // neighbours in the model stay together; where a parcel's middle lies
    of_parcel_.push_back(count * (2 * before + p.range.size) / (2 * all));
    before += p.range.size;
  }
}

std::optional<Round> Fragments::exchange(Round round, ParcelId parcel) const {
  const Round done = round + 1, offset = of_parcel_[parcel] * steps_ / count_;
  if (done < offset || (done - offset) % steps_ != 0) return std::nullopt;
  return (done - offset) / steps_ - (offset == 0 ? 1 : 0);
}

bool one_mean(const topology::Schedule& schedule) {
  constexpr float kNear = 1e-6f;
  if (schedule.time_varying()) return false;
  const auto& w = schedule.at(0);
  const auto peers = static_cast<PeerId>(w.peers());
  for (PeerId i = 0; i < peers; ++i) {
    if (w.in(i).size() + 1 != peers) return false;
    for (const auto& e : w.in(i))
      if (std::abs(e.weight - w.self_weight(e.peer)) > kNear) return false;
  }
  return true;
}

std::vector<double> outer_shares(const topology::Schedule& schedule) {
  std::vector<double> shares;
  for (std::size_t t = 0; t < schedule.period(); ++t) {
    float least = 1;
    for (PeerId i = 0; i < schedule.peers(); ++i) least = std::min(least, schedule.at(t).self_weight(i));
    shares.push_back(least < 0.5f ? 0.5f / (1 - least) : 1);
  }
  return shares;
}

Outer::Outer(ExchangeHost& host)
    : host_(host),
      own_(host.plan().parcels.size()),
      delay_(host.plan().exchange.outer_delay),
      fragments_(local_steps(host.plan().exchange), host.plan().exchange.fragments, host.plan().parcels),
      stepped_(host.plan().parcels.size(), false) {}

std::optional<Outer::OuterRound> Outer::begins(Round round, ParcelId parcel) const {
  const auto number = fragments_.exchange(round, parcel);
  return number ? std::optional(OuterRound{*number, round, parcel}) : std::nullopt;
}

std::optional<Outer::OuterRound> Outer::due(ParcelId parcel) const {
  return round_ >= delay_ ? begins(round_ - delay_, parcel) : std::nullopt;
}

std::vector<Op> Outer::on_ready(Round round, ParcelId parcel) {
  const Range r = range(parcel);
  std::vector<Op> ops{host_.step(r, round)};
  const auto outer_round = begins(round, parcel);
  if (!outer_round) return ops;
  if (delay_ > 0) ops.push_back(op::Combine{r, at_outer_round(), 0, {{1.0f, kParameters}}});
  const std::vector<Op> offered = offer(*outer_round);
  ops.insert(ops.end(), offered.begin(), offered.end());
  return ops;
}

void Outer::on_parcel_ready(Round, ParcelId parcel) {
  stepped_[parcel] = true;
  advance(parcel);
}

void Outer::on_encoded(const Encoded& e) {
  own_[e.parcel] = e.payload;
  const auto outer_round = begins(e.round, e.parcel);
  assert(outer_round);
  for (const PeerId to : weights(*outer_round).out(host_.plan().self))
    host_.send(to, {e.round, e.parcel, e.tag, e.entries, e.payload});
}

void Outer::begin_round(Gradient& gradient) {
  round_ = gradient.round;
  while (!waiting_.empty() && std::get<0>(waiting_.begin()->first) + delay_ < round_) {
    host_.consumed(std::get<2>(waiting_.begin()->first), waiting_.begin()->second);  // came a second time
    waiting_.erase(waiting_.begin());
  }
}

Verdict Outer::judge(PeerId from, Round round, ParcelId parcel, std::uint32_t tag) const {
  if (tag != 0) return Verdict::never(Refusal::tag);
  const auto outer_round = begins(round, parcel);
  if (!outer_round) return Verdict::never(Refusal::round);
  const auto row = weights(*outer_round).in(host_.plan().self);
  const auto& schedule = host_.plan().schedule;
  // whom this peer does not send to hears of its outer rounds through others
  const Round outer_rounds = 1 + schedule.period() * schedule.peers();
  if (std::none_of(row.begin(), row.end(), [&](const auto& e) { return e.peer == from; }) ||
      round > round_ + outer_rounds * local_steps(host_.plan().exchange))
    return Verdict::never(Refusal::round);
  if (round + delay_ < round_ || waiting_.contains(Key{round, parcel, from})) return Verdict::past();
  return Verdict::now(range(parcel).size);
}

void Outer::on_message(PeerId from, Message message) {
  const ParcelId parcel = message.parcel;
  const Key key{message.round, parcel, from};
  waiting_.emplace(key, std::move(message));
  advance(parcel);
}

bool Outer::complete(const OuterRound& m) const {
  const auto row = weights(m).in(host_.plan().self);
  return std::all_of(row.begin(), row.end(), [&](const auto& e) {
    return waiting_.contains(Key{m.round, m.parcel, e.peer});
  });
}

std::vector<Awaited> Outer::awaits() const {
  std::vector<Awaited> awaited;
  for (ParcelId p = 0; p < stepped_.size(); ++p) {
    const auto m = stepped_[p] ? due(p) : std::nullopt;
    if (!m) continue;
    for (const auto& e : weights(*m).in(host_.plan().self))
      if (!waiting_.contains(Key{m->round, p, e.peer})) awaited.push_back({e.peer, m->round, p});
  }
  return awaited;
}

void Outer::archive(Archive archive) {
  archive.value("round", round_);
  archive_payloads(archive.part("own"), own_);
  std::vector<std::pair<PeerId, Message>> waiting;
  for (const auto& [key, message] : waiting_) waiting.emplace_back(std::get<2>(key), message);
  archive_messages(
      archive.part("inbox"),
      [&](PeerId p) { return p < host_.plan().schedule.peers() ? host_.plan().parcels.size() : 0; }, waiting);
  if (!archive.restores()) return;
  waiting_.clear();
  for (auto& [from, message] : waiting) {
    const Key key{message.round, message.parcel, from};
    waiting_.emplace(key, std::move(message));
  }
}

void Outer::advance(ParcelId parcel) {
  if (!stepped_[parcel]) return;
  if (const auto m = due(parcel)) {
    if (!complete(*m)) return;
    absorb(*m);
    if (delay_ == 0)
      host_.submit(op::Combine{range(parcel), kParameters, 0, {{1.0f, kOuter}}});
    else
      host_.submit(op::Combine{range(parcel), kParameters, 1, {{1.0f, kOuter}, {-1.0f, at_outer_round()}}});
    host_.saw_staleness(delay_);
  }
  stepped_[parcel] = false;
  host_.mixed(parcel);
}

Op Outer::encode(const OuterRound& m, Slot src, std::optional<Slot> minus, bool exact, int feedback) const {
  return op::Encode{.range = range(m.parcel),
                    .src = src,
                    .minus = minus,
                    .apply_to = {},
                    .feedback = feedback,
                    .exact = exact,
                    .round = m.round,
                    .parcel = m.parcel};
}

Payload Outer::take(const OuterRound& m, PeerId from) {
  const auto at = waiting_.find(Key{m.round, m.parcel, from});
  Message message = std::move(at->second);
  waiting_.erase(at);
  host_.consumed(from, message);
  return std::move(message.payload);
}

void Outer::add_mean(const OuterRound& m, Slot slot) {
  const auto& w = weights(m);
  for (PeerId j = 0; j < w.peers(); ++j) {
    // All read peer j's weight in the same row, whose last bit may differ from another row's.
    const PeerId reader = j == 0 ? 1 : 0;
    float weight = 1;
    if (w.peers() > 1)
      for (const auto& e : w.in(reader))
        if (e.peer == j) weight = e.weight;
    const Payload payload = j == host_.plan().self ? own_[m.parcel] : take(m, j);
    host_.submit(op::DecodeAdd{range(m.parcel), slot, weight, payload});
  }
}

void Outer::add_neighbours(const OuterRound& m, Slot slot, float scale) {
  for (const auto& e : weights(m).in(host_.plan().self))
    host_.submit(op::DecodeAdd{range(m.parcel), slot, scale * e.weight, take(m, e.peer)});
}

}  // namespace gossamer::node
