#include "gossip.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <utility>

#include "message_state.h"
#include "method.h"

namespace gossamer::node {

namespace {

/// A neighbour that hears this peer in every round waits for it; elsewhere news of a round that has ended may
/// have to pass through all the others.
Round most_ahead(const Plan& plan) {
  const Round each = plan.exchange.staleness.value_or(0) + 1 + (plan.exchange.overlap ? 1 : 0);
  const topology::Schedule& s = plan.schedule;
  if (!s.time_varying() && plan.reversible) return each;
  return each * s.period() * s.peers();
}

/// Those that may send, and those that are sent to.
std::vector<PeerId> in_touch(const Plan& plan) {
  std::vector<PeerId> peers = plan.schedule.links(plan.self);
  const std::vector<PeerId> owing = plan.owing(plan.self);
  peers.insert(peers.end(), owing.begin(), owing.end());
  std::sort(peers.begin(), peers.end());
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  return peers;
}

}  // namespace

Gossip::Gossip(ExchangeHost& host, std::uint32_t vectors)
    : host_(host),
      vectors_(vectors),
      local_steps_(local_steps(host.plan().exchange)),
      most_ahead_(most_ahead(host.plan())),
      inboxes_(in_touch(host.plan())) {
  const Plan& plan = host.plan();
  stepped_.assign(plan.parcels.size(), false);
  ahead_.assign(plan.parcels.size(), false);
  for (auto& of_parcels : inboxes_) of_parcels.resize(plan.parcels.size() * vectors);
}

void Gossip::begin_round(Gradient& gradient) {
  round_ = gradient.round;
  if (!overlaps(round_)) return;
  const auto parcels = static_cast<ParcelId>(host_.plan().parcels.size());
  for (ParcelId p = 0; p < parcels; ++p) {
    if (!ahead_[p])
      for (Op& o : offer(round_, p)) host_.submit(std::move(o));
    ahead_[p] = false;
  }
}

/// The next round's offer of a parcel is made once it has been mixed.
bool Gossip::goes_ahead() const {
  return offers_ahead() && overlaps(round_) && overlaps(round_ + 1) && host_.goes_ahead(round_ + 1);
}

std::vector<Op> Gossip::own_step(Round round, ParcelId parcel) const {
  if (overlaps(round)) return {host_.update(range(parcel), round)};
  std::vector<Op> ops{host_.step(range(parcel), round)};
  if (idle(round)) return ops;
  std::vector<Op> offered = offer(round, parcel);
  if (offered.size() == 1)
    if (const auto* encode = std::get_if<op::Encode>(&offered.front()))
      return {op::StepEncode{host_.update(range(parcel), round), *encode}};
  std::move(offered.begin(), offered.end(), std::back_inserter(ops));
  return ops;
}

void Gossip::on_encoded(const Encoded& e) {
  for (const PeerId to : weights(e.round).out(host_.plan().self))
    host_.send(to, {e.round, e.parcel, e.tag, e.entries, e.payload});
}

bool Gossip::sends(PeerId from, Round round) const {
  const auto row = weights(round).in(host_.plan().self);
  return std::any_of(row.begin(), row.end(), [&](const auto& e) { return e.peer == from; });
}

bool Gossip::settles(PeerId from, Round round) const {
  const auto& former = host_.plan().former;
  return round < kSettlingRounds &&
         std::find(former.begin(), former.end(), std::pair(from, host_.plan().self)) != former.end();
}

/// Where rounds are waited for, a neighbour sends in every one that the schedule names, and those of a vector
/// are taken in turn. Elsewhere it may leave out any.
Verdict Gossip::judge(PeerId from, Round round, ParcelId parcel, std::uint32_t tag) const {
  if (tag >= vectors_) return Verdict::never(Refusal::tag);
  const bool settles = this->settles(from, round);
  if (!inboxes_.contains(from) || !(settles || sends(from, round))) return Verdict::never(Refusal::round);
  const std::size_t entries = range(parcel).size;
  if (!host_.plan().exchange.staleness) return Verdict::now(entries);
  const auto& seen = inboxes_[from][parcel * vectors_ + tag].seen;
  if (seen && round <= *seen) return Verdict::past();
  if (!settles && round > round_ + most_ahead_) return Verdict::never(Refusal::round);
  Round due = seen ? *seen + 1 : 0;
  while (due < round && !settles && !sends(from, due)) ++due;
  return due == round ? Verdict::now(entries) : Verdict::later(entries);
}

void Gossip::on_message(PeerId from, Message message) {
  const ParcelId parcel = message.parcel;
  Inbox& box = inbox(from, parcel, message.tag);
  box.seen = message.round;
  box.waiting.push_back(std::move(message));
  try_mix(parcel);
}

void Gossip::on_parcel_ready(Round round, ParcelId parcel) {
  after_step(round, parcel);
  stepped_[parcel] = true;
  try_mix(parcel);
}

/// The newest round ≤ round − staleness in which `from` sends to this peer must have come.
std::optional<Round> Gossip::missing(PeerId from, ParcelId parcel) const {
  auto staleness = host_.plan().exchange.staleness;
  if (staleness > 0u && host_.plan().planted.is(Bug::staleness_off_by_one)) ++*staleness;
  if (!staleness || (*staleness > round_ && !host_.plan().first_heard)) return std::nullopt;
  const auto& schedule = host_.plan().schedule;
  const Round latest = round_ - std::min(*staleness, round_);
  for (Round back = 0; back < schedule.period() && back <= latest; ++back) {
    const auto row = schedule.at(latest - back).in(host_.plan().self);
    if (std::none_of(row.begin(), row.end(), [&](const auto& e) { return e.peer == from; })) continue;
    const auto newest = seen(from, parcel);
    return newest && *newest >= latest - back ? std::nullopt : std::optional(latest - back);
  }
  return std::nullopt;
}

std::optional<Round> Gossip::seen(PeerId from, ParcelId parcel) const {
  std::optional<Round> all = inboxes_[from][parcel * vectors_].seen;
  for (std::uint32_t v = 1; v < vectors_; ++v)
    all = std::min(all, inboxes_[from][parcel * vectors_ + v].seen);  // none is less than any round
  return all;
}

std::vector<Awaited> Gossip::awaits() const {
  std::vector<Awaited> awaited;
  for (ParcelId p = 0; p < stepped_.size(); ++p)
    for (const auto& e : weights(round_).in(host_.plan().self))
      if (const auto round = stepped_[p] ? missing(e.peer, p) : std::nullopt)
        awaited.push_back({e.peer, *round, p});
  return awaited;
}

void Gossip::archive(Archive archive) {
  assert(std::none_of(ahead_.begin(), ahead_.end(), [](bool ahead) { return ahead; }));
  archive.value("round", round_);
  std::vector<std::pair<PeerId, Message>> waiting;
  std::vector<std::uint64_t> seen;  // 0: nothing yet; else the round, and 1
  const std::vector<PeerId> linked = host_.plan().schedule.links(host_.plan().self);
  for (const PeerId p : linked)  // what others owe is of this view alone
    for (Inbox& box : inboxes_[p]) {
      for (const Message& m : box.waiting) waiting.emplace_back(p, m);
      seen.push_back(box.seen ? *box.seen + 1 : 0);
    }
  archive.numbers("seen", seen, seen.size());
  const std::size_t parcels = host_.plan().parcels.size();
  archive_messages(
      archive.part("inbox"), [&](PeerId p) { return inboxes_.contains(p) ? parcels : 0; }, waiting);
  if (!archive.restores()) return;
  auto next = seen.begin();
  for (const PeerId p : linked)
    for (Inbox& box : inboxes_[p]) {
      box = {{}, *next > 0 ? std::optional(*next - 1) : std::nullopt};
      ++next;
    }
  for (auto& [from, message] : waiting) {
    if (message.tag >= vectors_) archive.refuse("inbox", "holds a vector that the method has not");
    inbox(from, message.parcel, message.tag).waiting.push_back(std::move(message));
  }
}

void Gossip::try_mix(ParcelId parcel) {
  if (!stepped_[parcel]) return;
  const auto row = weights(round_).in(host_.plan().self);
  if (!std::all_of(row.begin(), row.end(), [&](const auto& e) { return within_staleness(e.peer, parcel); }))
    return;
  Round oldest = 0;
  for (const auto& e : row) {
    const auto newest = seen(e.peer, parcel);
    oldest = std::max(oldest, !newest ? round_ : *newest < round_ ? round_ - *newest : 0);
  }
  host_.saw_staleness(oldest);
  stepped_[parcel] = false;
  ahead_[parcel] = goes_ahead();
  mix_and_offer(round_, parcel, ahead_[parcel] ? offer(round_ + 1, parcel) : std::vector<Op>());
  host_.mixed(parcel);
}

float Gossip::fair_part(Round mine, Round theirs) const {
  if (host_.plan().exchange.staleness || !host_.plan().reversible || theirs >= mine) return 1;
  return static_cast<float>(static_cast<double>(theirs) / static_cast<double>(mine));
}

Message Gossip::take(PeerId from, Inbox& box) {
  if (host_.plan().planted.is(Bug::wrong_round_mixed)) std::swap(box.waiting.front(), box.waiting.back());
  if (host_.plan().planted.is(Bug::consumed_unused) && box.waiting.size() > 1) {
    host_.consumed(from, box.waiting.front());
    box.waiting.pop_front();
  }
  Message m = std::move(box.waiting.front());
  box.waiting.pop_front();
  host_.consumed(from, m);
  return m;
}

void Gossip::add_differences(Round round, ParcelId parcel, Slot v, Slot to, Slot difference,
                             std::uint32_t vector) {
  const Range r = range(parcel);
  for (const auto& e : weights(round).in(host_.plan().self)) {
    host_.submit(op::Combine{r, difference, 0, {{-1.0f, v}}});
    host_.submit(op::DecodeAdd{r, difference, 1.0f, take(e.peer, inbox(e.peer, parcel, vector)).payload});
    host_.submit(op::Combine{r, to, 1, {{e.weight, difference}}});
  }
}

}  // namespace gossamer::node
