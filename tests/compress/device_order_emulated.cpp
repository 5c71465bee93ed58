#include "device_emulator.h"
#include "device_order.h"

void gossamer::compress::test::order_device(std::uint64_t seed) { emulated::set_seed(seed); }
