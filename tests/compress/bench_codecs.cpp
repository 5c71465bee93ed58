// By hand: bench_codecs [entries]. Medians of 15 runs, GB/s of fp32 input, one core.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "vectors.h"

using namespace gossamer::compress;
using namespace gossamer::compress::test;

namespace {

template <class Work>
double median_seconds(Work work) {
  constexpr int kRuns = 15;
  std::vector<double> seconds;
  for (int run = 0; run < kRuns; ++run) {
    // Enough repeats that one run is well above the clock's grain.
    constexpr int kRepeats = 20;
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kRepeats; ++i) work();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    seconds.push_back(took.count() / kRepeats);
  }
  std::nth_element(seconds.begin(), seconds.begin() + kRuns / 2, seconds.end());
  return seconds[kRuns / 2];
}

void measure(const std::string& spec, const Named& data) {
  const auto codec = make_codec(spec);
  const auto n = data.v.size();
  const double gigabytes = 4e-9 * static_cast<double>(n);
  Workspace workspace;
  Bytes out(codec->max_bytes(n));
  Vector acc(n, 0.0f);
  FeedbackState state;
  std::size_t used = 0;
  const double encode_s = median_seconds([&] { used = codec->encode(data.v, {}, workspace, out); });
  const double decode_s = median_seconds([&] { decode_add(std::span(out).first(used), 0.25f, acc); });
  const double feedback_s =
      codec->traits().feedback()
          ? median_seconds([&] { (void)codec->encode_feedback(data.v, state, {}, workspace, out); })
          : std::numeric_limits<double>::infinity();
  std::printf("%-34s %-12s %8.3f %9.2f %11.2f %11.2f\n", spec.c_str(), data.name.c_str(),
              8.0 * static_cast<double>(used) / static_cast<double>(n), gigabytes / encode_s,
              gigabytes / feedback_s, gigabytes / decode_s);
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t n = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 235146;
  if (n == 0) {
    std::fprintf(stderr, "usage: bench_codecs [entries]\n");
    return 2;
  }
  const std::vector<Named> data = {{"gaussian", gaussian(n, 1)}, {"5% dense", sparse(n, 0.05, 1)}};
  std::printf("%zu entries\n%-34s %-12s %8s %9s %11s %11s\n", n, "codec", "data", "bits", "encode",
              "+ feedback", "decode_add");
  for (const char* spec : {"dense",
                           "fp16",
                           "onebit",
                           "onebit_scaled",
                           "onebit_scaled:lambda=auto",
                           "qsgd:bits=2",
                           "qsgd:bits=4",
                           "qsgd:bits=8",
                           "qsgd:bits=4,norm=l2",
                           "topk:density=0.001",
                           "topk",
                           "topk:select=sampled",
                           "topk:select=trimmed",
                           "topk:select=bisect",
                           "topk:select=ldte_bs",
                           "topk:values=int8",
                           "bf16",
                           "onebit_two",
                           "terngrad",
                           "intq",
                           "intq:bits=4",
                           "intq:bits=8,rounding=stochastic",
                           "randk",
                           "threshold:tau=2",
                           "sign_vote"}) {
    for (const auto& named : data) measure(spec, named);
  }
}
