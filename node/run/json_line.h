#pragma once
// A value of JSON as a line of text.
#include <nlohmann/json.hpp>
#include <string>

namespace gossamer::node {

/// What is no UTF-8, as the name of a file may be, is replaced.
inline std::string json_line(const nlohmann::ordered_json& value) {
  return value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace gossamer::node
