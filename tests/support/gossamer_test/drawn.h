#pragma once
// Long tables run whole in plain builds. Under sanitizers, which take code eight times as long and look for
// what a few rows show as well as all, a drawn part of them runs; GOSSAMER_DRAW=N draws another part.
#include <cstdint>
#include <cstdlib>
#include <random>

namespace gossamer::test {

#ifdef GOSSAMER_SANITIZED
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

/// Says of one row after another whether it runs: under sanitizers one in `every`, else each.
class Drawn {
 public:
  explicit Drawn(unsigned every) : every_(kSanitized ? every : 1) {
    if (const char* draw = std::getenv("GOSSAMER_DRAW")) random_.seed(std::strtoull(draw, nullptr, 10));
    skip_ = random_() % every_;
  }

  bool operator()() {
    if (skip_-- > 0) return false;
    skip_ = random_() % (2 * every_ - 1);  // every_ - 1 in the mean
    return true;
  }

 private:
  std::mt19937_64 random_{20261122};  // its sequence is fixed by the standard
  std::uint64_t every_, skip_;
};

}  // namespace gossamer::test
