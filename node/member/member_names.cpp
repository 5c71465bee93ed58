// Whom a member knows by name: what numbers they have in its world, and how many there may be.
#include <fmt/format.h>

#include <algorithm>

#include "member.h"

namespace gossamer::node {
namespace {

/// Beside the job's, within the hour for which those that have gone are known.
constexpr std::size_t kMostOthers = 4096;
/// Who comes hears of all that came before it.
constexpr double kSettlesIn_s = 10;

}  // namespace

std::optional<PeerId> Member::number(const std::string& name) const {
  const auto at = numbers_.find(name);
  return at == numbers_.end() ? std::nullopt : std::optional(at->second);
}

/// A peer that the roster does not have gets the number of one that is forgotten, or the next.
PeerId Member::meet(const Contact& contact) {
  const auto known = number(contact.name);
  if (!known) {
    auto peer = static_cast<PeerId>(spec_.roster.size());
    if (free_.empty())
      spec_.roster.emplace_back();
    else
      peer = free_.back(), free_.pop_back();
    spec_.roster[peer] = contact;
    numbers_.emplace(contact.name, peer);
    env_.met(peer, contact);
    return peer;
  }
  Contact& ours = spec_.roster[*known];
  if (*known >= spec_.named && *known != spec_.self && ours != contact) {  // started again elsewhere
    ours = contact;
    env_.met(*known, contact);
  }
  return *known;
}

void Member::forgotten(const std::string& name) {
  listens_to_.erase(name), say_deaf_.erase(name);
  const auto at = numbers_.find(name);
  if (at == numbers_.end() || at->second < spec_.named || at->second == spec_.self) return;
  told_.erase(name);
  const PeerId peer = at->second;
  const auto& refused = before_.refused;  // the result has their numbers
  if (current_.has(name) || run_.has(name) ||
      std::any_of(refused.begin(), refused.end(), [&](const auto& r) { return r.first == peer; }))
    return;
  numbers_.erase(at);
  spec_.roster[peer] = {};
  free_.push_back(peer);
}

/// Of what is told: whoever lies makes up names as fast as it can send them.
void Member::leave_out_new(SwimBody& body, SpeakerLimits* limits) {
  std::erase_if(body.records, [&](const MemberRecord& r) { return !may_come(r, body.from, limits); });
}

bool Member::may_come(const MemberRecord& record, const std::string& from, SpeakerLimits* limits) {
  if (swim_->members().contains(record.name)) return true;
  if (const auto known = number(record.name); known && *known < spec_.named) return true;
  const bool lives = record.status <= MemberStatus::suspect;
  if (limits && record.name != from && !limits->may_name(lives, env_.now())) {
    const bool settled = env_.now() >= started_ + kSettlesIn_s;
    if (settled && told_many_.insert(from).second)
      env_.log(
          fmt::format("{} tells of more peers that are new here than one may bring at once, by itself or as "
                      "others told it: the rest are left out until they are told of again",
                      from));
    return false;
  }
  return swim_->members().size() < spec_.named + kMostOthers || (lives && swim_->make_room());
}

}  // namespace gossamer::node
