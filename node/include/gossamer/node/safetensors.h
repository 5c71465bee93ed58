#pragma once
// The public safetensors format: 8-byte little-endian header length, JSON header, raw little-endian tensors.
#include <map>
#include <span>
#include <string>
#include <vector>

#include "gossamer/optim/model.h"

namespace gossamer::node {

/// What a new file that takes path's name replaces: path itself, or the file that its symbolic links lead to.
/// Throws ConfigError for what is no regular file, such as a device, which would be lost.
std::string replaced_file(const std::string& path);
/// Before long work whose model or table would go to path: throws ConfigError where replaced_file does, or no
/// file can be made there. Leaves nothing behind.
void check_replaceable(const std::string& path);

/// Writes every tensor of the layers as F32, metadata (string to string) under "__metadata__"; to a temporary
/// file beside replaced_file(path) that is synced and then renamed, so that path is never half written.
/// Throws std::runtime_error.
void write_safetensors(const std::string& path, const std::vector<optim::Layer>& layers,
                       std::span<const float> x, const std::map<std::string, std::string>& metadata);

/// Before long work whose results would go to path, be it a device: throws ConfigError where no file can be
/// made beside it. Leaves nothing behind.
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
