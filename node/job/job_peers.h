#pragma once
#include "config_keys.h"

namespace gossamer::node::config {

/// The job's peers from what was written of them. Throws ConfigError.
void fill_peers(Draft& draft);

}  // namespace gossamer::node::config
