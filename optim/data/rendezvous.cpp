#include "rendezvous.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cassert>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>

#include "random.h"

namespace gossamer::optim {
namespace {

constexpr std::uint32_t kNobody = std::numeric_limits<std::uint32_t>::max();

}  // namespace

std::uint64_t hash_name(std::string_view name) { return XXH3_64bits(name.data(), name.size()); }

Rendezvous::Rendezvous(std::uint64_t seed, std::vector<RowHome> homes, std::vector<RowHome> members)
    : homes_(homes.size()) {
  assert(!members.empty());
  std::vector<std::string> names;
  for (const auto& [name, batch] : homes) names.push_back(name), batches_.push_back(batch);
  for (const auto& [name, batch] : members) {
    const auto at = std::find(names.begin(), names.end(), name);
    place_.push_back(static_cast<std::size_t>(at - names.begin()));
    if (at != names.end()) continue;
    names.push_back(name), batches_.push_back(batch);
  }
  for (const std::string& name : names) keys_.push_back(make_key(seed, Use::holders, hash_name(name)));
  member_.assign(names.size(), kNobody);
  for (std::size_t m = 0; m < place_.size(); ++m) member_[place_[m]] = static_cast<std::uint32_t>(m);
  uneven_ = std::adjacent_find(batches_.begin(), batches_.end(), std::not_equal_to<>()) != batches_.end();
}

std::vector<std::size_t> Rendezvous::home_batches() const {
  return {batches_.begin(), batches_.begin() + static_cast<std::ptrdiff_t>(homes_)};
}

/// Of a peer with batch b it is b / −ln u (Schindelhauer, Schomaker: Weighted Distributed Hash Tables, SPAA
/// 2005): that of peer p is the greatest for b_p of Σ b rows.
double Rendezvous::drawn(std::size_t place, std::uint64_t row) const {
  const double u = uniform(keys_[place], row);
  return uneven_ ? static_cast<double>(batches_[place]) / -portable_log(u) : u;
}

/// Of a row, once its home has the greatest of the homes.
class Rendezvous::Weights {
 public:
  Weights(const Rendezvous& all, std::uint64_t row, std::size_t home) : all_(all), row_(row), home_(home) {
    for (std::size_t p = 0; p < all.homes_; ++p)
      if (const double w = all.drawn(p, row); w > most_) most_ = w, with_most_ = p;
    own_ = all.drawn(home, row);
  }
  double of(std::size_t member) const {
    const std::size_t place = all_.place_[member];
    if (place == home_) return most_;
    return place == with_most_ ? own_ : all_.drawn(place, row_);
  }

 private:
  const Rendezvous& all_;
  std::uint64_t row_;
  std::size_t home_, with_most_ = 0;
  double most_ = -1, own_ = 0;
};

std::size_t Rendezvous::holder(std::uint64_t row, std::uint32_t home) const {
  const bool nobody_new = keys_.size() == homes_;
  if (nobody_new && member_[home] != kNobody) return member_[home];
  const Weights weights(*this, row, home);
  std::size_t best = 0;
  double most = weights.of(0);
  for (std::size_t m = 1; m < place_.size(); ++m)
    if (const double w = weights.of(m); w > most) most = w, best = m;
  return best;
}

/// Sum to the rows; rows that are left over by rounding go to the greatest fractions.
std::vector<std::size_t> Rendezvous::even_shares(std::size_t rows) const {
  std::uint64_t total = 0;
  for (const std::size_t p : place_) total += batches_[p];
  std::vector<std::size_t> share(place_.size());
  std::vector<std::pair<std::uint64_t, std::uint64_t>> fraction(place_.size());  // and whose
  for (std::size_t m = 0; m < share.size(); ++m) {
    const std::uint64_t part = rows % total * batches_[place_[m]];
    share[m] = rows / total * batches_[place_[m]] + part / total;
    fraction[m] = {part % total, keys_[place_[m]]};
  }
  std::vector<std::size_t> order(share.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return fraction[a] > fraction[b]; });
  std::size_t over = rows - std::accumulate(share.begin(), share.end(), std::size_t{0});
  for (std::size_t i = 0; over > 0; ++i, --over) ++share[order[i]];
  for (std::size_t& s : share)
    if (s == 0) ++s, --*std::max_element(share.begin(), share.end());
  return share;
}

/// All but the rows that it keeps.
void Rendezvous::give_up(std::span<const std::uint32_t> home_of_row, std::size_t member, std::size_t keep,
                         std::vector<std::uint32_t>& owner) const {
  struct Held {
    bool at_home;
    double weight;
    std::uint32_t row;
  };
  std::vector<Held> held;
  for (std::uint32_t row = 0; row < owner.size(); ++row)
    if (owner[row] == member)
      held.push_back(
          {home_of_row[row] == place_[member], Weights(*this, row, home_of_row[row]).of(member), row});
  const auto first = held.begin() + static_cast<std::ptrdiff_t>(keep);
  std::nth_element(held.begin(), first, held.end(), [](const Held& a, const Held& b) {
    return std::tuple(!a.at_home, -a.weight, a.row) < std::tuple(!b.at_home, -b.weight, b.row);
  });
  for (auto h = first; h != held.end(); ++h) owner[h->row] = kNobody;
}

Rendezvous::Shards Rendezvous::deal(std::span<const std::uint32_t> home_of_row, bool even) const {
  const std::size_t rows = home_of_row.size();
  assert(rows >= place_.size());
  std::vector<std::uint32_t> owner(rows);
  std::vector<std::size_t> has(place_.size());
  for (std::size_t row = 0; row < rows; ++row)
    ++has[owner[row] = static_cast<std::uint32_t>(holder(row, home_of_row[row]))];
  std::vector<std::size_t> room = even ? even_shares(rows) : has;
  if (!even)
    for (std::size_t& r : room)
      if (r == 0) ++r, --*std::max_element(room.begin(), room.end());
  for (std::size_t m = 0; m < room.size(); ++m) {
    if (has[m] > room[m]) give_up(home_of_row, m, room[m], owner);
    room[m] -= std::min(room[m], has[m]);
  }
  Shards shards(place_.size());
  for (std::uint32_t row = 0; row < rows; ++row) {
    if (owner[row] == kNobody) {
      const Weights weights(*this, row, home_of_row[row]);
      double most = -1;
      for (std::uint32_t m = 0; m < room.size(); ++m)
        if (const double w = room[m] > 0 ? weights.of(m) : -1; w > most) most = w, owner[row] = m;
      --room[owner[row]];
    }
    shards[owner[row]].push_back(row);
  }
  return shards;
}

}  // namespace gossamer::optim
