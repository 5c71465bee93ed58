#include "secret.h"

#include <sodium.h>

#include <new>
#include <stdexcept>

namespace gossamer::node {

void Secret::Free::operator()(unsigned char* data) const { sodium_free(data); }

Secret::Secret(std::size_t size) : size_(size) {
  if (sodium_init() < 0) throw std::runtime_error("libsodium cannot be used on this machine");
  data_.reset(static_cast<unsigned char*>(sodium_malloc(size)));
  if (!data_) throw std::bad_alloc();
  sodium_memzero(data_.get(), size);
}

}  // namespace gossamer::node
