#pragma once
// Long tables run whole by hand. Where GOSSAMER_DRAW=N is set, as deploy/test does from the commit, and under
// sanitizers, which take code eight times as long, a part of them runs that N draws: commits together cover
// all.
#include <cstdint>
#include <cstdlib>
#include <random>

namespace gossamer::test {

#ifdef GOSSAMER_SANITIZED
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

/// Says of one row after another whether it runs: one in `every` where rows are drawn, else each.
class Drawn {
 public:
  explicit Drawn(unsigned every) {
    const char* const draw = std::getenv("GOSSAMER_DRAW");
    if (draw != nullptr) random_.seed(std::strtoull(draw, nullptr, 10));
    if (kSanitized || draw != nullptr) every_ = every;
    skip_ = random_() % every_;
  }

  bool operator()() {
    if (skip_-- > 0) return false;
    skip_ = random_() % (2 * every_ - 1);  // every_ - 1 in the mean
    return true;
  }

 private:
  std::mt19937_64 random_{20261122};  // its sequence is fixed by the standard
  std::uint64_t every_ = 1, skip_;
};

}  // namespace gossamer::test
