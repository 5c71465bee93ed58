#pragma once
// Whether the model, the data and the table of a draft go together.
#include "config_keys.h"

namespace gossamer::node::config {

/// Throws ConfigError: rows for a model of samples, samples for one of rows, a table that nobody asks for, a
/// stream without an end that does not say how long the run is.
void check_learning(const Draft& draft);

}  // namespace gossamer::node::config
