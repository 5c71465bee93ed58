#include "bandwidth.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <functional>
#include <vector>

#include "aligned.h"
#include "timing.h"

namespace gossamer::node {
namespace {

// This file is compiled with -O3 in every build: compilers then make vector code of these loops, as wide as
// the function that they are inlined into allows.

/// The sum of the bit patterns: unlike that of floats it may be summed in any order, four vectors at a time.
[[gnu::always_inline]] inline std::uint32_t read_loop(const float* x, std::size_t n) {
  std::uint32_t a = 0, b = 0, c = 0, d = 0;
  const std::size_t quarter = n / 4;
  for (std::size_t i = 0; i < quarter; ++i) {
    a += std::bit_cast<std::uint32_t>(x[i]);
    b += std::bit_cast<std::uint32_t>(x[quarter + i]);
    c += std::bit_cast<std::uint32_t>(x[2 * quarter + i]);
    d += std::bit_cast<std::uint32_t>(x[3 * quarter + i]);
  }
  for (std::size_t i = 4 * quarter; i < n; ++i) a += std::bit_cast<std::uint32_t>(x[i]);
  return a + b + c + d;
}
[[gnu::always_inline]] inline void write_loop(float* __restrict y, float value, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) y[i] = value;
}
[[gnu::always_inline]] inline void modify_loop(float* __restrict y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) y[i] = 1.0f - y[i];
}
[[gnu::always_inline]] inline void feedback_loop(const float* __restrict g, float* __restrict e,
                                                 std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) e[i] = g[i] - e[i];
}

constexpr int kRounds = 5;

struct Loops {
  std::uint32_t (*read)(const float*, std::size_t);
  void (*write)(float*, float, std::size_t);
  void (*modify)(float*, std::size_t);
  void (*feedback)(const float*, float*, std::size_t);
};

std::uint32_t read_any(const float* x, std::size_t n) { return read_loop(x, n); }
void write_any(float* y, float value, std::size_t n) { write_loop(y, value, n); }
void modify_any(float* y, std::size_t n) { modify_loop(y, n); }
void feedback_any(const float* g, float* e, std::size_t n) { feedback_loop(g, e, n); }

#if defined(__x86_64__)

[[gnu::target("avx2")]] std::uint32_t read_avx2(const float* x, std::size_t n) { return read_loop(x, n); }
[[gnu::target("avx2")]] void write_avx2(float* y, float value, std::size_t n) { write_loop(y, value, n); }
[[gnu::target("avx2")]] void modify_avx2(float* y, std::size_t n) { modify_loop(y, n); }
[[gnu::target("avx2")]] void feedback_avx2(const float* g, float* e, std::size_t n) {
  feedback_loop(g, e, n);
}

[[gnu::target("avx512f")]] std::uint32_t read_avx512(const float* x, std::size_t n) {
  return read_loop(x, n);
}
[[gnu::target("avx512f")]] void write_avx512(float* y, float value, std::size_t n) {
  write_loop(y, value, n);
}
[[gnu::target("avx512f")]] void modify_avx512(float* y, std::size_t n) { modify_loop(y, n); }
[[gnu::target("avx512f")]] void feedback_avx512(const float* g, float* e, std::size_t n) {
  feedback_loop(g, e, n);
}

Loops loops_of_this_machine() {
  if (__builtin_cpu_supports("avx512f")) return {read_avx512, write_avx512, modify_avx512, feedback_avx512};
  if (__builtin_cpu_supports("avx2")) return {read_avx2, write_avx2, modify_avx2, feedback_avx2};
  return {read_any, write_any, modify_any, feedback_any};
}
#else
Loops loops_of_this_machine() { return {read_any, write_any, modify_any, feedback_any}; }
#endif

}  // namespace

MemoryLimits measure_memory(std::size_t entries, std::size_t threads) {
  const Loops loops = loops_of_this_machine();
  const std::size_t share = std::max<std::size_t>(entries / threads, 1);
  // Each thread has arrays of its own, as each peer has.
  std::vector<AlignedFloats> g(threads), e(threads);
  for (std::size_t t = 0; t < threads; ++t) {
    g[t].assign(share, 0.5f);
    e[t].assign(share, 0.25f);
  }
  std::atomic<std::uint32_t> sink{0};  // what is never used would not be computed
  const double gigabytes = 4e-9 * static_cast<double>(share * threads);
  const auto measure = [&](double& best, const std::function<void(std::size_t)>& pass) {
    best = std::max(best, gigabytes / median_seconds(threads, pass));
  };
  MemoryLimits limits{};
  for (int round = 0; round < kRounds; ++round) {
    measure(limits.read, [&](std::size_t t) { sink += loops.read(g[t].data(), share); });
    measure(limits.write, [&](std::size_t t) { loops.write(e[t].data(), 0.25f, share); });
    measure(limits.modify, [&](std::size_t t) { loops.modify(e[t].data(), share); });
    measure(limits.feedback, [&](std::size_t t) { loops.feedback(g[t].data(), e[t].data(), share); });
  }
  return limits;
}

MemoryLimits larger(const MemoryLimits& a, const MemoryLimits& b) {
  return {std::max(a.read, b.read), std::max(a.write, b.write), std::max(a.modify, b.modify),
          std::max(a.feedback, b.feedback)};
}

}  // namespace gossamer::node
