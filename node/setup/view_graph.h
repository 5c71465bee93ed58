#pragma once
// The graph with which those of a job's peers that are there go on.
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "gossamer/node/job.h"
#include "ids.h"

namespace gossamer::node {

struct ViewGraph {
  topology::GraphSpec spec;
  std::string warning;  ///< empty, or what users should know
  /// Where the graph falls apart: a path over its parts, through the first peer of each.
  std::vector<std::pair<PeerId, PeerId>> bridges;
};

/// places: of the members in base, ascending; those from base.graph.peers on are in no graph of base's, and
/// where edges are kept each is joined to the two others that have fewest. accept: throws ConfigError where
/// the method cannot go on with the graph. Of these the first that there is and that is accepted:
///
///   generated kinds   the kind itself for so many peers; the edges of base's graph among the members, its
///                     parts joined by a path through the first peer of each; an edge between every two of
///                     which one can be reached
///   listed edges      those among the members, weighted as they were (what lost peers had in a row its own
///                     peer keeps), by Metropolis, or by in-degrees; the same both ways, by Metropolis.
///                     Nothing is added: the graph may fall apart
///
/// W stays symmetric, and columns that sum to 1 go on to do so, where W was symmetric; elsewhere if the
/// method needs it. Throws ConfigError, for the first graph, where there is none.
ViewGraph graph_of_view(const Job& base, const std::vector<PeerId>& places,
                        const std::function<void(const topology::GraphSpec&)>& accept);

}  // namespace gossamer::node
