// A program by itself, as it counts what is allocated anywhere in it.
#include <atomic>
#include <cstdlib>
#include <new>

#include "gossamer_test/catch.h"
#include "vectors.h"

using namespace gossamer::compress;
using namespace gossamer::compress::test;

namespace {

std::atomic<std::size_t> allocations{0};

constexpr std::align_val_t kUsual{__STDCPP_DEFAULT_NEW_ALIGNMENT__};

}  // namespace

// All forms that meet in one delete: a sanitizer has forms of its own for those that are left out.
void* operator new(std::size_t n, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  ++allocations;
  const auto step = static_cast<std::size_t>(alignment);
  return std::aligned_alloc(step, (n + step - 1) / step * step);
}
void* operator new(std::size_t n, const std::nothrow_t&) noexcept {
  return operator new(n, kUsual, std::nothrow);
}
void* operator new(std::size_t n, std::align_val_t alignment) {
  if (void* p = operator new(n, alignment, std::nothrow)) return p;
  throw std::bad_alloc();
}
void* operator new(std::size_t n) { return operator new(n, kUsual); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }

TEST_CASE("in steady state no codec allocates") {
  constexpr std::size_t kEntries = 100003;           // more than a slice
  constexpr std::uint64_t kGrown = 8, kRounds = 14;  // what threshold sends grows with the residual at first
  std::vector<Vector> vectors;
  for (std::uint64_t seed = 0; seed < 4; ++seed) vectors.push_back(laplacian(kEntries, seed));
  // On one thread: of several, each has scratch of its own, and which works on what is chance.
  for (const auto& spec : all_specs()) {
    const auto codec = make_codec(spec);
    const bool feedback = codec->traits().feedback();
    Bytes out(codec->max_bytes(kEntries));
    Vector acc(kEntries, 0.0f);
    Workspace workspace;
    FeedbackState state;
    std::size_t before = 0;
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      if (round == kGrown) before = allocations;
      const RandomKey key{.seed = 1, .round = round};
      const Vector& v = vectors[round % vectors.size()];
      std::size_t used = codec->encode(v, key, workspace, out);
      if (feedback) used = codec->encode_feedback(v, state, key, workspace, out);
      decode_add(std::span(out).first(used), 0.5f, acc);
    }
    const std::size_t after = allocations;
    INFO(spec);
    REQUIRE(after == before);
  }
}
