#pragma once
// How the files and folders of checkpoints are named.
#include <optional>
#include <string>
#include <string_view>

#include "ids.h"

namespace gossamer::node {

constexpr const char* kParametersSuffix = ".safetensors";
constexpr const char* kStateSuffix = ".state";
constexpr const char* kManifestSuffix = ".json";

std::string round_folder_name(Round round);  ///< "round-000000000120"
/// Empty where a folder's name is none such.
std::optional<Round> round_of_folder(std::string_view name);

/// What a file is called while it is being written.
std::string temporary_name(const std::string& name);

/// What the name of a file in a round's folder says of it.
struct CheckpointFileName {
  std::string peer, suffix;
  bool temporary = false;
};
/// Empty where it is none of a checkpoint's.
std::optional<CheckpointFileName> parse_file_name(std::string_view name);

}  // namespace gossamer::node
