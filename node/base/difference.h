#pragma once
// These functions name what differs between two jobs.
#include <string>
#include <vector>

namespace gossamer::node {

struct KeyDifference {
  std::string key, here, there;  ///< values as written; "nothing" where the line is missing
};
/// Every line in which two to_toml(…, true) texts differ.
std::vector<KeyDifference> differences(const std::string& here, const std::string& there);

/// "key: here A, there B" for the first line in which two to_toml(…, true) texts differ; empty where equal.
std::string first_difference(const std::string& here, const std::string& there);

}  // namespace gossamer::node
