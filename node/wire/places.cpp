#include "places.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace gossamer::node {
namespace {

using Run = std::array<std::uint32_t, 3>;  // machine, allotment, peers
static_assert(std::endian::native == std::endian::little);
constexpr std::size_t kMostPeers = 65535;  // of a job

}  // namespace

Places::Places(std::size_t peers, PeerId self, Place own) : own_(own) {
  if (!asked()) return;
  by_peer_.resize(peers);
  by_peer_[self] = own;
  unknown_ = peers - 1;
}

bool Places::merge(const Places& theirs) {
  if (theirs.by_peer_.size() != by_peer_.size()) return false;
  const std::size_t before = unknown_;
  for (std::size_t p = 0; p < by_peer_.size(); ++p) {
    if (by_peer_[p].machine != 0 || theirs.by_peer_[p].machine == 0) continue;
    by_peer_[p] = theirs.by_peer_[p];
    --unknown_;
  }
  return unknown_ != before;
}

CoreSharing Places::sharing() const {
  const auto machine = std::count_if(by_peer_.begin(), by_peer_.end(),
                                     [&](const Place& p) { return p.machine == own_.machine; });
  const auto allotment = std::count(by_peer_.begin(), by_peer_.end(), own_);
  return {static_cast<std::size_t>(machine), static_cast<std::size_t>(allotment)};
}

std::vector<std::byte> Places::to_bytes() const {
  std::vector<Run> runs;
  for (const Place& p : by_peer_) {
    if (runs.empty() || runs.back()[0] != p.machine || runs.back()[1] != p.allotment)
      runs.push_back({p.machine, p.allotment, 0});
    ++runs.back()[2];
  }
  const auto bytes = std::as_bytes(std::span(runs));
  return {bytes.begin(), bytes.end()};
}

std::optional<Places> Places::from_bytes(std::span<const std::byte> bytes) {
  if (bytes.size() % sizeof(Run) != 0) return std::nullopt;
  Places places;
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(Run)) {
    Run run;
    std::memcpy(run.data(), bytes.data() + at, sizeof run);
    if (run[2] > kMostPeers - places.by_peer_.size()) return std::nullopt;
    places.by_peer_.insert(places.by_peer_.end(), run[2], {run[0], run[1]});
  }
  return places;
}

}  // namespace gossamer::node
