#pragma once
// The public safetensors format: 8-byte little-endian header length, JSON header, raw little-endian tensors.
#include <map>
#include <span>
#include <string>
#include <vector>

#include "gossamer/optim/model.h"

namespace gossamer::node {

/// Writes every tensor of the layers as F32, metadata (string to string) under "__metadata__"; to a temporary
/// file beside path that is synced and then renamed, so that path is never half written. Throws
/// std::runtime_error.
void write_safetensors(const std::string& path, const std::vector<optim::Layer>& layers,
                       std::span<const float> x, const std::map<std::string, std::string>& metadata);

/// Before long work whose model would go to path: throws ConfigError where write_safetensors could make no
/// file there. Leaves nothing behind.
void check_writable(const std::string& path);

/// All tensors of a file, in one layer and in the order in which they stand there. Throws ConfigError.
std::vector<optim::Layer> layers_in(const std::string& path);

/// Fills x (padding 0) from a file that holds exactly the layers' tensors with their shapes as F32. Throws
/// ConfigError: what is missing, of another shape or type, or how the file is damaged.
void read_safetensors(const std::string& path, const std::vector<optim::Layer>& layers, std::span<float> x);

/// Throws ConfigError where an entry of a tensor of what was read from path is NaN or infinite: names the
/// first one.
void check_finite(const std::string& path, const std::vector<optim::Layer>& layers, std::span<const float> x);

}  // namespace gossamer::node
