#include "connectivity.h"

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/strong_components.hpp>

namespace gossamer::topology {

std::vector<std::vector<PeerId>> strong_components(const std::vector<std::vector<PeerId>>& out) {
  boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS> graph(out.size());
  for (std::size_t i = 0; i < out.size(); ++i)
    for (const PeerId to : out[i]) boost::add_edge(i, to, graph);
  std::vector<std::size_t> component(out.size());
  const auto count = boost::strong_components(
      graph, boost::make_iterator_property_map(component.begin(), boost::get(boost::vertex_index, graph)));

  std::vector<std::vector<PeerId>> members(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < out.size(); ++i) members[component[i]].push_back(static_cast<PeerId>(i));
  std::sort(members.begin(), members.end(), [](const auto& a, const auto& b) {
    return a.size() != b.size() ? a.size() > b.size() : a.front() < b.front();
  });
  return members;
}

std::vector<std::vector<PeerId>> strong_components(const Schedule& schedule) {
  std::vector<std::vector<PeerId>> out(schedule.peers());
  for (Round t = 0; t < schedule.period(); ++t)
    for (PeerId i = 0; i < schedule.peers(); ++i) {
      const std::span<const PeerId> now = schedule.at(t).out(i);
      out[i].insert(out[i].end(), now.begin(), now.end());
    }
  return strong_components(out);
}

}  // namespace gossamer::topology
