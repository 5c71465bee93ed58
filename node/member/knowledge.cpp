#include "knowledge.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <tuple>

namespace gossamer::node {
namespace {

auto standing(const MemberRecord& r) {
  return std::tuple(r.status == MemberStatus::left, r.refuted, r.status, r.ended);
}

bool add_doubts(MemberRecord& ours, const MemberRecord& theirs) {
  std::vector<std::uint64_t> all;
  std::set_union(ours.doubted_by.begin(), ours.doubted_by.end(), theirs.doubted_by.begin(),
                 theirs.doubted_by.end(), std::back_inserter(all));
  // as many as confirm it are enough: others are no news
  if (ours.doubted_by.size() >= kMostDoubts || all.size() == ours.doubted_by.size()) return false;
  all.resize(std::min(all.size(), kMostDoubts));
  ours.doubted_by = std::move(all);
  return true;
}

}  // namespace

bool overrides(const MemberRecord& a, const MemberRecord& b) { return standing(a) > standing(b); }

News take_newer(MemberRecord& ours, const MemberRecord& theirs, Planted planted) {
  if (theirs.start < ours.start && !planted.is(Bug::old_start_taken)) return {};
  if (theirs.start != ours.start) {
    ours = theirs;
    return {true, true, true, true};
  }
  News news;
  if (overrides(theirs, ours)) {
    news.standing = true;
    ours.status = theirs.status;
    ours.refuted = theirs.refuted;
    ours.ended = theirs.ended;
    ours.doubted_by = theirs.doubted_by;
  } else if (theirs.status == MemberStatus::suspect && !overrides(ours, theirs)) {
    news.doubts = add_doubts(ours, theirs);
  }
  if (theirs.word_version > ours.word_version) {
    news.word = true;
    ours.word_version = theirs.word_version;
    ours.word = theirs.word;
  }
  return news;
}

double suspicion_s(double least_s, double most_s, std::size_t confirmed, std::size_t needed) {
  if (needed == 0) return most_s;  // there is nobody else to ask
  if (confirmed >= needed) return least_s;
  const double share =
      std::log(static_cast<double>(confirmed) + 1) / std::log(static_cast<double>(needed) + 1);
  return std::max(least_s, most_s - (most_s - least_s) * share);
}

}  // namespace gossamer::node
