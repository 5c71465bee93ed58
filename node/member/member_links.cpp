// What a member does where another lives and nothing comes from it by itself: a firewall between the two, or
// a route that only some have. A member whose worker waits for such a neighbour says so (Standing::deaf_to);
// from what is said all leave out, by one rule, as few as it takes for the others to hear each other. Who is
// left out waits until its links are well again.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "member.h"
#include "text.h"

namespace gossamer::node {
namespace {

constexpr double kLookEvery_s = 0.1;
/// Later than that after the last look this process stood still, and what has come meanwhile is not read yet.
constexpr double kStoodStill_s = 1;

bool lives(const MemberRecord& r) {
  return r.status == MemberStatus::alive || r.status == MemberStatus::suspect;
}

}  // namespace

/// Twice as long as it takes to find out that a member is gone.
double Member::deaf_after() const {
  const SwimSpec& s = spec_.swim;
  return 2 * (s.most_suspicion_s + s.probe_every_s + 2 * s.probe_timeout_s);
}

/// The members with which this one is in touch, as SWIM is, and its neighbours, that live and of which
/// nothing has come since it could have.
std::set<std::string> Member::silent(double now) {
  const auto is_silent = [&](const std::string& peer) {
    const auto at = swim_->members().find(peer);
    if (at == swim_->members().end() || at->second.status != MemberStatus::alive) return false;
    Listening& to = listens_to_[peer];
    if (to.start != at->second.start) to = {at->second.start, now};
    const double since = std::max({listens_since_, to.since, swim_->heard_itself(peer)});
    return since + deaf_after() <= now && swim_->heard_of(peer) + deaf_after() > now;
  };
  std::set<std::string> all;
  if (swim_->targets().size() <= kMostDeafTo) all.insert(swim_->targets().begin(), swim_->targets().end());
  if (worker_)
    for (const PeerId p : worker_->links()) all.insert(run_.seats[p].name);
  std::erase_if(all, [&](const std::string& peer) { return !is_silent(peer); });
  return all;
}

/// This member cannot go on without something of that one.
bool Member::waits_for(const std::string& peer) const {
  if (!worker_) return transfer_ && transfer_->comes_from(peer) && !spec_.alike;
  if (worker_->finished() || winding_up_) return false;
  const auto& links = worker_->links();
  return std::any_of(links.begin(), links.end(),
                     [&](PeerId p) { return run_.seats[p].name == peer && worker_->waits_for(p); });
}

/// Whose links are well again, and whose do not come up.
void Member::watch_links() {
  const double now = env_.now();
  if (now < looked_at_links_ + kLookEvery_s) return;
  if (now > std::exchange(looked_at_links_, now) + kStoodStill_s) listens_since_ = now;
  for (auto& [peer, link] : deaf_to_)
    if (swim_->heard_itself(peer) + deaf_after() <= now) link.ill = now;
  std::size_t news = std::erase_if(deaf_to_, [&](const auto& entry) {
    const auto at = swim_->members().find(entry.first);
    return entry.second.ill + deaf_after() < now || at == swim_->members().end() ||
           at->second.start != entry.second.start || !lives(at->second);
  });
  std::set<std::string> unheard = silent(now);
  std::erase_if(unheard, [&](const std::string& peer) { return deaf_to_.contains(peer); });
  const bool waits = begun_ && std::any_of(unheard.begin(), unheard.end(),
                                           [&](const std::string& peer) { return waits_for(peer); });
  for (const std::string& peer : unheard) {
    if (!waits || deaf_to_.size() == kMostDeafTo) break;
    deaf_to_[peer] = {swim_->members().at(peer).start, now};
    ++news;
    env_.log(
        fmt::format("nothing comes from {} itself for {:.1f} s, though others hear it: its link to this "
                    "peer is broken, by a firewall or a route",
                    peer, deaf_after()));
  }
  if (news == 0) return;
  members_changed_ = true;
  say(standing_);
}

std::vector<std::uint32_t> Member::keys_of_deaf() const {
  std::vector<std::uint32_t> keys;
  for (const auto& [peer, link] : deaf_to_) keys.push_back(start_key({peer, link.start}));
  std::sort(keys.begin(), keys.end());
  return keys;
}

/// Whoever has most broken links to others that are not left out already; of several the one that comes last
/// in order().
Member::LeftOut Member::left_out() const {
  std::vector<std::pair<std::string, std::uint32_t>> said;
  for (const std::string& peer : say_deaf_)
    if (const auto at = swim_->members().find(peer); at != swim_->members().end() && lives(at->second))
      for (const std::uint32_t key : standing_from(at->second.word).deaf_to) said.emplace_back(peer, key);
  for (const std::uint32_t key : standing_.deaf_to) said.emplace_back(name(), key);
  LeftOut out;
  if (said.empty()) return out;
  std::map<std::uint32_t, std::string> by_key;
  for (const auto& [peer, record] : swim_->members())
    if (lives(record)) by_key[start_key({peer, record.start})] = peer;
  std::set<std::pair<std::string, std::string>> broken;
  for (const auto& [peer, key] : said)
    if (const auto other = by_key.find(key); other != by_key.end() && other->second != peer)
      broken.insert(std::minmax(peer, other->second));
  const std::vector<std::string> all = order();
  while (!broken.empty()) {
    const std::string* worst = nullptr;
    std::ptrdiff_t most = 0;
    for (const std::string& peer : all) {
      const auto links = std::count_if(broken.begin(), broken.end(), [&](const auto& pair) {
        return pair.first == peer || pair.second == peer;
      });
      if (links > 0 && links >= most) worst = &peer, most = links;
    }
    if (!worst) break;  // of those that nobody has a record of
    std::vector<std::string> unheard;
    std::erase_if(broken, [&](const auto& pair) {
      if (pair.first != *worst && pair.second != *worst) return false;
      unheard.push_back(pair.first == *worst ? pair.second : pair.first);
      return true;
    });
    out.names.insert(*worst);
    out.why += fmt::format("{}{} is left out until {} and it hear each other", out.why.empty() ? "" : ", ",
                           *worst, join(unheard, ", "));
  }
  return out;
}

/// Some member has left at the end of the run, as none does before all of its view are there.
bool Member::ended_without_it() const {
  return std::any_of(swim_->members().begin(), swim_->members().end(), [&](const auto& entry) {
    const MemberRecord& r = entry.second;
    return entry.first != name() && r.status == MemberStatus::left && standing_from(r.word).share >= 1;
  });
}

/// False where this peer is not to take part now.
bool Member::look_who_is_out() {
  if (outside_ && ended_without_it()) {
    end(Outcome::lost_peer,
        fmt::format("the others have ended the run while this peer was left out: its model "
                    "is as of {:.1f} % of it",
                    100 * share_));
    return false;
  }
  LeftOut out = left_out();
  if (out.names != left_out_.names && !out.names.empty()) env_.log(out.why);
  left_out_ = std::move(out);
  const bool is_out = left_out_.names.contains(name());
  if (is_out && !outside_) close_view();
  outside_ = is_out;
  return !is_out;
}

// --- members that were never heard of

bool Member::is_unheard(const Seat& seat) const {
  const auto record = swim_->members().find(seat.name);
  return record == swim_->members().end() || record->second.start == 0;
}

/// The announced view has members that no record was ever had of: of a run in which they were, all may have
/// gone who knew that they had gone, too.
bool Member::awaits_unheard() const {
  return !worker_ && standing_.view != 0 &&
         std::any_of(current_.seats.begin(), current_.seats.end(),
                     [&](const Seat& seat) { return !gone_.contains(seat.name) && is_unheard(seat); });
}

void Member::give_up_unheard() {
  for (const Seat& seat : current_.seats)
    if (is_unheard(seat)) gone_.insert(seat.name);
  members_changed_ = true;
}

}  // namespace gossamer::node
