// libFuzzer target: a file that claims to be a .npy array is refused with ConfigError, or is read as an array
// of as many numbers as its shape says, which comes back the same when it is written and read again.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <optional>
#include <string>

#include "gossamer/node/errors.h"
#include "npy.h"
#include "require.h"

namespace {

using namespace gossamer::node;

/// A file in memory, with a path.
class MemoryFile {
 public:
  explicit MemoryFile(const char* name) : descriptor_(memfd_create(name, 0)) {
    require(descriptor_ >= 0, "no memory for a file");
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }
  void set(const std::uint8_t* data, std::size_t size) const {
    require(ftruncate(descriptor_, 0) == 0, "a file in memory cannot be emptied");
    const auto written = size == 0 ? 0 : pwrite(descriptor_, data, size, 0);
    require(written == static_cast<ssize_t>(size), "a file in memory cannot be written");
  }

 private:
  int descriptor_;
};

std::optional<NpyArray> read(const MemoryFile& file) {
  try {
    return read_npy(file.path());
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const MemoryFile file("npy"), copy("copy");
  file.set(data, size);
  const auto array = read(file);
  if (!array) return 0;
  std::size_t entries = 1;
  for (const std::size_t extent : array->shape) entries *= extent;
  require(entries == array->values.size(), "an array has not as many numbers as its shape says");
  try {
    write_npy(copy.path(), array->shape, array->values);
  } catch (const ConfigError&) {
    return 0;  // more dimensions than a header of version 1 has room for
  }
  const auto again = read(copy);
  require(again && again->shape == array->shape && again->values.size() == array->values.size() &&
              (array->values.empty() || std::memcmp(again->values.data(), array->values.data(),
                                                    array->values.size() * sizeof(float)) == 0),
          "an array that was written comes back as another");
  return 0;
}
