#pragma once
// These commands below `gossamer topology` have a file of their own.
#include <CLI/CLI.hpp>

namespace gossamer::node {

void add_topology_advise(CLI::App& topology, int& status);

}  // namespace gossamer::node
