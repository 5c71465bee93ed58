// Kinds of a regular shape: tree, hypercube, groups.
#include <algorithm>
#include <bit>
#include <string>

#include "graph.h"

namespace gossamer::topology {
namespace {

PeerId peer(std::size_t i) { return static_cast<PeerId>(i); }

/// Groups of neighbouring peers whose sizes differ by one at most: group g begins at peer start(g).
class Groups {
 public:
  explicit Groups(const GraphSpec& spec) : peers_(spec.peers), count_(spec.groups) {
    if (count_ == 0) {
      count_ = 1;
      while ((count_ + 1) * (count_ + 1) <= peers_) ++count_;
    }
    if (count_ > peers_)
      throw GraphError(
          "hierarchical: " + std::to_string(count_) + " groups of " + std::to_string(peers_) +
          " peers; expected at most one group per peer, or groups = 0 for about the square root");
  }
  std::size_t count() const { return count_; }
  std::size_t start(std::size_t g) const { return g * peers_ / count_; }

 private:
  std::size_t peers_, count_;
};

std::vector<Graph> tree(const GraphSpec& spec) {
  if (spec.peers == 1) return {Graph(1)};
  if (spec.degree == 0)
    throw GraphError("tree: degree 0 joins nobody; expected at least 1 child of each peer");
  Graph graph(spec.peers);
  for (std::size_t i = 1; i < spec.peers; ++i) graph.edge(peer(i), peer((i - 1) / spec.degree));
  return {graph};
}

std::vector<Graph> hypercube(const GraphSpec& spec) {
  if (!std::has_single_bit(spec.peers))
    throw GraphError("hypercube: " + std::to_string(spec.peers) + " peers; expected a power of two such as " +
                     std::to_string(std::bit_ceil(spec.peers)) +
                     ", or kind \"base\", which takes any number");
  Graph graph(spec.peers);
  for (std::size_t bit = 1; bit < spec.peers; bit *= 2)
    for (std::size_t i = 0; i < spec.peers; ++i) graph.arc(peer(i ^ bit), peer(i));
  return {graph};
}

std::vector<Graph> hierarchical(const GraphSpec& spec) {
  const Groups groups(spec);
  Graph inside(spec.peers), between(spec.peers);
  for (std::size_t g = 0; g < groups.count(); ++g) {
    const std::size_t begin = groups.start(g), end = groups.start(g + 1);
    for (std::size_t i = begin; i < end; ++i)
      for (std::size_t j = begin; j < end; ++j)
        inside.arc(peer(j), peer(i), 1.0F / static_cast<float>(end - begin));
    // Leaders stand in a ring. Each moves a third of the difference to a neighbour, half where there are two
    // leaders only: Metropolis' weights.
    const float weight = groups.count() == 2 ? 0.5F : 1.0F / 3;
    between.edge(peer(begin), peer(groups.start((g + 1) % groups.count())), weight);
  }
  if (groups.count() == 1) return {inside};
  if (groups.count() == spec.peers) return {between};
  return {inside, between};
}

void in_a_few_groups(const GraphSpec& spec, std::vector<GraphSpec>& out) {
  for (std::size_t groups = 2; groups * groups <= 4 * spec.peers && groups < spec.peers; groups *= 2) {
    out.push_back(spec);
    out.back().groups = groups;
  }
}

}  // namespace

constinit const GraphRow kTree{
    .listed = {"tree", "peer i with its children degree * i + 1 ... (degree)", "weights degree"},
    .make = tree,
    .candidates = of_degrees<2, 3, 4>};

constinit const GraphRow kHypercube{
    .listed = {"hypercube", "i with every number that differs in one bit; P a power of two", "weights"},
    .make = hypercube,
    .candidates = as_it_is};

constinit const GraphRow kHierarchical{
    .listed = {"hierarchical",
               "groups average inside, then their first peers mix in a ring (groups)",
               "groups",
               {.time_varying = true}},
    .make = hierarchical,
    .weights = GraphRow::Weights::of_its_own,
    .candidates = in_a_few_groups};

}  // namespace gossamer::topology
