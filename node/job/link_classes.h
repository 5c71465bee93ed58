#pragma once
// LinkClass is a kind of link that the simulator draws from (keys sim.speeds and sim.links).
#include <span>
#include <string>
#include <vector>

namespace gossamer::node {

struct LinkQuality {
  double bandwidth;  ///< bit/s of each direction
  double latency;    ///< seconds
};

/// A kind of access to the network; both figures are drawn evenly on a logarithmic scale, for each link.
struct LinkClass {
  const char* name;
  double share;  ///< of the peers, under links = "mixed"
  LinkQuality least, most;
};
/// From the quickest to the slowest.
std::span<const LinkClass> link_classes();

/// The names of sim.speeds and of sim.links.
std::vector<std::string> speed_names();
std::vector<std::string> link_names();

}  // namespace gossamer::node
