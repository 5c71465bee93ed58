#include "saves.h"

#include <algorithm>
#include <utility>

#include "varint.h"

namespace gossamer::node {
namespace {

constexpr std::uint64_t kMostSavers = 65535;  // peers of a job
constexpr Round kMostSavedRound = Round{1} << 48;

bool raise(Round& mine, Round theirs) { return theirs > mine && (mine = theirs, true); }

}  // namespace

bool SaveNews::merge(const SaveNews& theirs, PeerId self) {
  if (theirs.committed.size() != committed.size()) return false;
  bool news = raise(at, theirs.at);
  news |= raise(whole, theirs.whole);
  if (raise(judged, theirs.judged)) {
    best = theirs.best;
    news = true;
  }
  for (std::size_t p = 0; p < committed.size(); ++p) {
    if (p == self) continue;
    news |= raise(committed[p], theirs.committed[p]);
    news |= raise(holding[p], theirs.holding[p]);
    news |= raise(taken[p], theirs.taken[p]);
  }
  for (const PeerId p : theirs.leaving)
    if (p < committed.size() && !leaves(p)) {
      leaving.insert(std::upper_bound(leaving.begin(), leaving.end(), p), p);
      news = true;
    }
  look_whole();
  return news;
}

Round SaveNews::greatest() const {
  Round most = std::max({at, best, judged, whole});
  for (const auto* of_all : {&holding, &taken, &committed})
    for (const Round r : *of_all) most = std::max(most, r);
  return most;
}

void SaveNews::look_whole() {
  const Round newest = common();
  const bool same = std::all_of(committed.begin(), committed.end(), [&](Round r) { return r == newest; });
  if (same) raise(whole, newest);
}

bool SaveNews::all_hold(Round name) const {
  const auto is_it = [&](Round r) { return r == name; };
  return std::all_of(holding.begin(), holding.end(), is_it) || std::any_of(taken.begin(), taken.end(), is_it);
}

bool SaveNews::all_took(Round name) const {
  return std::all_of(taken.begin(), taken.end(), [&](Round r) { return r >= name; });
}

bool SaveNews::leaves(PeerId peer) const { return std::binary_search(leaving.begin(), leaving.end(), peer); }

Round SaveNews::common() const {
  return committed.empty() ? 0 : *std::min_element(committed.begin(), committed.end());
}

std::vector<std::byte> SaveNews::to_bytes() const {
  std::vector<std::byte> bytes;
  for (const Round r : {at, best, judged, whole}) put_varint(r, bytes);
  put_varint(leaving.size(), bytes);
  for (const PeerId p : leaving) put_varint(p, bytes);
  for (std::size_t p = 0, end; p < committed.size(); p = end) {
    for (end = p + 1; end < committed.size() && committed[end] == committed[p] &&
                      holding[end] == holding[p] && taken[end] == taken[p];)
      ++end;
    put_varint(end - p, bytes);
    put_varint(holding[p], bytes);
    put_varint(taken[p], bytes);
    put_varint(committed[p], bytes);
  }
  return bytes;
}

std::optional<SaveNews> SaveNews::from_bytes(std::span<const std::byte> bytes) {
  SaveNews news;
  for (Round* r : {&news.at, &news.best, &news.judged, &news.whole}) {
    const auto number = take_varint(bytes, kMostSavedRound);
    if (!number) return std::nullopt;
    *r = *number;
  }
  const auto leavers = take_varint(bytes, kMostSavers);
  for (std::uint64_t n = 0; leavers && n < *leavers; ++n) {
    const auto peer = take_varint(bytes, kMostSavers);
    if (!peer || (n > 0 && *peer <= news.leaving.back())) return std::nullopt;
    news.leaving.push_back(static_cast<PeerId>(*peer));
  }
  if (!leavers) return std::nullopt;
  while (!bytes.empty()) {
    const auto peers = take_varint(bytes, kMostSavers - news.committed.size());
    if (!peers) return std::nullopt;
    for (auto* of_all : {&news.holding, &news.taken, &news.committed}) {
      const auto name = take_varint(bytes, kMostSavedRound);
      if (!name) return std::nullopt;
      of_all->insert(of_all->end(), *peers, *name);
    }
  }
  return news;
}

}  // namespace gossamer::node
