#pragma once
// coding_error measures how much of a vector a codec leaves out.
#include <string>

namespace gossamer::node {

/// ‖C[v] − v‖ / ‖v‖ of one vector of independent, nearly normal entries, such as weights and gradients are.
double coding_error(const std::string& spec);

}  // namespace gossamer::node
