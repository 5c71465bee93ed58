#include "ring.h"

#include <algorithm>
#include <set>

#include "hash.h"

namespace gossamer::node {

void Ring::insert(const std::string& name) {
  const std::pair place{hash_text(name), name};
  const auto at = std::lower_bound(places_.begin(), places_.end(), place);
  if (at == places_.end() || *at != place) places_.insert(at, place);
}

void Ring::erase(const std::string& name) {
  const std::pair place{hash_text(name), name};
  const auto at = std::lower_bound(places_.begin(), places_.end(), place);
  if (at != places_.end() && *at == place) places_.erase(at);
}

std::vector<std::string> Ring::targets(const std::string& of, std::size_t most) const {
  const std::pair place{hash_text(of), of};
  const auto at = std::lower_bound(places_.begin(), places_.end(), place);
  const std::size_t n = places_.size(), within = at != places_.end() && *at == place;
  const std::size_t next = static_cast<std::size_t>(at - places_.begin()) + within;
  std::set<std::size_t> on;  // places
  for (std::size_t step = 1; step <= n - within && on.size() < most; step *= 2) on.insert(step);
  for (std::size_t step = 1; step <= n - within && on.size() < most; ++step) on.insert(step);
  std::vector<std::string> chosen;
  for (const auto step : on) chosen.push_back(places_[(next + step - 1) % n].second);
  return chosen;
}

}  // namespace gossamer::node
