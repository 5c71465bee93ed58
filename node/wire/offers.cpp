#include "offers.h"

#include <algorithm>

#include "varint.h"

namespace gossamer::node {
namespace {

constexpr std::uint64_t kMostOffering = 65535;  // peers of a job
constexpr std::uint64_t kMostOffers = 256;      // of one peer
constexpr Round kMostOfferedRound = Round{1} << 48;
constexpr std::uint64_t kMostRun = (std::uint64_t{1} << 62) - 1;

}  // namespace

Offers::Offers(std::size_t peers, PeerId self, std::uint64_t drawn, std::vector<Round> rounds)
    : run_(self == 0 ? std::max<std::uint64_t>(1, drawn & kMostRun) : 0),
      by_peer_(peers),
      unknown_(peers - 1) {
  if (rounds.size() > kMostOffers) rounds.erase(rounds.begin(), rounds.end() - kMostOffers);
  by_peer_[self] = std::move(rounds);
}

bool Offers::merge(const Offers& theirs) {
  if (theirs.by_peer_.size() != by_peer_.size()) return false;
  bool news = run_ == 0 && theirs.run_ != 0;
  if (news) run_ = theirs.run_;
  for (std::size_t p = 0; p < by_peer_.size(); ++p) {
    if (by_peer_[p] || !theirs.by_peer_[p]) continue;
    by_peer_[p] = theirs.by_peer_[p];
    --unknown_;
    news = true;
  }
  return news;
}

std::optional<Round> Offers::newest_common() const {
  std::vector<Round> common;
  for (std::size_t p = 0; p < by_peer_.size(); ++p) {
    if (!by_peer_[p]) return std::nullopt;
    std::vector<Round> both;
    if (p > 0)
      std::set_intersection(common.begin(), common.end(), by_peer_[p]->begin(), by_peer_[p]->end(),
                            std::back_inserter(both));
    common = p > 0 ? std::move(both) : *by_peer_[p];
  }
  return common.empty() ? std::nullopt : std::optional(common.back());
}

std::vector<std::byte> Offers::to_bytes() const {
  std::vector<std::byte> bytes;
  put_varint(run_, bytes);
  for (std::size_t p = 0, end; p < by_peer_.size(); p = end) {
    for (end = p + 1; end < by_peer_.size() && by_peer_[end] == by_peer_[p];) ++end;
    put_varint(end - p, bytes);
    put_varint(by_peer_[p] ? by_peer_[p]->size() + 1 : 0, bytes);
    Round before = 0;
    for (const Round r : by_peer_[p].value_or(std::vector<Round>{})) {
      put_varint(r - before, bytes);
      before = r;
    }
  }
  return bytes;
}

std::optional<Offers> Offers::from_bytes(std::span<const std::byte> bytes) {
  Offers offers;
  const auto run = take_varint(bytes, kMostRun);
  if (!run) return std::nullopt;
  offers.run_ = *run;
  while (!bytes.empty()) {
    const auto peers = take_varint(bytes, kMostOffering - offers.by_peer_.size());
    const auto count = peers ? take_varint(bytes, kMostOffers + 1) : std::nullopt;
    if (!count) return std::nullopt;
    std::optional<std::vector<Round>> rounds;
    if (*count > 0) rounds.emplace();
    Round before = 0;
    for (std::uint64_t n = 1; n < *count; ++n) {
      const auto more = take_varint(bytes, kMostOfferedRound - before);
      if (!more) return std::nullopt;
      rounds->push_back(before += *more);
    }
    if (!rounds) offers.unknown_ += *peers;
    offers.by_peer_.insert(offers.by_peer_.end(), *peers, rounds);
  }
  return offers;
}

}  // namespace gossamer::node
