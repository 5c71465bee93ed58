// The device codecs of a build without the CUDA toolkit.
#include <stdexcept>

#include "gossamer/compress/device.h"

namespace gossamer::compress::cuda {

std::unique_ptr<const DeviceCodec> make_device_codec(std::string_view) {
  throw std::runtime_error(
      "this build has no CUDA codecs; build again with the CUDA toolkit installed and GOSSAMER_CUDA=ON");
}

}  // namespace gossamer::compress::cuda
