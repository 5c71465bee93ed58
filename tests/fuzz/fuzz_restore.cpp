// libFuzzer target: a saved feedback state from a stranger is refused with StateError, or saves to a state
// that restores to the same bytes.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "gossamer/compress/codec.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gossamer::compress;
  std::vector<std::byte> saved(size);
  if (size > 0) std::memcpy(saved.data(), data, size);
  try {
    const std::vector<std::byte> again = save(restore_feedback(saved));
    if (save(restore_feedback(again)) == again) return 0;
  } catch (const StateError&) {
    return 0;
  }
  std::fprintf(stderr, "a restored state does not save to what restores it\n");
  std::abort();
}
