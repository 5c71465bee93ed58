#include "worker.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cassert>
#include <cmath>

#include "method.h"
#include "priority.h"
#include "text.h"
#include "view_table.h"

namespace gossamer::node {
namespace {

/// Rounds of messages that may wait unused at a neighbour before an asynchronous sender leaves it out.
constexpr std::size_t kWindowRounds = 4;
/// How long an acknowledgement waits for a frame that carries it along.
constexpr double kAcknowledgeAfter_s = 0.05;
constexpr double kNewsAfter_s = 0.005;
/// News of samples waits for more for this share of a round, so that it passes over several peers in the time
/// of a step, and frames are in proportion to steps.
constexpr double kSamplesAfter = 0.25, kSamplesAfter_s = 0.02;

std::size_t entries_of(const SharedList<Parcel>& parcels) {
  std::size_t entries = 0;
  for (const Parcel& p : parcels) entries += p.range.size;
  return entries;
}

}  // namespace

Worker::Worker(WorkerSpec spec, Env& env)
    : spec_(std::move(spec)),
      env_(env),
      members_(spec_.membership, env.now()),
      places_(spec_.membership.names.size(), spec_.membership.self, spec_.place),
      links_(spec_.membership.links),
      used_(spec_.membership.links),
      saver_(spec_.saves, spec_.membership.names.size(), spec_.membership.self),
      gone_(spec_.membership.names.size(), false),
      watch_(spec_.classes, entries_of(spec_.plan.parcels)),
      stall_(spec_.stall_timeout_s) {
  if (spec_.started != 0)
    offers_ = Offers(spec_.membership.names.size(), spec_.membership.self, spec_.started,
                     spec_.offers.value_or(std::vector<Round>{}));
  if (spec_.total_samples > 0) count_samples();
  for (const PeerId p : members_.links())
    links_[p] = std::make_unique<Link>(
        [this, p](Frame f, std::uint32_t priority) { return transmit(p, std::move(f), priority); },
        spec_.least_resend_s, best_effort() ? Delivery::best_effort : Delivery::reliable, spec_.plan.planted,
        intake_rules(p), [this, p](const Payload& payload) { return env_.share(p, payload); });
  exchange_ = make_exchange(*this);
  if (const ExchangeSettings& e = spec_.plan.exchange; e.straggler != "wait")
    pace_.emplace(e.straggler_k, e.straggler == "fewer" ? local_steps(e) : 1);
  if (const auto every = static_cast<double>(spec_.evaluate_every); every > 0)
    next_evaluation_ = (std::floor(place(0) / every) + 1) * every;
}

/// From none on.
void Worker::count_samples() {
  samples_.emplace(spec_.membership.names.size(), spec_.membership.self,
                   spec_.total_samples * (1 - spec_.share_before), spec_.plan.planted);
}

void Worker::start() { on_timer(); }

// --- frames out

std::size_t Worker::transmit(PeerId to, Frame frame, std::uint32_t priority) {
  FrameHeader& h = frame.header;
  h.sender = spec_.membership.self;
  h.job = spec_.job_id;
  h.epoch = spec_.membership.epoch;
  h = link(to).stamp(h);
  FrameBytes bytes = encode_frame(frame, env_.takes_parts());
  const std::size_t size = bytes.size();
  link(to).counters().bytes_out += size;
  env_.send(to, std::move(bytes), priority);
  return size;
}

void Worker::send_hello(PeerId to) {
  transmit(to, {{}, members_.hello_for(to)}, priority::kControl);
  send_places(to);
}
void Worker::send_places(PeerId to) {
  if (places_.asked() || offers_.asked())
    transmit(to, {{}, PlacesBody{places_, offers_}}, priority::kControl);
}
void Worker::send_alive(PeerId to) {
  transmit(to, {{}, AliveBody{members_.all(), {}, saver_.news()}}, priority::kControl);
}

double Worker::samples_after() const { return std::min(kSamplesAfter * round_took_, kSamplesAfter_s); }

/// Soon, not at once: news comes from several neighbours at about the same time.
void Worker::spread_news(double after_s) {
  news_ = true;
  next_alive_ = std::min(next_alive_, env_.now() + after_s);
}

AliveBody Worker::signs_of_life() {
  AliveBody body{members_.all(), {}, saver_.news()};
  if (!samples_) return body;
  body.samples = samples_->take_news();
  if (env_.now() < next_counts_) return body;
  body.samples = samples_->all();
  next_counts_ = env_.now() + kAliveEvery_s;
  return body;
}

void Worker::broadcast_alive() {
  const AliveBody body = signs_of_life();
  for (const PeerId p : members_.links()) {
    transmit(p, {{}, body}, priority::kControl);
    if (round_ == first_round_) send_places(p);  // some may still be joining
  }
  next_alive_ = env_.now() + kAliveEvery_s;
  news_ = false;
}

void Worker::send(PeerId to, Message message) {
  if (spec_.observer) spec_.observer->on_send(spec_.membership.self, to, message);
  LinkCounters& c = link(to).counters();
  const LinkCounters before = c;
  link(to).send(message, env_.now());
  result_.queued_bytes_most = std::max<std::uint64_t>(result_.queued_bytes_most, queued_for(to));
  if (!spec_.plan.is_rows(message.parcel)) return;
  // rows have figures of their own (row_exchange.h): these are of parcels
  c.data_bytes_out = before.data_bytes_out;
  c.data_entries_out = before.data_entries_out;
}

void Worker::consumed(PeerId from, const Message& message) {
  if (spec_.observer) spec_.observer->on_used(spec_.membership.self, from, message);
  used_[from] = std::max(used_[from].value_or(0), message.round);
  link(from).consume(message.sequence);
}

bool Worker::can_send(PeerId to, ParcelId parcel) const {
  // Under best effort nobody says what was used: a round's messages at most may wait on this side.
  if (best_effort()) return env_.backlog(to) < spec_.plan.parcels.size();
  // of rows, all peers' messages may come this way
  const bool rows = spec_.plan.is_rows(parcel);
  return links_[to]->unused(parcel) < kWindowRounds * (rows ? spec_.membership.names.size() : 1);
}

// --- frames in

void Worker::on_frame(const std::optional<Frame>& frame, std::size_t bytes) {
  const auto from = frame ? frame->header.sender : 0;
  if (!frame || !links_.contains(from)) {
    ++result_.dropped_frames;
    return;
  }
  link(from).counters().bytes_in += bytes;
  std::visit([&](const auto& body) { handle(frame->header, body); }, frame->body);
  settle();
}

void Worker::handle(const FrameHeader& header, const HelloBody& hello) {
  const PeerId from = header.sender;
  if (phase_ != Phase::joining && members_.restarted(from, header.epoch)) {
    // A second start of a peer that trains, or a new start of one that died: the first must not be disturbed,
    // and the silence of the second case is noticed by itself.
    ++result_.dropped_frames;
    return;
  }
  if (hello.job_hash == spec_.membership.hello.job_hash && header.job != spec_.job_id) {
    // a peer that another run of this job left behind must not disturb this one
    other_session_ = spec_.membership.names[from];
    ++result_.dropped_frames;
    return;
  }
  const bool of_view = names_view(hello.job_text) || names_view(spec_.membership.hello.job_text);
  if (of_view &&
      header.job != spec_.job_id) {  // of another view, which its sender will have left or find over
    ++result_.dropped_frames;
    return;
  }
  const bool was_linked = members_.linked(from), was_in_touch = in_touch();
  if (const std::string difference = members_.on_hello(from, header, hello, env_.now());
      !difference.empty()) {
    if (phase_ != Phase::joining) {  // it was of this run before: nobody ends others' by a word
      ++result_.dropped_frames;
      return;
    }
    send_hello(from);  // so that it can name the difference as well
    return end(Outcome::bad_input,
               "this peer and a neighbour were not started for the same run; " + difference);
  }
  if (header.job == spec_.job_id) env_.heard(from);
  if (members_.merge(from, hello.status) || in_touch() != was_in_touch) spread_news(kNewsAfter_s);
  // An answer only where it tells something: answering every hello would keep two peers that wait for a third
  // answering each other.
  const bool linked_now = members_.linked(from) && !was_linked;
  const bool joined = from < hello.status.size() && hello.status[from] >= PeerStatus::present;
  if (!members_.linked(from) || linked_now || (!joined && phase_ != Phase::joining)) send_hello(from);
  check_members();
}

void Worker::handle(const FrameHeader& header, const AliveBody& alive) {
  if (header.job != spec_.job_id || !heard(header)) {
    ++result_.dropped_frames;
    return;
  }
  link(header.sender).acknowledged(header, env_.now());
  if (says_muted(alive)) return end_as_muted(header.sender);
  if (members_.merge(header.sender, alive.status)) spread_news(kNewsAfter_s);
  if (samples_ && samples_->merge(alive.samples)) spread_news(samples_after());
  const double pace_s = std::max(mean_round_s(), env_.now() - round_began_);  // where one is held up
  if (saver_.merge(alive.saves, told_up_to(), tells(), pace_s)) {
    spread_news(kNewsAfter_s);
    deliver_set_aside();
  }
  check_members();
}

void Worker::handle(const FrameHeader& header, const PlacesBody& body) {
  if (header.job != spec_.job_id || !heard(header)) {
    ++result_.dropped_frames;
    return;
  }
  // Who has ended says no more: its last hello, which tells why, would be pushed out of the queue.
  const bool news = places_.merge(body.places), offer = offers_.merge(body.offers);
  if (phase_ != Phase::over && (news || offer)) spread_news(kNewsAfter_s);
  check_members();
}

void Worker::handle(const FrameHeader& header, const ParcelBody& body) {
  const PeerId from = header.sender;
  const bool any_view = spec_.plan.planted.is(Bug::old_view_taken);
  if (header.sequence == 0 || (!any_view && (header.job != spec_.job_id || !heard(header)))) {
    ++result_.dropped_frames;
    return;
  }
  link(from).acknowledged(header, env_.now());
  const RefusalCounts before = link(from).counters().refused_by;
  link(from).receive(header, body);
  while (auto m = link(from).next()) deliver(from, std::move(*m));
  name_refusals(from, before, body);
  mute_where_due(from);
}

/// Whether a frame of this run is of the start of its sender that this peer knows.
bool Worker::heard(const FrameHeader& header) {
  if (!members_.heard(header.sender, header.epoch, env_.now())) return false;
  env_.heard(header.sender);
  return true;
}

void Worker::deliver(PeerId from, Message message) {
  const bool behind = std::any_of(set_aside_.begin(), set_aside_.end(),
                                  [&](const auto& waiting) { return waiting.first == from; });
  if (behind || waits_for_save(message)) return void(set_aside_.emplace_back(from, std::move(message)));
  if (spec_.observer) spec_.observer->on_message(spec_.membership.self, from, message);
  if (pace_) pace_->heard(from, message.round, env_.now());
  if (phase_ == Phase::over || (phase_ == Phase::draining && !serves_after_end(spec_.plan)))
    consumed(from, message);
  else
    exchange_->on_message(from, std::move(message));
}

// --- membership

void Worker::check_members() {
  if (phase_ == Phase::over) return;
  go_on_from_offers();
  check_ending();
  if (phase_ == Phase::over || winding_up_) return;  // a view that is over anyway
  const bool lost = members_.any(PeerStatus::lost), left = members_.any(PeerStatus::left);
  const auto names = [&](PeerStatus status) { return join(members_.names_with(status), ", "); };
  if (phase_ == Phase::joining && left && !lost && members_.any(PeerStatus::unknown))
    return end_without_others(
        fmt::format("peer {} left before all had appeared (why, it says itself): missing {}",
                    names(PeerStatus::left), names(PeerStatus::unknown)));
  const bool saves_first = end_by_ && saver_.keeps() && !spec_.saves.together && !saver_.all_committed();
  if (const std::string what = saves_first ? "" : what_others_said(); !what.empty()) {
    result_.diverged |= members_.any(PeerStatus::diverged);
    const std::string message = fmt::format("{} {}{}", what, where(), left ? awaited() : "");
    if (end_by_) return end(Outcome::interrupted, message);
    if (members_.any(PeerStatus::diverged) || members_.any(PeerStatus::muted))
      return end(Outcome::lost_peer, message);
    return end_without_others(message);
  }
  const bool all_here = spec_.of_view ? in_touch() : members_.all_at_least(PeerStatus::present);
  if (phase_ == Phase::joining && all_here && places_.complete() && offers_.complete()) {
    phase_ = Phase::training;
    started_ = since_.time = env_.now();
    saver_.begin(round_, env_.now());
    broadcast_alive();
    if (places_.asked()) env_.share_cores(places_.sharing());
    env_.log(samples_ ? fmt::format("all {} peers are here; training until all together have taken in {:.0f} "
                                    "samples",
                                    spec_.membership.names.size(), spec_.total_samples)
                      : fmt::format("all {} peers are here; training {} rounds",
                                    spec_.membership.names.size(), spec_.rounds - round_));
    begin_round();
  }
  // Who leaves before its neighbours know the end would be missed by them.
  if (phase_ == Phase::draining && last_measured_ && members_.all_at_least(PeerStatus::done) &&
      members_.completion_acknowledged(env_.now()))
    end(Outcome::finished, "");
}

std::uint64_t Worker::start_of(PeerId peer) const {
  if (offers_.asked()) return offers_.by_peer()[peer].started;
  return links_.contains(peer) ? members_.epoch_of(peer) : 0;
}

void Worker::on_broken(PeerId peer) {
  if (!links_.contains(peer)) return;
  members_.on_broken(peer, env_.now());
  link(peer).on_broken();
  schedule_wake();
}

void Worker::end_without_others(std::string message) {
  if (phase_ == Phase::over) return;
  result_.others_gone = true;
  for (const PeerStatus status : {PeerStatus::lost, PeerStatus::left})
    for (const PeerId p : members_.all().with(status)) result_.gone.push_back(p);
  end(Outcome::lost_peer, std::move(message));
}

void Worker::end(Outcome outcome, std::string message, PeerStatus as) {
  if (phase_ == Phase::over) return;
  if (phase_ == Phase::training) result_.seconds = env_.now() - started_;
  result_.outcome = outcome;
  result_.message = std::move(message);
  if (spec_.observer) spec_.observer->on_end(spec_.membership.self, result_.message);
  // A peer that ends because another is missing is not itself the cause: what it knows of the other says it
  // all.
  const bool consequence = outcome == Outcome::lost_peer && phase_ != Phase::joining;
  if (outcome != Outcome::finished) members_.set(spec_.membership.self, consequence ? PeerStatus::done : as);
  phase_ = Phase::over;
  broadcast_alive();
}

// --- time

void Worker::on_timer() {
  const double now = env_.now();
  if (phase_ == Phase::joining && now >= next_hello_) {
    for (const PeerId p : members_.links()) send_hello(p);
    next_hello_ = now + kHelloEvery_s;
  }
  if (now >= next_alive_) in_touch() || news_ ? broadcast_alive() : void(next_alive_ = now + kAliveEvery_s);
  for (const PeerId p : members_.links()) {
    link(p).resend_due(now, env_.backlog(p) > 0);
    if (now >= acknowledge_at_ && link(p).owes_acknowledgement()) send_alive(p);
  }
  if (now >= acknowledge_at_) acknowledge_at_ = 0;
  // While all are still joining, a silent one may be started again; but before time is up it is named.
  const bool all_count =
      phase_ != Phase::joining || now >= members_.join_deadline() - spec_.membership.silence_timeout_s;
  if (all_count && members_.find_lost(now)) broadcast_alive();
  if (phase_ == Phase::training) {
    bool gone = false;
    for (const PeerId p : members_.links())
      if (members_.gone_after_done(p, now)) gone_[p] = gone = true;
    // what a peer that is gone has not sent never comes
    if (gone && gradient_done_)
      for (const Awaited& a : exchange_->awaits())
        if (members_.gone_after_done(a.peer, now)) members_.set(a.peer, PeerStatus::lost);
  }
  check_members();
  check_stalled();
  check_overdue();
  if (phase_ == Phase::joining && now >= members_.join_deadline()) join_overdue();
  if (phase_ == Phase::draining && last_measured_ && now >= drain_until_) {
    env_.log(fmt::format("not waiting any longer for {} (--drain-timeout)",
                         fmt::join(members_.names_with(PeerStatus::present), ", ")));
    end(Outcome::finished, "");
  }
  settle();
}

void Worker::schedule_wake() {
  const double now = env_.now();
  double next = next_alive_;
  next = std::min(next, phase_ == Phase::joining ? std::min(next_hello_, members_.join_deadline())
                                                 : members_.next_deadline());
  if (phase_ == Phase::draining) next = std::min(next, drain_until_);
  if (end_by_) next = std::min(next, *end_by_);
  if (overdue_at_) next = std::min(next, *overdue_at_);
  if (save_by_ > now) next = std::min(next, save_by_);
  for (const PeerId p : members_.links()) {
    if (const auto due = link(p).resend_due(now, env_.backlog(p) > 0)) next = std::min(next, *due);
    if (link(p).owes_acknowledgement()) {
      if (acknowledge_at_ == 0) acknowledge_at_ = now + kAcknowledgeAfter_s;
      next = std::min(next, acknowledge_at_);
    }
  }
  env_.wake_at(next);
}

}  // namespace gossamer::node
