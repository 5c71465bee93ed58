#include "peer_states.h"

#include <algorithm>
#include <cassert>
#include <limits>

namespace gossamer::node {
namespace {

constexpr std::size_t kMostPeers = std::numeric_limits<PeerId>::max();

}  // namespace

PeerStates::PeerStates(std::initializer_list<PeerStatus> each) {
  for (const PeerStatus s : each) append(1, s);
}

void PeerStates::append(std::size_t peers, PeerStatus status) {
  if (peers == 0) return;
  const auto end = static_cast<PeerId>(size() + peers);
  if (!runs_.empty() && runs_.back().status == status)
    runs_.back().end = end;
  else
    runs_.push_back({end, status});
}

PeerStatus PeerStates::operator[](PeerId peer) const {
  const auto run =
      std::upper_bound(runs_.begin(), runs_.end(), peer, [](PeerId p, const Run& r) { return p < r.end; });
  assert(run != runs_.end());
  return run->status;
}

void PeerStates::set(PeerId peer, PeerStatus status) {
  PeerStates changed;
  PeerId begin = 0;
  for (const Run& r : runs_) {
    const bool here = begin <= peer && peer < r.end;
    changed.append((here ? peer : r.end) - begin, r.status);
    if (here) {
      changed.append(1, status);
      changed.append(r.end - peer - 1, r.status);
    }
    begin = r.end;
  }
  *this = std::move(changed);
}

bool PeerStates::raise(PeerId peer, PeerStatus status) {
  if ((*this)[peer] >= status) return false;
  set(peer, status);
  return true;
}

/// Nothing of theirs is higher, as far as both go.
bool PeerStates::covers(const PeerStates& theirs) const {
  for (auto a = runs_.begin(), b = theirs.runs_.begin(); a != runs_.end() && b != theirs.runs_.end();) {
    if (b->status > a->status) return false;
    const PeerId end = std::min(a->end, b->end);
    if (a->end == end) ++a;
    if (b->end == end) ++b;
  }
  return true;
}

bool PeerStates::merge(const PeerStates& theirs, PeerId self) {
  if (covers(theirs)) return false;  // most often
  PeerStates merged;
  auto b = theirs.runs_.begin();
  for (auto a = runs_.begin(); a != runs_.end();) {
    const bool both = b != theirs.runs_.end();
    const PeerId end = both ? std::min(a->end, b->end) : a->end;
    merged.append(end - merged.size(), both ? std::max(a->status, b->status) : a->status);
    if (both && b->end == end) ++b;
    if (a->end == end) ++a;
  }
  if (const PeerStatus own = (*this)[self]; merged[self] != own) merged.set(self, own);
  const bool news = merged != *this;
  *this = std::move(merged);
  return news;
}

bool PeerStates::all_at_least(PeerStatus least) const {
  return std::all_of(runs_.begin(), runs_.end(), [&](const Run& r) { return r.status >= least; });
}

bool PeerStates::any(PeerStatus status) const {
  return std::any_of(runs_.begin(), runs_.end(), [&](const Run& r) { return r.status == status; });
}

std::vector<PeerId> PeerStates::with(PeerStatus status) const {
  std::vector<PeerId> peers;
  PeerId begin = 0;
  for (const Run& r : runs_) {
    if (r.status == status)
      for (PeerId p = begin; p < r.end; ++p) peers.push_back(p);
    begin = r.end;
  }
  return peers;
}

std::vector<std::byte> PeerStates::to_bytes() const {
  std::vector<std::byte> bytes;
  PeerId begin = 0;
  for (const Run& r : runs_) {
    bytes.push_back(static_cast<std::byte>(r.status));
    PeerId length = r.end - begin;
    for (; length >= 128; length >>= 7) bytes.push_back(static_cast<std::byte>((length & 127) | 128));
    bytes.push_back(static_cast<std::byte>(length));
    begin = r.end;
  }
  return bytes;
}

std::optional<PeerStates> PeerStates::from_bytes(std::span<const std::byte> bytes) {
  PeerStates states;
  for (std::size_t i = 0; i < bytes.size();) {
    const auto byte = std::to_integer<std::uint8_t>(bytes[i++]);
    std::size_t length = 0;
    for (unsigned shift = 0;; shift += 7) {
      if (i == bytes.size() || shift > 28) return std::nullopt;
      const auto part = std::to_integer<std::size_t>(bytes[i++]);
      length |= (part & 127) << shift;
      if (part < 128) break;
    }
    if (length == 0 || length > kMostPeers - states.size()) return std::nullopt;
    const bool known = byte <= static_cast<std::uint8_t>(PeerStatus::muted);
    states.append(length, known ? static_cast<PeerStatus>(byte) : PeerStatus::unknown);
  }
  return states;
}

}  // namespace gossamer::node
