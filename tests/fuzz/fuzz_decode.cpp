// libFuzzer target: decodes payloads of the codec that the environment names in GOSSAMER_FUZZ_CODEC, or
// without it of the codec that each payload names. Whatever a payload holds, decode_add refuses it with
// PayloadError or adds finite numbers, the same on any number of threads; and what it decoded to can be
// encoded again.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "gossamer/compress/codec.h"
#include "require.h"

namespace {

using namespace gossamer::compress;
using Bytes = std::vector<std::byte>;

constexpr std::uint64_t kMostEntries = std::uint64_t{1} << 18;
constexpr std::size_t kMostAgain = 4096;  // entries that are encoded again
constexpr std::size_t kHead = 3;          // magic, version, codec id

/// The first bytes of every payload of the codec; none where no codec is named.
Bytes head_of(const char* name) {
  if (name == nullptr) return {};
  const auto codec = make_codec(name);
  Bytes out(codec->max_bytes(1));
  Workspace workspace;
  const float one = 1;
  (void)codec->encode({&one, 1}, {}, workspace, out);
  out.resize(kHead);
  return out;
}

/// Empty where the payload is refused.
std::optional<std::vector<float>> decoded(const Bytes& payload, std::size_t n, Threads* threads) {
  std::vector<float> y(n, 0.0f);
  try {
    decode_add(payload, 0.5f, y, threads);
  } catch (const PayloadError&) {
    return std::nullopt;
  }
  return y;
}

void encode_again(const std::string& name, const std::vector<float>& x) {
  const auto codec = make_codec(name);
  Bytes out(codec->max_bytes(x.size()));
  Workspace workspace;
  try {
    out.resize(codec->encode(x, {.seed = 1}, workspace, out));
  } catch (const EncodeError&) {
    return;  // a norm beyond float's range
  }
  const auto y = decoded(out, x.size(), nullptr);
  require(y.has_value(), "what encode wrote was refused");
  if (!codec->traits().exact) return;
  for (std::size_t i = 0; i < x.size(); ++i) require((*y)[i] == 0.5f * x[i], "an exact codec was not");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Bytes head = head_of(std::getenv("GOSSAMER_FUZZ_CODEC"));
  static Threads threads(2);
  if (size < head.size()) return 0;
  // An allocation of its own size: a sanitizer sees any read past it.
  Bytes payload(size);
  if (size > 0) std::memcpy(payload.data(), data, size);
  std::copy(head.begin(), head.end(), payload.begin());
  PayloadInfo info{};
  try {
    info = inspect(payload);
  } catch (const PayloadError&) {
    return 0;
  }
  if (info.entries > kMostEntries) return 0;
  const auto n = static_cast<std::size_t>(info.entries);
  const auto y = decoded(payload, n, nullptr);
  if (n > kSlice) {
    const auto shared = decoded(payload, n, &threads);
    require(shared.has_value() == y.has_value(), "threads refuse what one thread decodes, or the reverse");
    require(!y || std::equal(y->begin(), y->end(), shared->begin()), "threads decode to something else");
  }
  if (!y) return 0;
  require(std::all_of(y->begin(), y->end(), [](float v) { return std::isfinite(v); }), "not finite");
  if (n <= kMostAgain) encode_again(std::string(info.codec), *y);
  return 0;
}
