#include "membership.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "difference.h"
#include "text.h"

namespace gossamer::node {

Membership::Membership(MembershipSpec spec, double now)
    : spec_(std::move(spec)),
      started_(now),
      neighbours_(spec_.links),
      status_(spec_.names.size(), PeerStatus::unknown) {
  for (const PeerId p : spec_.links) neighbours_[p].peer = p;
  set(spec_.self, PeerStatus::started);
  set_present();
}

/// Where all neighbours are linked, or there are none.
bool Membership::set_present() {
  const bool linked =
      std::all_of(neighbours_.begin(), neighbours_.end(), [](const auto& n) { return n.linked; });
  return linked && spec_.ready && set(spec_.self, PeerStatus::present);
}

bool Membership::become_ready() {
  spec_.ready = true;
  return set_present();
}

std::string Membership::on_hello(PeerId from, const FrameHeader& header, const HelloBody& theirs,
                                 double now) {
  Neighbour& n = of(from);
  if (n.epoch != header.epoch) n = {.peer = from, .epoch = header.epoch, .broken_at = {}};
  heard(from, header.epoch, now);
  n.linked = false;
  const HelloBody& ours = spec_.hello;
  const auto differ = [&](const char* what, auto here, auto there) {
    return fmt::format("{}: here {}, at peer '{}' {}", what, here, shortened(theirs.name), there);
  };
  if (header.version < ours.oldest_version || kWireVersion < theirs.oldest_version)
    return differ("wire version", fmt::format("{}.{}", kWireVersion >> 8, kWireVersion & 255),
                  fmt::format("{}.{}", header.version >> 8, header.version & 255));
  if (theirs.name != spec_.names[from])
    return differ(fmt::format("name of peer {}", from).c_str(), spec_.names[from], shortened(theirs.name));
  if (theirs.job_hash != ours.job_hash) {
    const std::string line = first_difference(ours.job_text, theirs.job_text);
    return fmt::format("job: {} (there = peer '{}')", line.empty() ? "hashes differ" : line,
                       shortened(theirs.name));
  }
  if (theirs.topology_hash != ours.topology_hash)
    return differ("topology hash", ours.topology_hash, theirs.topology_hash);
  if (theirs.layers != ours.layers) return differ("layer table", ours.layers, shortened(theirs.layers));
  if (theirs.allreduce != ours.allreduce)
    return differ("all-reduce algorithm by parcel (exchange.algorithm; \"auto\" goes by the links' tables)",
                  shortened(ours.allreduce), shortened(theirs.allreduce));
  if (theirs.data_hash != ours.data_hash) return differ("data set hash", ours.data_hash, theirs.data_hash);
  if (theirs.parameters_hash != ours.parameters_hash)
    return differ("hash of the initial parameters", ours.parameters_hash, theirs.parameters_hash);
  n.linked = theirs.heard_epoch == spec_.epoch;
  set_present();
  return {};
}

bool Membership::heard(PeerId from, std::uint64_t epoch, double now) {
  Neighbour& n = of(from);
  if (n.epoch == 0 || (n.epoch != epoch && !spec_.planted.is(Bug::epoch_not_checked))) return false;
  n.last_heard = now;
  // frames that came before the connection broke may still be read after it
  if (n.broken_at && now > *n.broken_at + kBrokenEcho_s) n.broken_at.reset();
  return true;
}

bool Membership::restarted(PeerId from, std::uint64_t epoch) const {
  const Neighbour& n = of(from);
  return n.epoch != 0 && n.epoch != epoch;
}

bool Membership::set(PeerId peer, PeerStatus status) { return status_.raise(peer, status); }

bool Membership::merge(PeerId from, const PeerStates& theirs) {
  of(from).knows_the_end = theirs.size() == status_.size() && theirs.all_at_least(PeerStatus::done);
  return status_.merge(theirs, spec_.self);
}

void Membership::on_broken(PeerId link, double now) {
  Neighbour& n = of(link);
  if (n.epoch != 0 && !n.broken_at) n.broken_at = now;
}

double Membership::verdict_at(const Neighbour& n) const {
  const bool expected = n.epoch != 0 && status_[n.peer] < PeerStatus::done;
  if (!expected || spec_.planted.is(Bug::silence_not_noticed)) return std::numeric_limits<double>::infinity();
  const double silence = n.last_heard + spec_.silence_timeout_s;
  return n.broken_at ? std::min(silence, *n.broken_at + kBrokenGrace_s) : silence;
}

bool Membership::find_lost(double now) {
  bool news = false;
  for (const auto& n : neighbours_)
    if (now + 1e-9 >= verdict_at(n)) news |= set(n.peer, PeerStatus::lost);
  return news;
}

bool Membership::gone_after_done(PeerId link, double now) const {
  return status_[link] == PeerStatus::done && now >= of(link).last_heard + spec_.silence_timeout_s;
}

bool Membership::completion_acknowledged(double now) const {
  return std::all_of(neighbours_.begin(), neighbours_.end(), [&](const auto& n) {
    return n.knows_the_end || (n.broken_at && now >= *n.broken_at + kBrokenGrace_s) ||
           now >= n.last_heard + spec_.silence_timeout_s;
  });
}

double Membership::next_deadline() const {
  double t = std::numeric_limits<double>::infinity();
  for (const auto& n : neighbours_) t = std::min(t, verdict_at(n));
  return t;
}

HelloBody Membership::hello_for(PeerId to) const {
  HelloBody h = spec_.hello;
  h.heard_epoch = of(to).epoch;
  h.status = status_;
  return h;
}

std::vector<std::string> Membership::names_with(PeerStatus status) const {
  std::vector<std::string> names;
  for (const PeerId p : status_.with(status)) names.push_back(spec_.names[p]);
  return names;
}

}  // namespace gossamer::node
