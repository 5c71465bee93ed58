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

bool SaveNews::merge(const SaveNews& theirs) {
  if (theirs.committed.size() != committed.size()) return false;
  bool news = raise(at, theirs.at);
  if (raise(judged, theirs.judged)) {
    best = theirs.best;
    news = true;
  }
  for (std::size_t p = 0; p < committed.size(); ++p) {
    news |= raise(committed[p], theirs.committed[p]);
    news |= raise(heard[p], theirs.heard[p]);
  }
  return news;
}

bool SaveNews::all_heard(Round round) const {
  return std::all_of(heard.begin(), heard.end(), [&](Round r) { return r == round; });
}

Round SaveNews::common() const {
  return committed.empty() ? 0 : *std::min_element(committed.begin(), committed.end());
}

std::vector<std::byte> SaveNews::to_bytes() const {
  std::vector<std::byte> bytes;
  for (const Round r : {at, best, judged}) put_varint(r, bytes);
  for (std::size_t p = 0, end; p < committed.size(); p = end) {
    for (end = p + 1; end < committed.size() && committed[end] == committed[p] && heard[end] == heard[p];)
      ++end;
    put_varint(end - p, bytes);
    put_varint(heard[p], bytes);
    put_varint(committed[p], bytes);
  }
  return bytes;
}

std::optional<SaveNews> SaveNews::from_bytes(std::span<const std::byte> bytes) {
  SaveNews news;
  for (Round* r : {&news.at, &news.best, &news.judged}) {
    const auto number = take_varint(bytes, kMostSavedRound);
    if (!number) return std::nullopt;
    *r = *number;
  }
  while (!bytes.empty()) {
    const auto peers = take_varint(bytes, kMostSavers - news.committed.size());
    const auto heard = peers ? take_varint(bytes, kMostSavedRound) : std::nullopt;
    const auto round = heard ? take_varint(bytes, kMostSavedRound) : std::nullopt;
    if (!round) return std::nullopt;
    news.heard.insert(news.heard.end(), *peers, *heard);
    news.committed.insert(news.committed.end(), *peers, *round);
  }
  return news;
}

}  // namespace gossamer::node
