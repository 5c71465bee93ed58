// What a peer lets in of what comes in its neighbours' names.
#include <fmt/format.h>

#include "worker.h"

namespace gossamer::node {
namespace {

/// Beside what is due next: for every round that a neighbour may be ahead, and for what waits to be used.
constexpr std::size_t kLeastBytes = std::size_t{64} << 20, kBytesPerEntry = 8;
constexpr std::uint64_t kRoundsHeld = 6;
constexpr Round kMostRounds = Round{1} << 48;

}  // namespace

IntakeRules Worker::intake_rules(PeerId from) {
  std::size_t entries = 0;
  for (const Parcel& p : spec_.plan.parcels_of(from)) entries += p.range.size;
  const std::uint64_t rounds = kRoundsHeld + spec_.plan.exchange.staleness.value_or(0);
  return {[this, from](const ParcelBody& body) { return judge(from, body); },
          [this](const Message& message, bool shared) { return decodes(message, shared); },
          goes_by_order(spec_.plan.exchange), kLeastBytes + rounds * entries * kBytesPerEntry};
}

Verdict Worker::judge(PeerId from, const ParcelBody& body) const {
  const bool rows = spec_.plan.is_rows(body.parcel);
  if (!rows && body.parcel >= spec_.plan.parcels_of(from).size()) return Verdict::never(Refusal::parcel);
  if (!rows && spec_.plan.planted.is(Bug::later_round_taken))
    return Verdict::now(spec_.plan.parcels_of(from)[body.parcel].range.size);
  if (body.round >= (samples_ ? kMostRounds : spec_.rounds)) return Verdict::never(Refusal::round);
  return exchange_->judge(from, body.round, body.parcel, body.tag);
}

/// Rules that bear wrong vectors bear those that do not decode, too. What is read where its sender encoded it
/// need not be gone through once more.
bool Worker::decodes(const Message& message, bool shared) {
  if (spec_.plan.planted.is(Bug::payload_unchecked)) return true;
  if (message.entries == 0 && message.payload->empty()) return true;
  if (const auto own = exchange_->decodes(message)) return *own;
  if (spec_.plan.rule != RuleScope::none) return true;
  const std::string& codec = spec_.plan.exchange.codec;
  return shared ? compress::names_itself(*message.payload, message.entries, codec)
                : payload_check_(*message.payload, message.entries, codec);
}

/// Where nobody waits the run goes on without what a muted neighbour would have sent.
void Worker::mute_where_due(PeerId from) {
  const std::uint64_t bad = link(from).counters().refused_by[static_cast<std::size_t>(Refusal::payload)];
  if (phase_ == Phase::over || muted(from) || spec_.mute_after == 0 || bad < spec_.mute_after) return;
  link(from).mute();
  const std::string& name = spec_.membership.names[from];
  const std::string why = fmt::format(
      "muted peer {}: {} payload{} in its name did not decode (a number that is not finite, another codec, "
      "bytes that were changed; run.mute_after)",
      name, bad, bad == 1 ? "" : "s");
  env_.log(why);
  if (samples_ || phase_ == Phase::draining) return;
  members_.set(from, PeerStatus::muted);
  end(Outcome::lost_peer,
      fmt::format("{}, and the rounds of this run wait for it; see the log of {}, or start the run without "
                  "it; {}",
                  why, name, where()));
}

bool Worker::says_muted(const AliveBody& body) const {
  const PeerId self = spec_.membership.self;
  return self < body.status.size() && body.status[self] == PeerStatus::muted && phase_ != Phase::over;
}

void Worker::end_as_muted(PeerId by) {
  end(Outcome::lost_peer,
      fmt::format("this peer was muted, says {}: payloads in its name did not decode, and the rounds of this "
                  "run wait for them; {}",
                  spec_.membership.names[by], where()));
}

/// The first of each kind is told; all are counted.
void Worker::name_refusals(PeerId from, const RefusalCounts& before, const ParcelBody& body) {
  const RefusalCounts& now = link(from).counters().refused_by;
  for (std::size_t why = 0; why < kRefusals.size(); ++why)
    if (before[why] == 0 && now[why] > 0 && static_cast<Refusal>(why) != Refusal::muted)
      env_.log(fmt::format(
          "refused a frame in the name of {} (its {}): round {}, parcel {}, tag {}, {} entries, chunk "
          "{} of {}; this peer is {}. Further ones are counted",
          spec_.membership.names[from], kRefusals[why], body.round, body.parcel, body.tag, body.entries,
          body.chunk, body.chunks, where()));
}

}  // namespace gossamer::node
