#pragma once
// Which keys of a job have other values than their defaults.
#include <string>
#include <string_view>
#include <vector>

#include "gossamer/node/job.h"

namespace gossamer::node::config {

struct ChangedKey {
  std::string name;             ///< in full: "exchange.gamma"
  std::string value, fallback;  ///< as TOML
};
/// Of [exchange], in the order of the table.
std::vector<ChangedKey> changed_exchange_keys(const ExchangeSection& exchange);
/// Gives a key of [exchange] its default.
void reset_exchange_key(ExchangeSection& exchange, std::string_view name);

}  // namespace gossamer::node::config
