// The device kernels of a build without the CUDA toolkit.
#include <stdexcept>

#include "gossamer/compress/kernels.h"

namespace gossamer::compress::cuda {
namespace {

constexpr const char* kWhy =
    "this build has no CUDA kernels; build again with the CUDA toolkit installed and GOSSAMER_CUDA=ON";

[[noreturn]] void refuse() { throw std::runtime_error(kWhy); }

}  // namespace

bool available(std::string& why) {
  why = kWhy;
  return false;
}
void axpy(float, const float*, float*, std::size_t, void*) { refuse(); }
void pack_signs(const float*, std::uint32_t*, std::size_t, void*) { refuse(); }
void add_signs(const std::uint32_t*, float, float*, std::size_t, void*) { refuse(); }
Buffer::Buffer(std::size_t) { refuse(); }
Buffer::~Buffer() = default;
void Buffer::from_host(const void*, std::size_t) { refuse(); }
void Buffer::to_host(void*, std::size_t) const { refuse(); }

}  // namespace gossamer::compress::cuda
