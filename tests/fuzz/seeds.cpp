// By hand: fuzz_seeds FOLDER writes small payloads of every codec to FOLDER/<codec>/, for the fuzzers to
// start from.
#include <filesystem>
#include <fstream>
#include <iostream>

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
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
