#include "row_gossip.h"

#include <algorithm>
#include <utility>

#include "gossamer/compress/rows.h"
#include "message_state.h"

namespace gossamer::node {
namespace {

/// Floats that a message may hold; how many rows there are is told by the payload.
constexpr std::uint64_t kRowEntries = std::uint64_t{1} << 26;

}  // namespace

RowGossip::RowGossip(ExchangeHost& host, std::unique_ptr<Exchange> parcels)
    : host_(host), parcels_(std::move(parcels)) {
  const Routes& routes = *host.plan().rows->routes;
  for (PeerId origin = 0; origin < routes.peers(); ++origin)
    origins_.push_back(
        {routes.from(origin, host.plan().self), routes.onward(origin, host.plan().self), {}, {}, {}});
}

void RowGossip::begin_round(Gradient& gradient) {
  round_ = gradient.round;
  parcels_->begin_round(gradient);
}

std::vector<Op> RowGossip::on_ready(Round round, ParcelId parcel) {
  if (!is_rows(parcel)) return parcels_->on_ready(round, parcel);
  const bool send = staleness() || can_send(origins_[host_.plan().self]);
  if (!send) host_.count_held_back();
  return {op::EncodeRows{round, parcel, send, synchronous()}};
}

void RowGossip::on_parcel_ready(Round round, ParcelId parcel) {
  if (!is_rows(parcel)) return parcels_->on_parcel_ready(round, parcel);
  stepped_ = true;
  given_ = 0;
  for (Origin& origin : origins_) hand_on(origin);
  try_mix();
}

void RowGossip::on_encoded(const Encoded& e) {
  if (!is_rows(e.parcel)) return parcels_->on_encoded(e);
  for (const PeerId to : origins_[host_.plan().self].onward)
    host_.send(to, {e.round, e.parcel, host_.plan().self, kRowEntries, e.payload});
}

Verdict RowGossip::judge(PeerId from, Round round, ParcelId parcel, std::uint32_t tag) const {
  if (!is_rows(parcel)) return parcels_->judge(from, round, parcel, tag);
  if (tag >= origins_.size() || tag == host_.plan().self || origins_[tag].from != from)
    return Verdict::never(Refusal::tag);
  const auto& seen = origins_[tag].seen;
  // where nobody waits no round says that one is old: links give each once and in order
  if (!staleness()) return Verdict::now(kRowEntries);
  if (seen && round <= *seen) return Verdict::past();
  // Nobody ends a round without what this peer told of the one `staleness` before.
  if (round > round_ + *staleness() + 1) return Verdict::never(Refusal::round);
  return round == (seen ? *seen + 1 : 0) ? Verdict::now(kRowEntries) : Verdict::later(kRowEntries);
}

std::optional<bool> RowGossip::decodes(const Message& message) const {
  if (!is_rows(message.parcel)) return parcels_->decodes(message);
  return compress::decodes_rows(host_.plan().rows->spec, *message.payload);
}

void RowGossip::on_message(PeerId from, Message message) {
  if (!is_rows(message.parcel)) return parcels_->on_message(from, std::move(message));
  Origin& origin = origins_[message.tag];
  origin.seen = message.round;
  origin.to_hand_on.push_back(message);
  origin.waiting.push_back(std::move(message));
  hand_on(origin);
  try_mix();
}

/// Fewer than a few messages wait to be used at those who come next.
bool RowGossip::can_send(const Origin& origin) const {
  return std::all_of(origin.onward.begin(), origin.onward.end(),
                     [&](PeerId to) { return host_.can_send(to, host_.plan().row_parcel()); });
}

/// Where nobody waits a full link holds messages back, and with them their acknowledgement, up to the origin;
/// so does a data plane that has been given much.
void RowGossip::hand_on(Origin& origin) {
  while (!origin.to_hand_on.empty() && (staleness() || can_send(origin))) {
    const Message m = std::move(origin.to_hand_on.front());
    origin.to_hand_on.pop_front();
    for (const PeerId to : origin.onward) host_.send(to, {m.round, m.parcel, m.tag, m.entries, m.payload});
    if (!staleness() && origin.waiting.size() <= origin.to_hand_on.size()) host_.consumed(origin.from, m);
  }
}

std::optional<Round> RowGossip::missing(const Origin& origin) const {
  // After the last round the tables of all are to hold everything.
  const std::uint64_t late = host_.trained() ? 0 : staleness().value_or(0);
  if (!staleness() || late > round_) return std::nullopt;
  const Round needed = round_ - late;
  return origin.seen && *origin.seen >= needed ? std::nullopt : std::optional(needed);
}

void RowGossip::try_mix() {
  const PeerId self = host_.plan().self;
  if (!stepped_) {
    if (!synchronous() && may_give()) apply_all();
    return;
  }
  Round oldest = 0;
  for (PeerId p = 0; p < origins_.size(); ++p) {
    if (p == self) continue;
    if (missing(origins_[p])) return;
    const auto& seen = origins_[p].seen;
    oldest = std::max(oldest, !seen ? round_ : *seen < round_ ? round_ - *seen : 0);
  }
  host_.saw_staleness(oldest);
  apply_all();
  host_.mixed(host_.plan().row_parcel());
}

/// The own changes where there are any, and what has come: of synchronous rounds this round's alone.
void RowGossip::apply_all() {
  op::PushRows push{round_, std::exchange(stepped_, false), {}};
  const bool all = !synchronous() || host_.plan().planted.is(Bug::rows_pushed_early);
  for (PeerId p = 0; p < origins_.size(); ++p) {
    Origin& origin = origins_[p];
    while (!origin.waiting.empty() && (all || origin.waiting.front().round <= round_)) {
      const Message m = std::move(origin.waiting.front());
      origin.waiting.pop_front();
      if (staleness() || origin.to_hand_on.size() <= origin.waiting.size()) host_.consumed(origin.from, m);
      given_ += m.payload->size();
      push.received.emplace_back(p, m.payload);
    }
  }
  if (push.own || !push.received.empty()) host_.submit(std::move(push));
}

std::vector<Awaited> RowGossip::awaits() const {
  std::vector<Awaited> awaited = parcels_->awaits();
  if (!stepped_ && !host_.trained()) return awaited;
  for (PeerId p = 0; p < origins_.size(); ++p)
    if (const auto round = p == host_.plan().self ? std::nullopt : missing(origins_[p]))
      awaited.push_back({origins_[p].from, *round, host_.plan().row_parcel()});
  return awaited;
}

void RowGossip::archive(Archive archive) {
  parcels_->archive(archive.part("parcels"));
  archive.value("round", round_);
  std::vector<std::uint64_t> seen;  // 0: nothing yet; else the round, and 1
  std::vector<std::pair<PeerId, Message>> waiting, to_hand_on;
  for (const Origin& origin : origins_) {
    seen.push_back(origin.seen ? *origin.seen + 1 : 0);
    for (const Message& m : origin.waiting) waiting.emplace_back(origin.from, m);
    for (const Message& m : origin.to_hand_on) to_hand_on.emplace_back(origin.from, m);
  }
  archive.numbers("seen", seen, seen.size());
  const auto parts = [&](PeerId) { return host_.plan().parts(); };
  archive_messages(archive.part("waiting"), parts, waiting);
  archive_messages(archive.part("to_hand_on"), parts, to_hand_on);
  if (!archive.restores()) return;
  for (std::size_t p = 0; p < origins_.size(); ++p) {
    origins_[p].seen = seen[p] > 0 ? std::optional(seen[p] - 1) : std::nullopt;
    origins_[p].waiting.clear();
    origins_[p].to_hand_on.clear();
  }
  const auto put = [&](auto& messages, std::list<Message> Origin::*box) {
    for (auto& [from, message] : messages) {
      if (message.tag >= origins_.size()) archive.refuse("waiting", "holds rows of a peer that there is not");
      (origins_[message.tag].*box).push_back(std::move(message));
    }
  };
  put(waiting, &Origin::waiting);
  put(to_hand_on, &Origin::to_hand_on);
}

}  // namespace gossamer::node
