#pragma once
// A Ring orders members by the hashes of their names, and says whom each keeps in touch with: the next one,
// the first beyond a half, a quarter, an eighth … of the way round, and then the next ones again. So everyone
// is in somebody's list, news gets round in about as many hops as the number of members has bits, and who
// comes or goes changes the lists of few.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace gossamer::node {

class Ring {
 public:
  void insert(const std::string& name);
  void erase(const std::string& name);
  std::size_t size() const { return places_.size(); }
  /// Of the others, as seen from `self`, which need not be in the ring.
  std::vector<std::string> targets(const std::string& self, std::size_t most) const;
  std::vector<std::string> all() const;

 private:
  using Place = std::pair<std::uint64_t, std::string>;
  static Place place_of(const std::string& name);
  std::size_t first_from(std::uint64_t point) const;
  std::vector<Place> places_;  // ascending
};

}  // namespace gossamer::node
