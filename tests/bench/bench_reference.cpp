// By hand: bench_reference. The plain references of bench_contests by themselves, beside what they
// reach on one core of a Zen 5 server at up to 4 GHz (g++ 12). Ratios to references count where these figures
// are met to within a fifth on such a machine. GB/s of fp32 input, medians, one thread.
#include <cmath>
#include <cstdio>
#include <functional>

#include "codec_reference.h"
#include "codec_speed.h"
#include "timing.h"

using namespace gossamer::node;

namespace {

constexpr std::size_t kMi = std::size_t{1} << 20;

void line(const char* what, std::size_t n, double known, const std::function<void()>& work) {
  const double seconds = median_seconds(1, [&](std::size_t) { work(); });
  const double speed = 4e-9 * static_cast<double>(n) / seconds;
  std::printf("%4zu Mi  %-34s %7.2f %7.2f %6.0f %%\n", n / kMi, what, speed, known, 100 * speed / known);
  std::fflush(stdout);
}

/// What is known at 1 Mi and at 16 Mi entries.
struct Known {
  double small, large;
};

void measure(std::size_t n) {
  const auto of = [n](Known known) { return n <= kMi ? known.small : known.large; };
  const AlignedFloats x = laplacian(n);
  AlignedFloats y(n, 0.0f), e(n, 0.0f);
  reference::Signs signs(n);
  line("1-bit encode with feedback", n, of({6.9, 6.1}),
       [&] { reference::onebit_encode_feedback(x, e, signs); });
  line("1-bit decode", n, of({9.2, 9.0}), [&] { reference::onebit_decode(signs, y); });
  line("1-bit decode-add", n, of({9.2, 9.0}), [&] { reference::onebit_decode_add(signs, 0.25f, y); });
  reference::Levels levels(n);
  line("QSGD 4-bit encode", n, of({2.3, 2.3}), [&] { reference::qsgd4_encode(x, 1, levels); });
  line("QSGD 4-bit decode", n, of({1.2, 1.2}), [&] { reference::qsgd4_decode(levels, y); });
  line("QSGD 4-bit decode-add", n, of({1.2, 1.2}), [&] { reference::qsgd4_decode_add(levels, 0.25f, y); });
  const std::size_t k = n / 1000;
  std::vector<float> scratch;
  reference::Entries entries;
  line("nth_element, 0.1 %", n, of({1.13, 0.53}),
       [&] { reference::largest_by_nth_element(x, k, scratch, entries); });
  line("radix select, 0.1 %", n, of({1.44, 1.46}), [&] { reference::largest_by_radix(x, k, entries); });
  reference::BitString bits;
  line("Elias sparse encode", n, of({0.25, 0.25}), [&] { reference::elias_sparse_encode(x, 1, bits); });
  line("Elias sparse decode", n, of({1.06, 1.05}), [&] { reference::elias_sparse_decode(bits, y); });
  line("Elias dense encode", n, of({0.25, 0.25}), [&] { reference::elias_dense_encode(x, 1, bits); });
  line("Elias dense decode", n, of({1.06, 1.05}), [&] { reference::elias_dense_decode(bits, y); });
}

}  // namespace

int main() {
  std::printf("entries  %-34s %7s %7s %8s\n", "reference", "GB/s", "known", "");
  for (const std::size_t n : {kMi, 16 * kMi}) measure(n);
}
