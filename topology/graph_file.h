#pragma once
// What the readers and writers of graph files share.
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gossamer/topology/schedule.h"

namespace gossamer::topology {

using EdgeSpecs = std::vector<GraphSpec::EdgeSpec>;
using Names = std::span<const std::string>;

/// The whole file, without a byte order mark. Throws GraphError.
std::string read_text(const std::string& path);
/// 'what was found', of long words the beginning.
std::string cited(std::string_view found);
/// A peer's name, which comes first, or its number; throws GraphError beginning with `place` otherwise.
PeerId find_node(const std::string& place, std::string_view found, Names names);
/// A finite number; throws GraphError beginning with `place` otherwise.
float to_weight(const std::string& place, std::string_view found);
/// "alpha", or "3" where there are no names.
std::string node_name(PeerId peer, Names names);
/// As short as reads back as the same float.
std::string weight_text(float weight);

EdgeSpecs read_edge_list(const std::string& path, Names names);
EdgeSpecs read_graphml(const std::string& path, Names names);
EdgeSpecs read_node_link(const std::string& path, Names names);
EdgeSpecs read_metis(const std::string& path, Names names);

std::string write_edge_list(const MixingMatrix& w, Names names);
std::string write_graphml(const MixingMatrix& w, Names names);
std::string write_node_link(const MixingMatrix& w, Names names);
std::string write_metis(const MixingMatrix& w, Names names);

/// Calls use(from, to, weight) for each edge; for one direction only, from < to, where W is symmetric.
template <class Use>
void for_each_edge(const MixingMatrix& w, const Use& use) {
  const bool symmetric = w.symmetric();
  for (PeerId to = 0; to < w.peers(); ++to)
    for (const Edge& e : w.in(to))
      if (!symmetric || e.peer < to) use(e.peer, to, e.weight);
}

}  // namespace gossamer::topology
