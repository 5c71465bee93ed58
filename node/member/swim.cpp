#include "swim.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "hash.h"
#include "text.h"

namespace gossamer::node {
namespace {

constexpr double kBrokenEcho_s = 0.25;  // frames read this soon after a connection broke came before it
constexpr double kFirstSeek_s = 0.2, kFirstExchange_s = 1, kFirstGonePing_s = 2;
constexpr int kHealthOfRefuting = 1;
constexpr std::size_t kExchangeAtShare = 16;

}  // namespace

Swim::Swim(SwimSpec spec, SwimHost& host, double now)
    : spec_(std::move(spec)), host_(host), random_(spec_.seed ^ hash_text(spec_.name)) {
  if (!names_a_peer(spec_.name))
    throw std::invalid_argument(fmt::format("a member's name is to be {}", kPeerName));
  if (!is_member_address(spec_.address))
    throw std::invalid_argument("address of member '" + spec_.name + "': must be one line of text");
  members_[spec_.name] = {spec_.name, spec_.address, spec_.start};
  note(self(), now);
  last_number_ = random_() | 1;  // an answer to an earlier start's ping is most likely none to this one's
  probe_at_ = now + draw() * spec_.probe_every_s;
  exchange_at_ = now + kFirstExchange_s * (0.5 + draw());
}

double Swim::draw() { return static_cast<double>(random_() >> 11) * 0x1p-53; }

bool Swim::is_alive(const std::string& name) const {
  const auto m = members_.find(name);
  return m != members_.end() && m->second.status <= MemberStatus::suspect;
}

std::vector<std::string> Swim::alive() const {
  std::vector<std::string> names;
  for (const auto& [name, r] : members_)
    if (r.status <= MemberStatus::suspect) names.push_back(name);
  return names;
}

void Swim::contact(const Contact& contact, double now) {
  if (contact.name == spec_.name || is_alive(contact.name)) return;
  for (auto& s : sought_)
    if (s.contact == contact) return;
  sought_.push_back({contact, ++last_number_, now, kFirstSeek_s});
}

void Swim::forget(const std::string& name) {
  std::erase_if(sought_, [&](const Sought& s) {
    return s.contact.name == name || (s.contact.name.empty() && s.contact.address == name);
  });
}

void Swim::links(std::vector<std::string> names, bool everyone) {
  links_ = {names.begin(), names.end()};
  links_everyone_ = everyone;
  targets_.reset();
}

const std::vector<std::string>& Swim::targets() {
  if (targets_) return *targets_;
  const auto dialled_by = [&](const std::string& name) { return ring_.targets(name, spec_.most_targets); };
  const bool dials_only = diallers_.contains(spec_.name);  // and reaches no other that does
  std::set<std::string> chosen;
  if (few() || links_everyone_) {
    for (auto& name : alive())
      if (!dials_only || !diallers_.contains(name)) chosen.insert(std::move(name));
  } else {
    const auto own = dialled_by(spec_.name);
    chosen.insert(own.begin(), own.end());
    // who cannot be dialled is pinged by those whom it dials
    for (const auto& name : diallers_) {
      const auto theirs = dialled_by(name);
      if (std::find(theirs.begin(), theirs.end(), spec_.name) != theirs.end()) chosen.insert(name);
    }
    for (const auto& name : links_)
      if (is_alive(name)) chosen.insert(name);
  }
  if (chosen.empty())
    for (auto& name : alive()) chosen.insert(std::move(name));  // all of whom will be missed
  chosen.erase(spec_.name);
  return targets_.emplace(chosen.begin(), chosen.end());
}

void Swim::on_body(const SwimBody& b, double now) {
  if (silent()) return;
  if (b.from == spec_.name) return on_namesake(b), settle();
  const bool answers = b.kind == Kind::ping || b.kind == Kind::ack;
  if (answers && !b.about.empty() && b.about != spec_.name) return;  // for who had this address before
  const auto known = members_.find(b.from);
  if (known != members_.end() && b.from_start < known->second.start &&
      !spec_.planted.is(Bug::old_start_taken)) {
    SwimBody answer = body_of(Kind::news, 0, b.from);
    answer.records.push_back(known->second);
    return send(b.from, std::move(answer));
  }
  const bool first = known == members_.end() || known->second.start != b.from_start ||
                     known->second.status == MemberStatus::dead;
  // before what it tells is known here, too: it need not hear that
  if (first && (b.kind == Kind::ack || known != members_.end()) && b.kind != Kind::ping &&
      members_.size() > 1)
    tell_all(b.from, body_of(Kind::news, 0, b.from), 0, now);
  for (const auto& record : b.records) take_in(record, b.from, now);
  if (silent()) return settle();
  std::erase_if(sought_, [&](const Sought& s) {
    return s.contact.name.empty() && b.kind == Kind::ack && s.number == b.number;
  });
  if (!members_.contains(b.from)) contact({b.from}, now);  // whose record must have been lost
  if (b.kind == Kind::ack) on_ack(b, now);
  b.kind == Kind::ping ? note_heard(b.from, b.from_start, now) : heard(b.from, b.from_start, now);
  if (b.kind == Kind::ping) answer_ping(b, first, now);
  if (b.kind == Kind::ping_request) relay(b, now);
  if (b.kind == Kind::nack)
    if (const auto p = probes_.find(b.number); p != probes_.end() && p->second.asked.contains(b.from))
      ++p->second.nacks;
  if (b.kind == Kind::news && b.number != 0 && members_.contains(b.from))
    tell_all(b.from, body_of(Kind::news, 0, b.from), 0, now);
  settle();
}

void Swim::on_namesake(const SwimBody& b) {
  const std::uint64_t own = self().start;
  if (b.from_start > own) superseded_ = b.from_start;
  if (b.from_start < own) {
    SwimBody answer = body_of(Kind::news, 0, b.from);
    answer.records.push_back(self());
    host_.send({b.from, b.records.empty() ? "" : b.records.front().address}, std::move(answer));
  }
  // an address that was given to join by is this member's own
  if (b.from_start == own) std::erase_if(sought_, [&](const Sought& s) { return s.number == b.number; });
}

void Swim::take_in(const MemberRecord& theirs, const std::string& from, double now) {
  if (silent()) return;
  if (theirs.name == spec_.name) return take_in_of_self(theirs, now);
  const auto [at, fresh] = members_.try_emplace(theirs.name, theirs);
  MemberRecord& ours = at->second;
  const auto before = fresh ? std::nullopt : std::optional(ours.status);
  const News news = fresh ? News{true, true, true, true} : take_newer(ours, theirs, spec_.planted);
  if (!news) return;
  // where many come at once rumours do not keep up
  if (fresh && ++newcomers_ * kExchangeAtShare >= living())
    exchange_at_ = std::min(exchange_at_, now + kFirstExchange_s * (0.5 + draw()));
  if (news.start) {
    tracks_[theirs.name] = {.turn = random_()};
    std::erase_if(probes_, [&](const auto& p) { return p.second.target == theirs.name; });
  }
  if (news.standing) note(ours, now);
  spread(theirs.name, from, now);
  if (news.start || news.word || before != ours.status || (news.standing && ours.ended))
    events_.push_back({ours, before});
  if (ours.status <= MemberStatus::suspect)
    std::erase_if(sought_, [&](const Sought& s) { return s.contact.name == theirs.name; });
  // Whoever keeps in touch with a suspect asks it at once: so it hears of that, and others soon know for
  // themselves.
  if (news.standing && ours.status == MemberStatus::suspect && !probing(ours.name) && !has_left()) {
    const auto& near = targets();
    if (std::find(near.begin(), near.end(), ours.name) != near.end()) probe(ours.name, now);
  }
}

/// A member's standing is another.
void Swim::note(const MemberRecord& r, double now) {
  Track& t = tracks_[r.name];
  const bool lives = r.status <= MemberStatus::suspect;
  gone_at_.reset();
  r.status == MemberStatus::suspect ? suspects_.insert(r.name).second : suspects_.erase(r.name);
  if (r.status == MemberStatus::suspect) t.suspected = now;
  if (lives) {
    gone_.erase(r.name);
    r.address.empty() ? ring_.erase(r.name) : ring_.insert(r.name);
    r.address.empty() ? diallers_.insert(r.name).second : diallers_.erase(r.name);
  } else {
    gone_.insert(r.name);
    t.ended = now;
    ring_.erase(r.name);
    diallers_.erase(r.name);
    t.wait = kFirstGonePing_s;
    t.next_ping = now + t.wait * (0.5 + draw());
    std::erase_if(probes_, [&](const auto& p) { return p.second.target == r.name; });
  }
  targets_.reset();
}

void Swim::take_in_of_self(const MemberRecord& theirs, double now) {
  constexpr auto kMost = std::numeric_limits<std::uint32_t>::max();
  MemberRecord& own = self();
  if (theirs.start > own.start) superseded_ = theirs.start;
  if (theirs.start > own.start || own.status == MemberStatus::left) return;
  if (theirs.start < own.start) return spread(own.name, spec_.name, now);
  bool news = false;
  if (theirs.status != MemberStatus::left && overrides(theirs, own)) {
    const bool wrong = theirs.status != MemberStatus::alive;
    if (wrong && theirs.refuted < kMost) {
      own.refuted = theirs.refuted + !spec_.planted.is(Bug::refuted_by_no_more);
      change_health(kHealthOfRefuting);
    } else {
      own.refuted = theirs.refuted;
    }
    news = true;
  }
  if (theirs.word_version > own.word_version) {  // nobody else may speak for this member
    own.word_version = theirs.word_version + (theirs.word_version < kMost);
    news = true;
  }
  if (news) spread(own.name, spec_.name, now);
}

void Swim::doubt(const std::string& name, double now) {
  if (!is_alive(name) || name == spec_.name) return;
  MemberRecord said = members_.at(name);
  said.status = MemberStatus::suspect;
  said.doubted_by = {hash_text(spec_.name)};
  take_in(said, spec_.name, now);
}

void Swim::bury(const std::string& name, bool ended, double now) {
  if (!is_alive(name) || name == spec_.name) return;
  MemberRecord said = members_.at(name);
  said.status = MemberStatus::dead;
  said.ended = ended;
  said.doubted_by.clear();
  take_in(said, spec_.name, now);
}

double Swim::verdict_at(const std::string& name) const {
  constexpr std::size_t kConfirming = kMostDoubts - 1;
  const std::size_t doubts = members_.at(name).doubted_by.size();
  const double larger = std::max(1.0, std::log10(static_cast<double>(living())));
  const Track& t = tracks_.at(name);
  return std::max(t.suspected, t.heard) + larger * suspicion_s(spec_.least_suspicion_s,
                                                               spec_.most_suspicion_s, doubts - (doubts > 0),
                                                               std::min(kConfirming, living() - 2));
}

void Swim::note_heard(const std::string& name, std::uint64_t start, double now, bool itself) {
  const auto m = members_.find(name);
  if (m == members_.end() || m->second.start != start) return;
  Track& t = tracks_[name];
  if (now <= t.broken + kBrokenEcho_s) return;
  t.heard = now;
  if (itself) t.itself = now;
  const auto answered = std::erase_if(probes_, [&](const auto& p) { return p.second.target == name; });
  change_health(-static_cast<int>(answered));
}

void Swim::heard(const std::string& name, std::uint64_t start, double now) {
  if (silent() || name == spec_.name) return;
  note_heard(name, start, now);
  const auto m = members_.find(name);
  // it lives, and does not know what is said of it
  if (m != members_.end() && m->second.start == start && m->second.status == MemberStatus::dead &&
      tracks_[name].pinged + spec_.probe_every_s <= now)
    ping(name, ++last_number_, now);
}

void Swim::on_broken(const std::string& name, double now) {
  if (silent() || !is_alive(name) || name == spec_.name) return;
  tracks_[name].broken = now;
  doubt(name, now);
  settle();
}

void Swim::on_refused(const std::string& name, double now) {
  if (silent() || !is_alive(name) || name == spec_.name) return;
  Track& t = tracks_.at(name);
  if (t.heard == -kNever && t.broken == -kNever) return;
  t.refused = now;
  bury(name, true, now);
  settle();
}

double Swim::heard_itself(const std::string& name) const {
  const auto track = tracks_.find(name);
  return track == tracks_.end() ? -kNever : track->second.itself;
}

double Swim::heard_of(const std::string& name) const {
  const auto track = tracks_.find(name);
  return track == tracks_.end() ? -kNever : track->second.heard;
}

std::string Swim::why(const std::string& name, double now) const {
  const auto member = members_.find(name);
  if (member != members_.end() && member->second.status == MemberStatus::left) return "it ended by itself";
  const auto track = tracks_.find(name);
  const Track t = track == tracks_.end() ? Track{} : track->second;
  if (t.refused != -kNever && t.refused >= t.heard) return "its connection broke, and nothing listens there";
  if (t.broken != -kNever && t.broken >= t.heard) return "its connection broke";
  const double silent = now - t.heard;
  if (silent < spec_.probe_every_s + spec_.probe_timeout_s || t.heard == -kNever)
    return "others had no answer";
  return fmt::format("no answer to probes for {:.1f} s", silent);
}

void Swim::say(std::vector<std::byte> word, double now) {
  if (word.size() > kMostWordBytes) throw std::invalid_argument("a member's word has at most 512 bytes");
  self().word = std::move(word);
  ++self().word_version;
  spread(spec_.name, spec_.name, now);
}

void Swim::leave(double now) {
  if (silent()) return;
  self().status = MemberStatus::left;
  spread(spec_.name, spec_.name, now);
  flush(true);
  probes_.clear(), relays_.clear(), sought_.clear();
}

void Swim::settle() {
  if (settling_) return;
  settling_ = true;
  for (std::size_t k = 0; k < events_.size(); ++k) {  // callbacks may add some
    const Event e = events_[k];
    host_.changed(e.now, e.before);
  }
  events_.clear();
  if (superseded_ && !std::exchange(told_superseded_, true)) host_.superseded(*superseded_);
  settling_ = false;
}

}  // namespace gossamer::node
