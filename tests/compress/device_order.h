#pragma once
#include <cstdint>

namespace gossamer::compress::test {

/// Where the device is emulated, its threads and blocks run in an order drawn from seed from now on.
void order_device(std::uint64_t seed);

}  // namespace gossamer::compress::test
