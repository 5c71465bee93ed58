// libFuzzer target: reads what users write by hand: topology files, key files, certificates and lists of
// revoked keys. Whatever a file holds, it is read, or refused by ConfigError, whose text never shows what a
// key file says of its secret.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "admission.h"
#include "certificate.h"
#include "gossamer/node/errors.h"
#include "gossamer/node/job.h"
#include "key_file.h"

using namespace gossamer::node;

namespace {

/// In memory, where there is such a place; removed at the end.
const std::string& path() {
  static const struct Place {
    std::string name;
    Place() {
      const std::filesystem::path memory = "/dev/shm";
      const auto folder =
          std::filesystem::is_directory(memory) ? memory : std::filesystem::temp_directory_path();
      name = folder / ("gossamer-fuzz-" + std::to_string(getpid()));
    }
    ~Place() { unlink(name.c_str()); }
  } place;
  return place.name;
}

constexpr std::string_view kSecret = "secret = \"";

void require_kept(const std::string& told, std::string_view text) {
  const std::size_t at = text.find(kSecret);
  if (at == std::string_view::npos) return;
  const std::string_view digits = text.substr(at + kSecret.size(), 64);
  if (digits.size() < 64 || digits.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos)
    return;
  if (told.find(digits) == std::string::npos) return;
  std::fprintf(stderr, "a message tells a secret: %s\n", told.c_str());
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::ofstream(path(), std::ios::binary) << text;
  chmod(path().c_str(), 0600);
  try {
    switch (data[0] % 4) {
      case 0:
        load_topology(path());
        break;
      case 1:
        read_key_file(path());
        break;
      case 2:
        read_certificate_file(path());
        break;
      default:
        read_revocation_file(path());
    }
  } catch (const ConfigError& error) {
    if (data[0] % 4 == 1) require_kept(error.what(), text);
  }
  return 0;
}
