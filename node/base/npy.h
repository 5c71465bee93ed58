#pragma once
// These functions read and write arrays as NumPy's .npy files (numpy.lib.format), and files of bytes.
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace gossamer::node {

struct NpyArray {
  std::vector<std::size_t> shape;  ///< empty = a single number
  std::vector<float> values;       ///< in C order
};

/// Reads format version 1 or 2, little-endian float32 or float64 in C order, of any shape; float64 is rounded
/// to float32. Throws ConfigError for anything else, with what was found and what was expected; allocates
/// nothing that the file's size does not justify.
NpyArray read_npy(const std::string& path);

/// Writes format version 1, '<f4', C order. The product of shape is values.size(). Throws ConfigError where
/// the file cannot be opened, std::runtime_error where it cannot be written to its end.
void write_npy(const std::string& path, std::span<const std::size_t> shape, std::span<const float> values);

/// The whole of a regular file; throws ConfigError where there is none.
std::vector<std::byte> read_bytes(const std::string& path);
/// Throws as write_npy does.
void write_bytes(const std::string& path, std::span<const std::byte> bytes);

}  // namespace gossamer::node
