#pragma once
// first_difference names what differs between two jobs, for the message at the handshake.
#include <string>

namespace gossamer::node {

/// "key: here A, there B" for the first line in which two to_toml(…, true) texts differ; empty where equal.
std::string first_difference(const std::string& here, const std::string& there);

}  // namespace gossamer::node
