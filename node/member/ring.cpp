#include "ring.h"

#include <algorithm>

#include "hash.h"

namespace gossamer::node {

Ring::Place Ring::place_of(const std::string& name) { return {hash_text(name), name}; }

void Ring::insert(const std::string& name) {
  const Place place = place_of(name);
  const auto at = std::lower_bound(places_.begin(), places_.end(), place);
  if (at == places_.end() || *at != place) places_.insert(at, place);
}

void Ring::erase(const std::string& name) {
  const Place place = place_of(name);
  const auto at = std::lower_bound(places_.begin(), places_.end(), place);
  if (at != places_.end() && *at == place) places_.erase(at);
}

std::size_t Ring::first_from(std::uint64_t point) const {
  const auto at = std::lower_bound(places_.begin(), places_.end(), Place{point, {}});
  return at == places_.end() ? 0 : static_cast<std::size_t>(at - places_.begin());
}

std::vector<std::string> Ring::targets(const std::string& self, std::size_t most) const {
  std::vector<std::string> chosen;
  const auto choose = [&](std::size_t at) {
    const std::string& name = places_[at % places_.size()].second;
    if (name != self && std::find(chosen.begin(), chosen.end(), name) == chosen.end()) chosen.push_back(name);
  };
  if (places_.empty() || most == 0) return chosen;
  const std::uint64_t here = hash_text(self);
  const std::size_t next = first_from(here);
  choose(places_[next].second == self ? next + 1 : next);
  for (std::uint64_t way = std::uint64_t{1} << 63; way != 0 && chosen.size() < most; way >>= 1) {
    if (static_cast<double>(places_.size()) * (static_cast<double>(way) * 0x1p-64) < 1)
      break;  // these are the next ones
    choose(first_from(here + way));
  }
  for (std::size_t k = 0; k < places_.size() && chosen.size() < most; ++k) choose(next + k);
  return chosen;
}

std::vector<std::string> Ring::all() const {
  std::vector<std::string> names;
  for (const auto& [hash, name] : places_) names.push_back(name);
  return names;
}

}  // namespace gossamer::node
