// What a Swim tells of the members, and to whom.
#include <algorithm>
#include <cmath>

#include "swim.h"

namespace gossamer::node {
namespace {

constexpr double kNewsAfter_s = 0.005;
constexpr double kExchangeEvery_s = 10, kNoExchange_s = 1, kTellAllAgain_s = 0.5;
constexpr double kTellGone_s =
    1800;  // long before they are forgotten, so that nobody hears of them again then
constexpr std::size_t kMostRiding = 16;
constexpr std::size_t kFanOut = 4;

}  // namespace

SwimBody Swim::body_of(Kind kind, std::uint64_t number, const std::string& about) const {
  return {kind, number, spec_.name, members_.at(spec_.name).start, about};
}

Contact Swim::contact_of(const std::string& name) const {
  const auto m = members_.find(name);
  return {name, m == members_.end() ? std::string() : m->second.address};
}

/// So that who does not know the sender learns of it, and who is suspected or held dead refutes it.
void Swim::add_own_and_theirs(SwimBody& body, const std::string& to) const {
  body.records.push_back(members_.at(spec_.name));
  const auto m = members_.find(to);
  if (m != members_.end() && m->second.status != MemberStatus::alive) body.records.push_back(m->second);
}

/// Of n members everyone is told by somebody, with high probability, after so many.
std::size_t Swim::times_told() const {
  return 3 * static_cast<std::size_t>(std::ceil(std::log2(static_cast<double>(living()) + 1)));
}

void Swim::add_rumours(SwimBody& body, const std::string& to) {
  for (const auto& name : rumours_.first(kMostRiding)) {
    rumours_.told(name, 1, times_told());
    if (name != to && name != spec_.name) body.records.push_back(members_.at(name));
  }
}

/// from: who told, itself where it is this member's own news.
void Swim::spread(const std::string& name, const std::string& from, double now) {
  if (has_left() && name != spec_.name) return;
  rumours_.add(name);
  if (news_.empty()) news_at_ = now + kNewsAfter_s;
  news_[name] = from;
}

/// Where everybody is a target own news goes to all, and what others told is handed on to a few, in case it
/// was lost. Elsewhere all news goes to all targets: a view can begin when what each member says of it has
/// come to all, and by a few random ones that takes the last of them many hops. Members that can only dial
/// out do not reach each other: whoever hears their news hands it on to all.
void Swim::flush(bool everyone) {
  const auto news = std::exchange(news_, {});
  news_at_ = kNever;
  std::vector<std::string> to = targets();
  std::shuffle(to.begin(), to.end(), random_);
  const bool reaches_all = to.size() + 1 >= living();
  const auto told_few = [&](const std::string& from) {
    return diallers_.size() > 1 && diallers_.contains(from);
  };
  for (std::size_t k = 0; k < to.size(); ++k) {
    SwimBody body = body_of(Kind::news, 0, to[k]);
    for (const auto& [name, from] : news) {
      const MemberRecord& r = members_.at(name);
      const bool concerned = k < kFanOut || everyone || !reaches_all || from == spec_.name || told_few(from);
      if (!concerned || from == to[k] || (name == to[k] && r.status == MemberStatus::alive)) continue;
      if (body.records.size() == kMostRecords) {
        send(to[k], body);
        body.records.clear();
      }
      body.records.push_back(r);
      rumours_.told(name, 1, times_told());
    }
    if (!body.records.empty()) send(to[k], std::move(body));
  }
}

void Swim::tell_all(const std::string& to, SwimBody body, std::uint64_t number, double now) {
  const auto track = tracks_.find(to);
  const bool again = track != tracks_.end() && now < track->second.told_all + kTellAllAgain_s;
  if (track != tracks_.end() && !again) track->second.told_all = now;
  add_own_and_theirs(body, to);
  for (const auto& [name, r] : members_) {
    if (again) break;
    if (name == spec_.name || name == to) continue;
    if (r.status >= MemberStatus::dead && tracks_.at(name).ended + kTellGone_s < now) continue;
    if (body.records.size() == kMostRecords) {
      send(to, std::exchange(body, body_of(Kind::news, 0, to)));
    }
    body.records.push_back(r);
  }
  if (body.kind == Kind::news) body.number = number;
  send(to, std::move(body));
}

/// With one target at a time: what no rumour brought stays unknown to nobody for long.
void Swim::exchange_all(double now) {
  const auto& near = targets();
  newcomers_ = 0;
  exchange_at_ = now + (near.empty() ? kNoExchange_s : kExchangeEvery_s * (0.75 + 0.5 * draw()));
  if (near.empty()) return;
  const std::string to = near[random_() % near.size()];
  tell_all(to, body_of(Kind::news, 0, to), ++last_number_, now);
}

}  // namespace gossamer::node
