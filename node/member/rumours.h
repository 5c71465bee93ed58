#pragma once
// Rumours are the members of whom there is news, until each has been told often enough that all have most
// likely heard it: those told least come first, of these the newest.
#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace gossamer::node {

class Rumours {
 public:
  void add(const std::string& name) { put(name, {0, --age_, name}); }
  void told(const std::string& name, std::size_t times, std::size_t most) {
    const auto at = by_name_.find(name);
    if (at == by_name_.end()) return;
    Turn next = at->second;
    next.told += times;
    next.told < most ? put(name, next) : forget(name);
  }
  void forget(const std::string& name) {
    const auto at = by_name_.find(name);
    if (at == by_name_.end()) return;
    turns_.erase(at->second);
    by_name_.erase(at);
  }
  std::vector<std::string> first(std::size_t most) const {
    std::vector<std::string> names;
    for (const Turn& t : turns_) {
      if (names.size() == most) break;
      names.push_back(t.name);
    }
    return names;
  }

 private:
  struct Turn {
    std::size_t told = 0;
    std::int64_t age = 0;  // the newest has the least
    std::string name;
    auto operator<=>(const Turn&) const = default;
  };
  void put(const std::string& name, Turn turn) {
    forget(name);
    turns_.insert(turn);
    by_name_.emplace(name, std::move(turn));
  }
  std::int64_t age_ = 0;
  std::set<Turn> turns_;
  std::map<std::string, Turn> by_name_;
};

}  // namespace gossamer::node
