#pragma once
// The commands below `gossamer codec` have a file each, and share what is declared here.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gossamer/compress/codec.h"

namespace gossamer::node {

void add_codec_list(CLI::App& codec, int& status);
void add_codec_roundtrip(CLI::App& codec, int& status);
void add_codec_decode(CLI::App& codec, int& status);
void add_codec_bench(CLI::App& codec, int& status);
void add_codec_recommend(CLI::App& codec, int& status);

/// The codecs of the specs, or of the whole table where there are none; throws CodecError.
std::vector<std::unique_ptr<const compress::Codec>> codecs_of(const std::vector<std::string>& specs);
/// A number of entries; throws ConfigError that names the flag.
std::size_t count_of(const std::string& flag, const std::string& text);
/// null where the value is not finite: JSON has no NaN.
nlohmann::ordered_json number_or_null(double value);

}  // namespace gossamer::node
