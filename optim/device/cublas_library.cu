#include <dlfcn.h>

#include <stdexcept>
#include <string>

#include "cublas.h"

namespace gossamer::optim::cuda {
namespace {

// The header gives some calls the name of a newer form.
#define GOSSAMER_TEXT(name) #name
#define GOSSAMER_SYMBOL(name) GOSSAMER_TEXT(name)

void* open_library() {
  const std::string versioned = "libcublas.so." GOSSAMER_SYMBOL(CUBLAS_VER_MAJOR);
  std::string why;
  // the second: where the build found it; the others have the same calls
  for (const char* name :
       {versioned.c_str(), GOSSAMER_CUBLAS, "libcublas.so.13", "libcublas.so.12", "libcublas.so.11"}) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
    if (why.empty()) why = dlerror();
  }
  throw std::runtime_error("cuBLAS cannot be loaded: " + why + "; expected " + versioned +
                           " of the CUDA toolkit, for example by LD_LIBRARY_PATH");
}

template <class Call>
void find(void* library, const char* symbol, Call& call) {
  call = reinterpret_cast<Call>(dlsym(library, symbol));
  if (call == nullptr) throw std::runtime_error(std::string("cuBLAS has no ") + symbol);
}

Cublas load() {
  void* const library = open_library();
  Cublas calls{};
  find(library, GOSSAMER_SYMBOL(cublasCreate), calls.create);
  find(library, GOSSAMER_SYMBOL(cublasDestroy), calls.destroy);
  find(library, GOSSAMER_SYMBOL(cublasSetStream), calls.set_stream);
  find(library, GOSSAMER_SYMBOL(cublasSetWorkspace), calls.set_workspace);
  find(library, GOSSAMER_SYMBOL(cublasSetMathMode), calls.set_math_mode);
  find(library, GOSSAMER_SYMBOL(cublasSgemm), calls.sgemm);
  find(library, GOSSAMER_SYMBOL(cublasGetStatusString), calls.status_text);
  return calls;
}

}  // namespace

const Cublas& cublas() {
  static const Cublas calls = load();
  return calls;
}

}  // namespace gossamer::optim::cuda
