#pragma once
// These functions tell which keys of a job have other values than their defaults, and reset them.
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
std::vector<ChangedKey> changed_exchange_keys(const ExchangeSettings& exchange);
/// Gives a key of [exchange] its default.
void reset_exchange_key(ExchangeSettings& exchange, std::string_view name);

}  // namespace gossamer::node::config
