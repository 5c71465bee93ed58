#include "gossamer/compress/payload_check.h"

#include "codecs.h"

namespace gossamer::compress {

bool PayloadCheck::operator()(std::span<const std::byte> payload, std::uint64_t entries,
                              std::string_view spec) {
  try {
    const PayloadInfo info = inspect(payload);
    if (info.entries != entries || (info.codec != "dense" && info.codec != spec.substr(0, spec.find(':'))))
      return false;
    check(payload, entries, scratch_);
    return true;
  } catch (const PayloadError&) {
    return false;
  }
}

}  // namespace gossamer::compress
