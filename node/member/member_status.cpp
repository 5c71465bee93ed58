// What a member tells of the others: to its operator as it happens, and to whoever asks.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "member.h"
#include "text.h"
#include "view_env.h"

namespace gossamer::node {
namespace {

using What = MemberEvent::What;

/// That are allowed again before one tells how many were left out.
constexpr double kLinesAfterMany = 10;

/// Numbers that are nobody's have no name.
std::vector<StatusBody::Member> without_free(std::vector<StatusBody::Member> all) {
  std::erase_if(all, [](const StatusBody::Member& m) { return m.name.empty(); });
  return all;
}

std::string words_of(What what) {
  switch (what) {
    case What::came:
      return "has come";
    case What::suspected:
      return "is suspected";
    case What::refuted:
      return "is there after all";
    case What::gone:
      return "is gone";
    case What::left:
      return "left";
    default:
      return "is back";
  }
}

StatusBody::Standing standing_of(MemberStatus status) { return static_cast<StatusBody::Standing>(status); }

/// Of a run whose members do not change.
StatusBody::Standing standing_of(PeerStatus status) {
  if (status == PeerStatus::unknown) return StatusBody::Standing::waiting;
  if (status == PeerStatus::lost) return StatusBody::Standing::dead;
  return status == PeerStatus::left ? StatusBody::Standing::left : StatusBody::Standing::alive;
}

}  // namespace

/// Before the run has begun the worker tells who is missing.
void Member::tell_change(const MemberRecord& now) {
  const auto [at, fresh] = told_.try_emplace(now.name, Told{now.start, now.status, env_.now()});
  const Told before = std::exchange(at->second, {now.start, now.status, env_.now()});
  const bool same = !fresh && before.status == now.status && before.start == now.start;
  if (same) at->second.since = before.since;
  if (same || !begun_) return;
  if (now.status != MemberStatus::alive && (share_done() >= 1 || is_done(now.name)))
    return;  // it has finished
  MemberEvent event{.peer = now.name, .why = {}, .start = now.start, .share_done = share_done()};
  const bool was_gone = !fresh && before.status >= MemberStatus::dead;
  const bool restarted = !fresh && before.start != now.start;
  switch (now.status) {
    case MemberStatus::alive:
      event.what = fresh ? What::came : was_gone || restarted ? What::back : What::refuted;
      if (event.what == What::back) event.why = restarted ? "started again" : "heard again";
      break;
    case MemberStatus::suspect:
      event.what = What::suspected;
      break;
    case MemberStatus::dead:
      event.what = What::gone;
      break;
    case MemberStatus::left:
      event.what = What::left;
  }
  if (now.status != MemberStatus::alive) event.why = swim_->why(now.name, env_.now());
  tell_untold();
  if (untold_ > 0 || !change_lines_.take(1, env_.now()))
    ++untold_;
  else
    env_.log(fmt::format("peer {} {}{}{}", event.peer, words_of(event.what), event.why.empty() ? "" : ": ",
                         event.why));
  if (change_events_.take(1, env_.now())) env_.member_changed(event);
}

/// They come as fast as whoever makes them up likes, or a bad link breaks.
void Member::tell_untold() {
  if (untold_ == 0 || !change_lines_.take(kLinesAfterMany, env_.now())) return;
  env_.log(fmt::format("{} more changes of members are left out here; gossamer status tells who is there",
                       std::exchange(untold_, 0)));
}

std::vector<StatusBody::Member> Member::members_now() const {
  std::vector<StatusBody::Member> all;
  for (const Contact& peer : spec_.roster) {
    if (all.size() == kMostStatusMembers) break;
    StatusBody::Member m{.name = peer.name, .address = peer.address};
    m.in_view = current_.has(peer.name) && !left_out_.names.contains(peer.name);
    if (swim_)
      if (const auto record = swim_->members().find(peer.name); record != swim_->members().end()) {
        m.start = record->second.start;
        m.standing = standing_of(record->second.status);
      }
    const auto told = told_.find(peer.name);
    m.since_s = env_.now() - (told == told_.end() ? 0 : told->second.since);
    all.push_back(std::move(m));
  }
  if (!worker_) return without_free(std::move(all));
  const auto& numbers = view_env_->numbers;
  const auto& links = worker_->links();
  for (PeerId seat = 0; seat < numbers.size(); ++seat) {
    if (numbers[seat] >= all.size()) continue;
    StatusBody::Member& m = all[numbers[seat]];
    if (!swim_) m.standing = standing_of(worker_->states()[seat]);
    m.neighbour = std::binary_search(links.begin(), links.end(), seat);
    m.staleness = worker_->staleness_of(seat);
  }
  return without_free(std::move(all));
}

StatusBody Member::status() const {
  StatusBody s;
  s.peer = name();
  s.view = current_.id();
  s.attempt = current_.attempt;
  s.trains = worker_ && worker_->joined() && !worker_->finished();
  s.round = rounds();
  s.share_done = share_done();
  if (reported_) {
    s.epoch = reported_->epoch;
    if (std::isfinite(reported_->loss)) s.loss = reported_->loss;
  }
  s.health = swim_ ? static_cast<std::uint32_t>(swim_->local_health()) : 0;
  s.peers = static_cast<std::uint32_t>(spec_.roster.size() - free_.size());
  s.waits = waits_text();
  if (s.waits.size() > kMostAddressBytes) s.waits = shortened(s.waits);
  s.members = members_now();
  return s;
}

void Member::tell_view() const {
  std::vector<std::string> missing, others;
  for (PeerId p = 0; p < spec_.named; ++p)
    if (!current_.has(spec_.roster[p].name)) missing.push_back(spec_.roster[p].name);
  for (std::size_t s = spec_.named - missing.size(); s < current_.seats.size(); ++s)
    others.push_back(current_.seats[s].name);
  env_.log(fmt::format(
      "{} of {} peers go on{}{}, {:.1f} % of the run being over", spec_.named - missing.size(), spec_.named,
      missing.empty() ? "" : " without " + join(missing, ", "),
      others.empty() ? "" : fmt::format(", with {} that joined", join(others, ", ")), 100 * share_));
}

}  // namespace gossamer::node
