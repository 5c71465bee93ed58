#include "memory.h"

#include <stdexcept>
#include <string>

namespace gossamer::optim::cuda {
namespace {

void require(bool good, const char* doing, const char* why) {
  if (!good) throw std::runtime_error(std::string("CUDA: ") + doing + " failed: " + why);
}

}  // namespace

void require(cudaError_t status, const char* doing) {
  require(status == cudaSuccess, doing, cudaGetErrorString(status));
}
void require(cublasStatus_t status, const char* doing) {
  require(status == CUBLAS_STATUS_SUCCESS, doing, cublas().status_text(status));
}
void require_started(const char* doing) { require(cudaGetLastError(), doing); }

}  // namespace gossamer::optim::cuda
