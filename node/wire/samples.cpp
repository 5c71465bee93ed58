#include "samples.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "varint.h"

namespace gossamer::node {
namespace {

/// So that the sum over all peers that a topology can have stays below 2⁶⁴.
constexpr std::uint64_t kMostSamples = std::uint64_t{1} << 47;
constexpr std::uint64_t kMostPeers = std::numeric_limits<PeerId>::max();
constexpr double kTold = 256;

}  // namespace

std::vector<std::byte> to_bytes(std::span<const PeerSamples> counts) {
  std::vector<std::byte> bytes;
  std::uint64_t next = 0;
  for (const auto& [peer, samples] : counts) {
    put_varint(peer - next, bytes);
    put_varint(samples, bytes);
    next = std::uint64_t{peer} + 1;
  }
  return bytes;
}

std::optional<std::vector<PeerSamples>> samples_from_bytes(std::span<const std::byte> bytes) {
  std::vector<PeerSamples> counts;
  std::uint64_t next = 0;
  while (!bytes.empty()) {
    if (next > kMostPeers) return std::nullopt;
    const auto passed = take_varint(bytes, kMostPeers - next);
    const auto samples = passed ? take_varint(bytes, kMostSamples) : std::nullopt;
    if (!samples) return std::nullopt;
    counts.push_back({static_cast<PeerId>(next + *passed), *samples});
    next += *passed + 1;
  }
  return counts;
}

Samples::Samples(std::size_t peers, PeerId self, double total, Planted planted)
    : self_(self), total_(total), counts_(peers, 0), is_news_(peers, false), planted_(planted) {}

void Samples::raise(PeerId peer, std::uint64_t samples) {
  sum_ += samples - counts_[peer];
  counts_[peer] = samples;
}

bool Samples::count(std::uint64_t samples) {
  samples = std::min(samples, kMostSamples);
  if (samples > counts_[self_]) raise(self_, samples);
  const double left = std::max(0.0, total_ - static_cast<double>(sum_)) / static_cast<double>(counts_.size());
  if (counts_[self_] == told_ || static_cast<double>(counts_[self_] - told_) < left / kTold) return false;
  told_ = counts_[self_];
  if (!is_news_[self_]) news_.push_back(self_);
  is_news_[self_] = true;
  return true;
}

bool Samples::merge(std::span<const PeerSamples> theirs) {
  bool news = false;
  for (const auto& [peer, samples] : theirs) {
    if (peer >= counts_.size() || peer == self_ || samples <= counts_[peer]) continue;
    if (planted_.is(Bug::samples_counted_again)) sum_ += counts_[peer];
    raise(peer, samples);
    if (!is_news_[peer]) news_.push_back(peer);
    is_news_[peer] = news = true;
  }
  return news;
}

std::vector<PeerSamples> Samples::take_news() {
  std::sort(news_.begin(), news_.end());
  std::vector<PeerSamples> told;
  for (const PeerId p : news_) {
    told.push_back({p, counts_[p]});
    is_news_[p] = false;
  }
  news_.clear();
  return told;
}

std::vector<PeerSamples> Samples::all() const {
  std::vector<PeerSamples> told;
  for (PeerId p = 0; p < counts_.size(); ++p)
    if (counts_[p] > 0) told.push_back({p, counts_[p]});
  return told;
}

void Samples::archive(Archive archive) {
  archive.numbers("counts", counts_, counts_.size());
  archive.value("told", told_);
  sum_ = std::accumulate(counts_.begin(), counts_.end(), std::uint64_t{0});
}

}  // namespace gossamer::node
