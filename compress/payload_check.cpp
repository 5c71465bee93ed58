#include "gossamer/compress/payload_check.h"

#include "gossamer/compress/codec.h"

namespace gossamer::compress {

bool PayloadCheck::operator()(std::span<const std::byte> payload, std::uint64_t entries,
                              std::string_view spec) {
  try {
    const PayloadInfo info = inspect(payload);
    if (info.entries != entries || (info.codec != "dense" && info.codec != spec.substr(0, spec.find(':'))))
      return false;
    if (scratch_.size() < entries) scratch_.resize(entries);
    decode_add(payload, 0.0f, std::span(scratch_).first(entries));
    return true;
  } catch (const PayloadError&) {
    return false;
  }
}

}  // namespace gossamer::compress
