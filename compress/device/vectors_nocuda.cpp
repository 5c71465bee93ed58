// Vectors on a device, of a build without the CUDA toolkit.
#include <stdexcept>

#include "gossamer/compress/device_vectors.h"

namespace gossamer::compress::cuda {
namespace {

[[noreturn]] void refuse_vectors() {
  throw std::runtime_error(
      "this build has no CUDA; build again with the CUDA toolkit installed and GOSSAMER_CUDA=ON");
}

}  // namespace

void combine(float, float*, std::span<const Term>, std::size_t, void*) { refuse_vectors(); }
void subtract(const float*, const float*, float*, std::size_t, void*) { refuse_vectors(); }
void scale(float, float*, std::size_t, void*) { refuse_vectors(); }
void flag_not_finite(const float*, std::size_t, std::uint32_t*, void*) { refuse_vectors(); }
void sum_of_squares(const float*, std::size_t, double*, double*, void*) { refuse_vectors(); }
int device_count() { refuse_vectors(); }
void use_device(int) { refuse_vectors(); }
Stream::Stream() { refuse_vectors(); }
Stream::~Stream() = default;
void Stream::wait() const {}
PinnedMemory::PinnedMemory(std::size_t bytes) : size_(bytes) { refuse_vectors(); }
PinnedMemory::~PinnedMemory() = default;
void copy_to_device(void*, const void*, std::size_t, void*) { refuse_vectors(); }
void copy_to_host(void*, const void*, std::size_t, void*) { refuse_vectors(); }
std::uint64_t bytes_over_bus() { return 0; }
void copy_on_device(void*, const void*, std::size_t, void*) { refuse_vectors(); }
void clear(void*, std::size_t, void*) { refuse_vectors(); }

}  // namespace gossamer::compress::cuda
