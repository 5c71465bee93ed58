#include "offers.h"

#include <algorithm>
#include <iterator>

#include "varint.h"

namespace gossamer::node {
namespace {

constexpr std::uint64_t kMostOffering = 65535;  // peers of a job
constexpr std::uint64_t kMostOffers = 256;      // of one peer
constexpr Round kMostOfferedRound = Round{1} << 48;
constexpr std::uint64_t kMostStart = (std::uint64_t{1} << 62) - 1;

}  // namespace

Offers::Offers(std::size_t peers, PeerId self, std::uint64_t started, std::vector<Round> rounds)
    : self_(self), by_peer_(peers) {
  if (rounds.size() > kMostOffers)
    rounds.erase(rounds.begin(), rounds.end() - static_cast<std::ptrdiff_t>(kMostOffers));
  by_peer_[self] = {std::clamp<std::uint64_t>(started, 1, kMostStart), std::move(rounds)};
}

bool Offers::complete() const {
  return std::all_of(by_peer_.begin(), by_peer_.end(), [](const Offer& o) { return o.started != 0; });
}

bool Offers::merge(const Offers& theirs) {
  if (theirs.by_peer_.size() != by_peer_.size()) return false;
  bool news = false;
  for (std::size_t p = 0; p < by_peer_.size(); ++p) {
    if (p == self_ || theirs.by_peer_[p].started <= by_peer_[p].started) continue;
    by_peer_[p] = theirs.by_peer_[p];
    news = true;
  }
  return news;
}

std::optional<Round> Offers::newest_common() const {
  if (!asked()) return std::nullopt;
  std::vector<Round> common = by_peer_.front().rounds;
  for (const Offer& offer : by_peer_) {
    std::vector<Round> both;
    std::set_intersection(common.begin(), common.end(), offer.rounds.begin(), offer.rounds.end(),
                          std::back_inserter(both));
    common = std::move(both);
  }
  return common.empty() ? std::nullopt : std::optional(common.back());
}

std::vector<std::byte> Offers::to_bytes() const {
  std::vector<std::byte> bytes;
  for (const Offer& offer : by_peer_) {
    put_varint(offer.started, bytes);
    put_varint(offer.rounds.size(), bytes);
    Round before = 0;
    for (const Round r : offer.rounds) {
      put_varint(r - before, bytes);
      before = r;
    }
  }
  return bytes;
}

std::optional<Offers> Offers::from_bytes(std::span<const std::byte> bytes) {
  Offers offers;
  while (!bytes.empty()) {
    if (offers.by_peer_.size() == kMostOffering) return std::nullopt;
    const auto started = take_varint(bytes, kMostStart);
    const auto count = started ? take_varint(bytes, kMostOffers) : std::nullopt;
    if (!count) return std::nullopt;
    Offer offer{*started, {}};
    Round before = 0;
    for (std::uint64_t n = 0; n < *count; ++n) {
      const auto more = take_varint(bytes, kMostOfferedRound - before);
      if (!more) return std::nullopt;
      offer.rounds.push_back(before += *more);
    }
    offers.by_peer_.push_back(std::move(offer));
  }
  return offers;
}

}  // namespace gossamer::node
