#include <string>

#include "gossamer/compress/device.h"

namespace gossamer::compress::cuda {

void require_success(const DeviceResult& result, std::size_t n) {
  const std::string which = "entry " + std::to_string(result.first_bad) + " of " + std::to_string(n);
  switch (result.error) {
    case DeviceError::none:
      return;
    case DeviceError::not_finite:
      throw EncodeError("cannot encode: " + which +
                        " is NaN or Inf; every entry must be finite (lower the learning rate or clip)");
    case DeviceError::overflow:
      throw EncodeError(
          "cannot encode: at " + which +
          " a norm or scaled value is beyond float's range; use another norm or scale, or clip");
    case DeviceError::size:
      throw PayloadError("payload has not the number of bytes that its codec and its " + std::to_string(n) +
                         " entries ask for");
    case DeviceError::front:
      throw PayloadError("payload is not one of this codec with these parameters and " + std::to_string(n) +
                         " entries");
    case DeviceError::number:
      throw PayloadError("payload holds NaN, Inf or another number that cannot stand where it does");
    case DeviceError::unused:
      throw PayloadError("payload has bits set past its last entry, or fields that no encoder makes");
    case DeviceError::index:
      throw PayloadError("payload holds an index past its last entry");
  }
  throw PayloadError("the device reports an unknown error");
}

}  // namespace gossamer::compress::cuda
