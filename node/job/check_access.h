#pragma once
// check_access looks whether a topology says who may speak as it must.
#include "config_keys.h"

namespace gossamer::node::config {

/// Throws ConfigError, which says where: keys that are none, or are missing, or say two things at once.
void check_access(const Draft& draft);

}  // namespace gossamer::node::config
