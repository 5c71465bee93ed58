#include "gossamer/compress/payload_check.h"

#include "codecs.h"

namespace gossamer::compress {

bool names_itself(std::span<const std::byte> payload, std::uint64_t entries, std::string_view spec) {
  try {
    const PayloadInfo info = inspect(payload);
    return info.entries == entries && (info.codec == "dense" || info.codec == spec.substr(0, spec.find(':')));
  } catch (const PayloadError&) {
    return false;
  }
}

bool PayloadCheck::operator()(std::span<const std::byte> payload, std::uint64_t entries,
                              std::string_view spec) {
  if (!names_itself(payload, entries, spec)) return false;
  try {
    check(payload, entries, scratch_);
    return true;
  } catch (const PayloadError&) {
    return false;
  }
}

}  // namespace gossamer::compress
