#pragma once
// The safetensors format, wherever its bytes stand; gossamer/node/safetensors.h writes and reads files.
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "byte_stream.h"
#include "gossamer/optim/model.h"

namespace gossamer::node {

using TensorMetadata = std::map<std::string, std::string>;  ///< what stands under "__metadata__"

/// Every tensor of the layers as F32, in their order; x (a parameter buffer's bytes) goes to the sink as it
/// stands, without a copy.
void write_safetensors(const ByteSink& sink, const std::vector<optim::Layer>& layers,
                       std::span<const std::byte> x, const TensorMetadata& metadata);

struct TensorRecord {
  std::string dtype;
  std::vector<std::size_t> shape;
  std::size_t begin = 0, end = 0;  ///< bytes of the data
};

/// Reads bytes that claim to be such a file. All of it throws ConfigError, which begins with the name.
class SafetensorsReader {
 public:
  /// Reads the header.
  SafetensorsReader(std::string name, ByteSource source);
  const std::map<std::string, TensorRecord>& records() const { return records_; }
  const TensorMetadata& metadata() const { return metadata_; }  ///< texts alone
  /// Fills a parameter buffer's bytes (padding 0); the file must hold exactly the layers' tensors.
  void read(const std::vector<optim::Layer>& layers, std::span<std::byte> x) const;

 private:
  std::string name_;
  ByteSource source_;
  std::uint64_t data_ = 0;  ///< where the data starts
  std::map<std::string, TensorRecord> records_;
  TensorMetadata metadata_;
};

}  // namespace gossamer::node
