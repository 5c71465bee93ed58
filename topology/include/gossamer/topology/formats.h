#pragma once
// These functions read and write graphs in the files of other programs.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gossamer/topology/schedule.h"

namespace gossamer::topology {

struct FileFormat {
  const char* name;
  const char* endings;  ///< of file names, separated by blanks; the first is written
  const char* help;     ///< one line
  bool weights = true;  ///< write_graph writes them
};
std::span<const FileFormat> file_format_table();

/// Reads the edges of a graph whose nodes are names of peers, which come first, or 0 … peers−1 (METIS: 1 …
/// peers, always by number); peers is the number of names. format is a name of the table, or empty: by the
/// ending of the path, an edge list where that says nothing. Edges of a file that calls itself undirected
/// come in both directions, so that GraphSpec::directed stays true. An edge's attribute "weight" is its
/// weight. Throws GraphError with the file and, where there is one, line and column.
std::vector<GraphSpec::EdgeSpec> read_graph(const std::string& path, std::span<const std::string> peer_names,
                                            std::string_view format = "");

/// One round as such a file, weights included (METIS knows whole numbers only and gets none): undirected
/// where W is symmetric. peer_names: one for each peer, or none for numbers. Throws GraphError for an unknown
/// format, and for METIS where W is not symmetric.
std::string write_graph(const MixingMatrix& w, std::span<const std::string> peer_names,
                        std::string_view format);

}  // namespace gossamer::topology
