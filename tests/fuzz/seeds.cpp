// By hand: fuzz_seeds FOLDER writes small payloads of every codec to FOLDER/<codec>/, for the fuzzers to
// start from.
#include <filesystem>
#include <fstream>
#include <iostream>

#include "row_specs.h"
#include "vectors.h"

using namespace gossamer::compress;
using namespace gossamer::compress::test;

namespace {

constexpr std::size_t kMostBytes = 300;

void write(const std::filesystem::path& folder, const std::string& spec, const char* kind, const Vector& x) {
  const Bytes payload = encode(*make_codec(spec), x);
  if (payload.size() > kMostBytes) return;
  const std::string name = spec.substr(0, spec.find(':'));
  std::string file = spec.substr(std::min(name.size() + 1, spec.size()));
  std::replace(file.begin(), file.end(), ',', '_');
  file += std::string(file.empty() ? "" : "_") + kind;
  std::filesystem::create_directories(folder / name);
  std::ofstream out(folder / name / file, std::ios::binary);
  out.write(reinterpret_cast<const char*>(payload.data()), static_cast<std::streamsize>(payload.size()));
  if (!out.flush()) throw std::runtime_error("cannot write " + (folder / name / file).string());
}

/// Messages of rows, and what their sender saves; the first byte says which (fuzz_rows.cpp).
void write_rows(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder / "rows");
  for (std::size_t i = 0; i < std::size(kRowSpecs); ++i) {
    RowSender sender(kRowSpecs[i]);
    Workspace workspace;
    for (std::uint64_t step = 0; step < 3; ++step) {
      std::vector<std::uint64_t> keys;
      for (std::uint64_t k = 0; k < 9; ++k) keys.push_back(k * k * 0x9E3779B97F4A7C15ull + step % 2);
      sender.add(keys, gaussian(keys.size() * kRowSpecs[i].width, 1 + step));
      const auto put = [&](std::size_t kind, const std::vector<std::byte>& bytes) {
        std::ofstream out(folder / "rows" / (std::to_string(2 * i + kind) + "_" + std::to_string(step)),
                          std::ios::binary);
        out.put(static_cast<char>(2 * i + kind));
        out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
      };
      put(0, sender.encode({1, 0, 0, step}, workspace));
      put(1, sender.save());
    }
  }
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) {
    std::cerr << "usage: fuzz_seeds FOLDER\n";
    return 2;
  }
  for (const std::string& spec : all_specs()) {
    write(argv[1], spec, "dense", gaussian(40, 1));
    write(argv[1], spec, "sparse", sparse(600, 0.01, 2));
  }
  write_rows(argv[1]);
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
