// What push-sum takes from one view to the next.
#include <algorithm>

#include "mass.h"

namespace gossamer::node {
namespace {

bool nothing(const Mass::Units& sum) {
  return std::all_of(sum.begin(), sum.end(), [](std::uint64_t units) { return units == 0; });
}

/// to += factor · sum
void add(Mass::Units& to, const Mass::Units& sum, std::uint64_t factor) {
  if (to.empty()) to.resize(sum.size(), 0);
  for (std::size_t k = 0; k < sum.size(); ++k) to[k] += factor * sum[k];
}

void archive_sum(Archive archive, const char* name, Mass::Units& sum, std::size_t size) {
  archive.numbers(name, sum);
  if (archive.restores() && !sum.empty() && sum.size() != size)
    archive.refuse(name, "is a sum of another model");
}

void archive_pair(Archive archive, Mass::Units& sent, Mass::Units& taken, bool& owed, std::size_t size) {
  archive_sum(archive, "sent", sent, size);
  archive_sum(archive, "taken", taken, size);
  archive.value("owed", owed);
}

}  // namespace

/// Of a sum that was sent unchanged often enough nothing is likely to be under way; if there is, it waits
/// until the two are linked again.
bool Mass::owed(std::size_t number) const {
  return of_[number - 1].sent && told_[number - 1] < kTimesTold * usual_weight_.size();
}

std::map<Incarnation, Mass::PairView> Mass::pairs(std::span<const Incarnation> seats) {
  std::map<Incarnation, PairView> all;
  for (auto& [whose, pair] : aside_) all[whose] = {&pair.sent, &pair.taken, pair.owed};
  for (std::size_t n = 1; n < sums_.size(); ++n) {
    if (nothing(sums_[n])) continue;
    PairView& pair = all[seats[of_[n - 1].peer]];
    (of_[n - 1].sent ? pair.sent : pair.taken) = &sums_[n];
    if (of_[n - 1].sent) pair.owed = owed(n);
  }
  return all;
}

Mass::Units Mass::balance() const {
  constexpr std::uint64_t kLess = ~std::uint64_t{0};
  Units all = sums_[0];
  for (std::size_t n = 1; n < sums_.size(); ++n) add(all, sums_[n], of_[n - 1].sent ? 1 : kLess);
  for (const auto& [whose, pair] : aside_) {
    add(all, pair.sent, 1);
    add(all, pair.taken, kLess);
  }
  add(all, written_off_, 1);
  return all;
}

void Mass::save_own(const Archive& own, std::span<const Incarnation> seats) {
  Archive to = own;
  to.numbers("held", sums_[0]);
  to.doubles("usual_weight", usual_weight_);
  to.numbers("written_off", written_off_);
  std::vector<Incarnation> whose, owed;
  Units none;
  for (auto& [one, pair] : pairs(seats)) {
    archive_pair(own.part("pair", whose.size()), pair.sent ? *pair.sent : none,
                 pair.taken ? *pair.taken : none, pair.owed, sums_[0].size());
    whose.push_back(one);
    if (pair.owed) owed.push_back(one);
  }
  archive_incarnations(own, "whose", whose);
  archive_owed(own, owed);
}

void Mass::restore_own(const Archive& own, const Passage& passage) {
  Archive from = own;
  from.numbers("held", sums_[0], sums_[0].size());
  from.doubles("usual_weight", usual_weight_, usual_weight_.size());
  archive_sum(own, "written_off", written_off_, sums_[0].size());
  std::vector<Incarnation> whose;
  archive_incarnations(own, "whose", whose);
  for (std::size_t k = 0; k < whose.size(); ++k) {
    Aside pair;
    archive_pair(own.part("pair", k), pair.sent, pair.taken, pair.owed, sums_[0].size());
    if (planted_.is(Bug::sums_forgotten_between_views)) continue;
    if (passage.may_come_back(whose[k]))
      take_up(whose[k], std::move(pair), passage);
    else
      write_off(pair);
  }
}

void Mass::take_up(const Incarnation& whose, Aside pair, const Passage& passage) {
  for (std::size_t n = 1; n < sums_.size(); ++n) {
    if (passage.seats[of_[n - 1].peer] != whose) continue;
    Units& sum = of_[n - 1].sent ? pair.sent : pair.taken;
    if (!sum.empty()) sums_[n] = std::move(sum);
    sum.clear();
    if (of_[n - 1].sent) pair.owed = false;
  }
  if (!pair.sent.empty() || !pair.taken.empty()) aside_.emplace(whose, std::move(pair));
}

void Mass::write_off(const Aside& pair) {
  for (const auto& [sum, factor] :
       {std::pair(&pair.sent, std::uint64_t{1}), {&pair.taken, ~std::uint64_t{0}}}) {
    add(written_off_, *sum, factor);
    if (planted_.is(Bug::dead_mass_kept_twice)) add(sums_[0], *sum, factor);
  }
}

}  // namespace gossamer::node
