#pragma once
// ByPeer holds a value for each neighbour: as many as there are neighbours, however many peers the run has.
#include <algorithm>
#include <cassert>
#include <vector>

#include "gossamer/topology/schedule.h"

namespace gossamer::node {

template <class T>
class ByPeer {
 public:
  /// peers: ascending, each once.
  explicit ByPeer(std::vector<topology::PeerId> peers) : peers_(std::move(peers)), values_(peers_.size()) {
    assert(std::is_sorted(peers_.begin(), peers_.end()));
  }

  bool contains(topology::PeerId peer) const {
    return std::binary_search(peers_.begin(), peers_.end(), peer);
  }
  T& operator[](topology::PeerId peer) { return values_[number(peer)]; }
  const T& operator[](topology::PeerId peer) const { return values_[number(peer)]; }
  const std::vector<topology::PeerId>& peers() const { return peers_; }
  /// The values, in the order of peers().
  auto begin() { return values_.begin(); }
  auto end() { return values_.end(); }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }

 private:
  std::size_t number(topology::PeerId peer) const {
    const auto at = std::lower_bound(peers_.begin(), peers_.end(), peer);
    assert(at != peers_.end() && *at == peer);
    return static_cast<std::size_t>(at - peers_.begin());
  }
  std::vector<topology::PeerId> peers_;
  std::vector<T> values_;
};

}  // namespace gossamer::node
