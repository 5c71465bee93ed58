#include <cblas.h>

#include "cublas.h"

struct EmulatedBlas {
  cudaStream_t stream = nullptr;
};

const char* cublasGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "the library was not initialized";
    default:
      return "an unsupported value or parameter was passed to the function";
  }
}

cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  *handle = new EmulatedBlas;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace(cublasHandle_t, void* memory, std::size_t bytes) {
  return memory == nullptr && bytes > 0 ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t) { return CUBLAS_STATUS_SUCCESS; }

cublasStatus_t cublasSgemm(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int m, int n,
                           int k, const float* alpha, const float* a, int lda, const float* b, int ldb,
                           const float* beta, float* c, int ldc) {
  const bool fits = m >= 0 && n >= 0 && k >= 0 && lda >= (ta == CUBLAS_OP_N ? m : k) &&
                    ldb >= (tb == CUBLAS_OP_N ? k : n) && ldc >= m;
  if (handle == nullptr || !fits) return CUBLAS_STATUS_INVALID_VALUE;
  const auto transposed = [](cublasOperation_t t) { return t == CUBLAS_OP_N ? CblasNoTrans : CblasTrans; };
  gossamer::emulated::enqueue(handle->stream, [=, alpha = *alpha, beta = *beta] {
    cblas_sgemm(CblasColMajor, transposed(ta), transposed(tb), m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  });
  return CUBLAS_STATUS_SUCCESS;
}

const gossamer::optim::cuda::Cublas& gossamer::optim::cuda::cublas() {
  static const Cublas calls{cublasCreate,      cublasDestroy, cublasSetStream,      cublasSetWorkspace,
                            cublasSetMathMode, cublasSgemm,   cublasGetStatusString};
  return calls;
}
