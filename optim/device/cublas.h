#pragma once
// The calls of cuBLAS that are used. The library is loaded when one of them is first needed: as one that
// programs need at their start it would cost each of them more than a second, also those that compute on the
// host.
#include <cublas_v2.h>

namespace gossamer::optim::cuda {

struct Cublas {
  decltype(&cublasCreate) create;
  decltype(&cublasDestroy) destroy;
  decltype(&cublasSetStream) set_stream;
  decltype(&cublasSetWorkspace) set_workspace;
  decltype(&cublasSetMathMode) set_math_mode;
  decltype(&cublasSgemm) sgemm;
  decltype(&cublasGetStatusString) status_text;
};
/// Throws std::runtime_error where the library cannot be loaded, saying why.
const Cublas& cublas();

}  // namespace gossamer::optim::cuda
