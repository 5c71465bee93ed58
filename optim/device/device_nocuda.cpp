#include <stdexcept>

#include "gossamer/optim/device.h"

namespace gossamer::optim::cuda {
namespace {

[[noreturn]] void refuse() {
  throw std::runtime_error(
      "this build has no CUDA: configure it with nvcc and cuBLAS, or use device = \"cpu\"");
}

}  // namespace

std::unique_ptr<DeviceModel> make_device_model(const DeviceModelSpec&) { refuse(); }
std::unique_ptr<Objective> make_device_row_objective(RowObjectiveParts, const DeviceModelSpec&, void*) {
  refuse();
}
std::uint64_t bytes_over_bus() { return 0; }
std::unique_ptr<DeviceOptimizer> make_device_optimizer(const OptimizerSpec&, std::size_t, void*) { refuse(); }

}  // namespace gossamer::optim::cuda
