// MNIST's file format (LeCun, Cortes, Burges: The MNIST database): big-endian 32-bit words — magic number,
// then the sizes — followed by the bytes. Images: magic 0x00000803, count, height, width. Labels: magic
// 0x00000801, count.
#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <future>
#include <memory>
#include <utility>

#include "dataset.h"
#include "file.h"
#include "gossamer/optim/large_vector.h"

namespace gossamer::optim {
namespace {

constexpr std::uint32_t kImages = 0x803, kLabels = 0x801;

struct Bytes {
  std::size_t rows = 0, features = 0;
  std::shared_ptr<std::uint8_t[]> data;
};

/// Of undefined content.
std::shared_ptr<std::uint8_t[]> large_bytes(std::size_t size) {
  LargeAllocator<std::uint8_t> allocator;
  return {allocator.allocate(size),
          [allocator, size](std::uint8_t* at) mutable { allocator.deallocate(at, size); }};
}

std::string hex(std::uint32_t value) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%08x", value);
  return text;
}

/// directory/name or directory/name.gz, whichever is there.
std::string find_file(const std::string& directory, const std::string& name) {
  const std::string path = directory + "/" + name;
  if (file_exists(path)) return path;
  if (file_exists(path + ".gz")) return path + ".gz";
  std::string message = path + ": no such file, nor " + name + ".gz beside it";
  if (directory.find("/usr/share/datasets/fashion-mnist") == 0)
    message += "; on Debian the package dataset-fashion-mnist brings it (non-free section)";
  else
    message +=
        "; set the data path to the directory of the four files train-images-idx3-ubyte, "
        "train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte";
  throw OptimError(message);
}

void read_exactly(InputFile& file, std::span<std::uint8_t> out, const char* part) {
  const std::size_t got = file.read(out);
  if (got != out.size())
    throw OptimError(file.path() + ": truncated: found " + std::to_string(got) + " bytes of " + part +
                     ", expected " + std::to_string(out.size()) + "; fetch the file again");
}

std::uint32_t read_word(InputFile& file) {
  std::array<std::uint8_t, 4> b;
  read_exactly(file, b, "header");
  return std::uint32_t{b[0]} << 24 | std::uint32_t{b[1]} << 16 | std::uint32_t{b[2]} << 8 | b[3];
}

/// All rows of a file with the given magic number; labels have one feature.
Bytes read_idx(const std::string& path, std::uint32_t magic, std::uint64_t memory) {
  InputFile file(path);
  const std::uint32_t found = read_word(file);
  if (found != magic)
    throw OptimError(path + ": found the magic number " + hex(found) + ", expected " + hex(magic) +
                     (magic == kImages ? " (unsigned bytes in 3 dimensions: images)"
                                       : " (unsigned bytes in 1 dimension: labels)"));
  Bytes bytes;
  bytes.rows = read_word(file);
  bytes.features = 1;
  if (magic == kImages) {
    const std::uint64_t height = read_word(file), width = read_word(file);
    bytes.features = static_cast<std::size_t>(height * width);
  }
  if (bytes.rows == 0 || bytes.features == 0 || bytes.features > (std::size_t{1} << 24))
    throw OptimError(path + ": found " + std::to_string(bytes.rows) + " rows of " +
                     std::to_string(bytes.features) + " bytes, expected at least 1 row of 1 to 2^24 bytes");
  const std::size_t size = bytes.rows * bytes.features;
  if (size > file.most_bytes())
    throw OptimError(path + ": truncated: the header claims " + std::to_string(size) +
                     " bytes, the file holds at most " + std::to_string(file.most_bytes()) +
                     "; fetch the file again");
  if (size > memory)
    throw OptimError(path + ": found " + std::to_string(size) + " bytes of rows, expected at most the " +
                     std::to_string(memory) + " bytes of free memory");
  bytes.data = large_bytes(size);
  read_exactly(file, {bytes.data.get(), size}, "data");
  std::uint8_t extra = 0;
  if (file.read({&extra, 1}) != 0)
    throw OptimError(path + ": found more than the " + std::to_string(size) +
                     " bytes that the header announces");
  return bytes;
}

struct Part {
  Bytes images;
  std::size_t rows;
  std::vector<std::int32_t> labels;
};

Part load_part(const DataSpec& spec, const std::string& prefix) {
  const std::string image_path = find_file(spec.path, prefix + "-images-idx3-ubyte");
  const std::string label_path = find_file(spec.path, prefix + "-labels-idx1-ubyte");
  const Bytes labels = read_idx(label_path, kLabels, spec.memory);
  Part part{read_idx(image_path, kImages, spec.memory), labels.rows, {}};
  if (labels.rows != part.images.rows)
    throw OptimError(image_path + ": found " + std::to_string(part.images.rows) + " images, but " +
                     label_path + " has " + std::to_string(labels.rows) + " labels; expected as many");
  part.labels.assign(labels.data.get(), labels.data.get() + part.rows);
  return part;
}

/// The given rows, ascending, and no others.
void keep(Part& part, const std::vector<std::uint32_t>& chosen) {
  const std::size_t features = part.images.features;
  auto data = large_bytes(chosen.size() * features);
  for (std::size_t to = 0; to < chosen.size(); ++to) {
    std::copy_n(part.images.data.get() + chosen[to] * features, features, data.get() + to * features);
    part.labels[to] = part.labels[chosen[to]];
  }
  part.images.data = std::move(data);
  part.rows = chosen.size();
  part.labels.resize(chosen.size());
}

Data load_idx(const DataSpec& spec) {
  auto other = std::async(load_part, std::cref(spec), "t10k");  // later where there is no thread to be had
  Part train = load_part(spec, "train"), test = other.get();
  if (train.images.features != test.images.features)
    throw OptimError(spec.path + ": found training images of " + std::to_string(train.images.features) +
                     " bytes and test images of " + std::to_string(test.images.features) +
                     "; expected the same size");
  const std::int32_t largest = std::max(*std::max_element(train.labels.begin(), train.labels.end()),
                                        *std::max_element(test.labels.begin(), test.labels.end()));
  const auto classes = static_cast<std::size_t>(largest) + 1;
  if (spec.limit > 0 && spec.limit < train.rows) keep(train, limited(train.rows, spec));
  const auto make = [&](Part& part) {
    const std::shared_ptr<const std::uint8_t[]> bytes(std::move(part.images.data));
    // (byte/255 − mean)/scale as one product and one sum
    return make_byte_rows({bytes, {bytes.get(), part.rows * part.images.features}}, part.images.features,
                          classes, std::move(part.labels), static_cast<float>(1 / (255 * spec.scale)),
                          static_cast<float>(-spec.mean / spec.scale));
  };
  return {make(train), make(test)};
}

}  // namespace

constinit const DataFormat kIdx{
    .row = {"idx", "MNIST's image and label files in the directory `path`, plain or .gz",
            "path mean scale limit seed"},
    .load = load_idx};

}  // namespace gossamer::optim
