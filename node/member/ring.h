#pragma once
// A Ring orders members by the hashes of their names, and says whom each keeps in touch with: those 1, 2, 4,
// 8 … places on, and then the nearest others. So everyone is in as many lists as its own has names, news gets
// round in about as many hops as the number of members has bits, and who comes or goes changes about one name
// of each list.
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
  /// Whom that member keeps in touch with, which need not be in the ring itself.
  std::vector<std::string> targets(const std::string& of, std::size_t most) const;

 private:
  std::vector<std::pair<std::uint64_t, std::string>> places_;  // ascending
};

}  // namespace gossamer::node
