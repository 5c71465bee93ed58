// Whom a Swim pings, when, and what it makes of answers that do not come.
#include <algorithm>
#include <tuple>

#include "swim.h"

namespace gossamer::node {
namespace {

constexpr int kMostHealth = 8;
constexpr double kEarly_s = 1e-9;  // timers may come by a rounding too soon
constexpr double kLate_s = 0.1;
constexpr double kLastSeek_s = 2, kLastGonePing_s = 30, kKeepGone_s = 3600;
/// To the dead, from one ping to the next on average, and as many at once as in that time: each takes a
/// connection for some seconds.
constexpr double kGonePingEach_s = 0.4, kGonePingsAtOnce_s = 5;

}  // namespace

void Swim::change_health(int by) { health_ = std::clamp(health_ + by, 0, kMostHealth); }

bool Swim::probing(const std::string& name) const {
  return std::any_of(probes_.begin(), probes_.end(), [&](const auto& p) { return p.second.target == name; });
}

/// The target that has neither been heard nor pinged for longest; one heard within the last period needs no
/// ping. A little less than that, or what was answered at once would be asked in every other period only.
void Swim::begin_period(double now) {
  const double period = slower() * spec_.probe_every_s;
  probe_at_ = now + period;
  const std::string* next = nullptr;
  std::tuple<double, std::uint64_t> longest;
  for (const auto& name : targets()) {
    const Track& t = tracks_.at(name);
    const std::tuple since{std::max(t.heard, t.pinged), t.turn};
    if (t.heard + 0.9 * period > now || (next && since >= longest) || probing(name)) continue;
    next = &name;
    longest = since;
  }
  if (next) probe(std::string(*next), now);
}

void Swim::probe(const std::string& name, double now) {
  const std::uint64_t number = ++last_number_;
  probes_[number] = {name, now + slower() * spec_.probe_timeout_s};
  ping(name, number, now);
}

void Swim::ping(const std::string& name, std::uint64_t number, double now) {
  tracks_.at(name).pinged = now;
  SwimBody body = body_of(Kind::ping, number, name);
  add_own_and_theirs(body, name);
  add_rumours(body, name);
  send(name, std::move(body));
}

void Swim::ask_others(std::uint64_t number, Probe& p, double now) {
  std::vector<std::string> others;
  // who cannot be dialled is in touch with those whom it dials
  for (const auto& name :
       diallers_.contains(p.target) ? ring_.targets(p.target, spec_.most_targets) : targets())
    if (name != p.target && name != spec_.name && members_.at(name).status == MemberStatus::alive)
      others.push_back(name);
  std::shuffle(others.begin(), others.end(), random_);
  if (others.size() > spec_.indirect) others.resize(spec_.indirect);
  p.asked = {others.begin(), others.end()};
  p.late = true;
  p.due = now + slower() * spec_.probe_timeout_s;
  for (const auto& name : others) send(name, body_of(Kind::ping_request, number, p.target));
  ping(p.target, number, now);  // the first one may have been lost
}

/// Whoever lacks even the nacks of those it asked is most likely to blame itself.
void Swim::give_up(const Probe& p, double now) {
  const auto missed = p.asked.empty() ? 1 : p.asked.size() - std::min(p.nacks, p.asked.size());
  change_health(static_cast<int>(missed));
  doubt(p.target, now);
}

void Swim::answer_ping(const SwimBody& b, bool first, double now) {
  SwimBody ack = body_of(Kind::ack, b.number, b.from);
  if (first && members_.contains(b.from)) return tell_all(b.from, std::move(ack), 0, now);
  add_own_and_theirs(ack, b.from);
  add_rumours(ack, b.from);
  send(b.from, std::move(ack));
}

void Swim::relay(const SwimBody& b, double now) {
  const double timeout = spec_.probe_timeout_s;
  if (!is_alive(b.about)) return send(b.from, body_of(Kind::nack, b.number, b.about));
  if (b.about == spec_.name) return send(b.from, body_of(Kind::ack, b.number, b.from));
  const std::uint64_t number = ++last_number_;
  relays_[number] = {b.from, b.about, b.number, now + timeout / 2, now + timeout};
  ping(b.about, number, now);
}

void Swim::run_relays(double now) {
  for (auto at = relays_.begin(); at != relays_.end();) {
    Relay& r = at->second;
    if (r.nack_at <= now) {
      send(r.asker, body_of(Kind::nack, r.number, r.target));
      r.nack_at = kNever;
    }
    at = r.end <= now ? relays_.erase(at) : std::next(at);
  }
}

/// The member that a ping was for has been heard if it answers, or another for it.
void Swim::on_ack(const SwimBody& b, double now) {
  if (const auto p = probes_.find(b.number);
      p != probes_.end() && (p->second.target == b.from || p->second.asked.contains(b.from))) {
    const std::string target = p->second.target;
    Track& t = tracks_.at(target);
    if (t.pinged >= t.broken) t.broken = -kNever;  // no echo from before the connection broke
    note_heard(target, members_.at(target).start, now, false);
  }
  if (const auto r = relays_.find(b.number); r != relays_.end() && r->second.target == b.from) {
    send(r->second.asker, body_of(Kind::ack, r->second.number, r->second.asker));
    relays_.erase(r);
  }
}

void Swim::seek(double now) {
  for (auto& s : sought_) {
    if (s.next_ping > now) continue;
    s.next_ping = now + s.wait * (0.75 + 0.5 * draw());
    s.wait = std::min(2 * s.wait, kLastSeek_s);
    SwimBody ping = body_of(Kind::ping, s.number, s.contact.name);
    ping.records.push_back(self());
    host_.send(s.contact, std::move(ping));
  }
}

void Swim::drop(const std::string& name) {
  gone_at_.reset();
  gone_.erase(name), members_.erase(name), tracks_.erase(name), rumours_.forget(name), news_.erase(name);
  host_.forgotten(name);
}

bool Swim::make_room() {
  const std::string* first = nullptr;
  for (const auto& name : gone_)
    if (name != spec_.name && (!first || tracks_.at(name).ended < tracks_.at(*first).ended)) first = &name;
  if (first) drop(std::string(*first));
  return first != nullptr;
}

/// The dead may be only cut off: they are pinged more and more rarely, and the more members do that, the more
/// rarely each; a few at a time, those first that have waited longest. After an hour nobody tells of them any
/// more.
void Swim::look_after_gone(double now) {
  const double by_many =
      std::max(1.0, static_cast<double>(living()) / static_cast<double>(spec_.most_targets + 1));
  std::vector<std::pair<double, std::string>> due;
  for (auto at = gone_.begin(); at != gone_.end();) {
    const std::string name = *at++;
    const Track& t = tracks_.at(name);
    if (t.ended + (spec_.planted.is(Bug::dead_forgotten) ? 0.1 : kKeepGone_s) <= now)
      drop(name);
    else if (t.next_ping <= now)
      due.emplace_back(t.next_ping, name);
  }
  std::sort(due.begin(), due.end());
  for (const auto& [since, name] : due) {
    const bool dead = members_.at(name).status == MemberStatus::dead;
    if (dead && gone_pings_until_ > now + kGonePingsAtOnce_s) break;
    if (dead) gone_pings_until_ = std::max(now, gone_pings_until_) + kGonePingEach_s;
    Track& t = tracks_.at(name);
    t.next_ping = now + t.wait * by_many * (0.75 + 0.5 * draw());
    t.wait = std::min(2 * t.wait, kLastGonePing_s);
    if (dead) ping(name, ++last_number_, now);
  }
  gone_at_.reset();
}

double Swim::next_of_gone() const {
  if (gone_at_) return *gone_at_;
  double ping = kNever, end = kNever;
  for (const auto& name : gone_) {
    const Track& t = tracks_.at(name);
    ping = std::min(ping, t.next_ping), end = std::min(end, t.ended + kKeepGone_s);
  }
  gone_at_ = std::min(end, std::max(ping, gone_pings_until_ - kGonePingsAtOnce_s));
  return *gone_at_;
}

/// This process stood still, and what came meanwhile is not read yet: nobody is judged before it is.
void Swim::wait_on(double late) {
  for (auto& [number, p] : probes_) p.due += late;
  for (const auto& name : suspects_) tracks_.at(name).suspected += late;
  change_health(1);
}

void Swim::on_timer(double now) {
  if (silent()) return;
  now += kEarly_s;
  if (const double late = now - next_deadline(); late > kLate_s) wait_on(late);
  if (news_at_ <= now) flush(false);
  if (has_left()) return;
  std::vector<std::uint64_t> due;
  for (const auto& [number, p] : probes_)
    if (p.due <= now) due.push_back(number);
  for (const auto number : due) {
    const auto p = probes_.find(number);
    if (p == probes_.end()) continue;
    p->second.late ? give_up(probes_.extract(p).mapped(), now) : ask_others(number, p->second, now);
  }
  run_relays(now);
  const std::set<std::string> suspects = suspects_;
  for (const auto& name : suspects)
    if (suspects_.contains(name) && verdict_at(name) <= now) bury(name, false, now);
  seek(now);
  if (next_of_gone() <= now || spec_.planted.is(Bug::dead_forgotten)) look_after_gone(now);
  if (probe_at_ <= now) begin_period(now);
  if (exchange_at_ <= now) exchange_all(now);
  settle();
}

double Swim::next_deadline() const {
  if (silent()) return kNever;
  if (has_left()) return news_at_;
  double t = std::min({news_at_, probe_at_, exchange_at_});
  for (const auto& [number, p] : probes_) t = std::min(t, p.due);
  for (const auto& [number, r] : relays_) t = std::min({t, r.nack_at, r.end});
  for (const auto& s : sought_) t = std::min(t, s.next_ping);
  for (const auto& name : suspects_) t = std::min(t, verdict_at(name));
  return std::min(t, next_of_gone());
}

}  // namespace gossamer::node
