// Speed of the mlp's gradient: samples/s, GFLOP/s, and the share of the time that the same matrix products
// take alone; of several peers on the machine where as many of this program run. Run it without
// OPENBLAS_CORETYPE, which can pin OpenBLAS to slower kernels.
#include <cblas.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "gossamer/optim/data.h"
#include "gossamer/optim/model.h"
#include "gossamer/optim/optimizer.h"

namespace {

using namespace gossamer::optim;

constexpr std::size_t kLayers = 3;
using Widths = std::array<std::size_t, kLayers + 1>;
constexpr Widths kSmall{784, 256, 128, 10}, kWide{784, 1024, 1024, 10};

/// Seconds per call over about 0.1 s.
template <class F>
double seconds_once(const F& f) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  double spent = 0;
  int calls = 0;
  for (; spent < 0.1; ++calls) {
    f();
    spent = std::chrono::duration<double>(Clock::now() - start).count();
  }
  return spent / calls;
}

/// Seconds per call: the fastest of several rounds.
template <class F>
double seconds_per_call(const F& f) {
  double best = seconds_once(f);
  for (int round = 1; round < 10; ++round) best = std::min(best, seconds_once(f));
  return best;
}

float* aligned(std::size_t n) {
  auto* p = static_cast<float*>(std::aligned_alloc(64, (n * sizeof(float) + 63) / 64 * 64));
  for (std::size_t i = 0; i < n; ++i) p[i] = static_cast<float>(i % 7) * 0.01f;
  return p;
}

/// The matrix products of one gradient and nothing else.
void products(const Widths& widths, std::size_t rows, float* const* a, const float* w, float* g) {
  const auto b = static_cast<int>(rows);
  for (std::size_t l = 0; l < kLayers; ++l) {
    const int in = static_cast<int>(widths[l]), out = static_cast<int>(widths[l + 1]);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, b, out, in, 1, a[l], in, w, out, 0, a[l + 1], out);
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, in, out, b, 1, a[l], in, a[l + 1], out, 0, g, out);
    if (l > 0)
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, b, in, out, 1, a[l + 1], out, w, out, 0, a[l], in);
    w += widths[l] * widths[l + 1], g += widths[l] * widths[l + 1];  // weights of their own, as the model has
  }
}

double flops(const Widths& widths, std::size_t rows) {
  double sum = 0;
  for (std::size_t l = 0; l < kLayers; ++l)
    sum += 2.0 * static_cast<double>(rows * widths[l] * widths[l + 1]) * (l > 0 ? 3 : 2);
  return sum;
}

void bench(const Widths& widths, std::size_t rows, int threads) {
  set_blas_threads(threads);
  DataSpec spec;
  spec.rows = 4096;
  spec.features = widths[0];
  spec.classes = widths[kLayers];
  static const Data data = load_data(spec);
  const auto objective = make_model({"mlp", {widths[1], widths[2]}, widths[0], widths[kLayers]});
  const std::size_t n = objective->buffer_size();
  float *x = aligned(n), *g = aligned(n), *a[kLayers + 1];
  for (std::size_t l = 0; l <= kLayers; ++l) a[l] = aligned(rows * widths[l]);
  objective->initialise(1, {x, n});
  BatchStream stream(data.train, make_sampler({"local_shuffle", 1, {rows}}, data.train, 0), rows, 0, false);
  const Batch& batch = stream.next();
  double whole = 1e9, gemm = 1e9;
  for (int round = 0; round < 15; ++round) {  // in turn, so that other load on the machine meets both
    whole = std::min(whole, seconds_once([&] { objective->gradient({x, n}, batch, {g, n}, {}); }));
    gemm = std::min(gemm, seconds_once([&] { products(widths, rows, a, x, g); }));
  }
  const double gather = seconds_per_call([&] { stream.next(); });
  std::printf(
      "%zu-%zu-%zu-%zu  batch %4zu  BLAS threads %d  %9.0f samples/s  %6.1f GFLOP/s  products %3.0f %%  "
      "gather %5.1f us\n",
      widths[0], widths[1], widths[2], widths[3], rows, threads, static_cast<double>(rows) / whole,
      flops(widths, rows) / whole * 1e-9, 100 * gemm / whole, gather * 1e6);
  for (float* p : a) std::free(p);
  std::free(x), std::free(g);
}

void bench_optimizers() {
  constexpr std::size_t kCount = 235152;
  std::vector<float> x(kCount, 0.5f), g(kCount, 0.25f), u(kCount);
  for (const NamedHelp& row : optimizer_table()) {
    const auto optimizer = make_optimizer({.kind = row.name}, kCount);
    const double seconds = seconds_per_call([&] { optimizer->step(1, 0, x, g, u); });
    std::printf("%-9s step of %zu parameters  %6.1f us\n", row.name, kCount, seconds * 1e6);
  }
}

void bench_softmax() {
  DataSpec spec;
  spec.features = 784;
  spec.classes = 10;
  const Data data = load_data(spec);
  const auto objective = make_model({"softmax", {}, 784, 10});
  std::vector<float> x(objective->buffer_size()), g(x.size());
  BatchStream stream(data.train, make_sampler({"local_shuffle", 1, {64}}, data.train, 0), 64, 0, false);
  const Batch& batch = stream.next();
  const double seconds = seconds_per_call([&] { objective->gradient(x, batch, g, {}); });
  std::printf("softmax 784-10, batch 64  %9.0f samples/s\n", 64 / seconds);
}

}  // namespace

int main() {
  std::printf("OpenBLAS kernels: %s\n", openblas_get_corename());
  for (const Widths& widths : {kSmall, kWide})
    for (const int threads : {1, 2})
      for (const std::size_t rows : {std::size_t{64}, std::size_t{256}}) bench(widths, rows, threads);
  bench_softmax();
  bench_optimizers();
  return 0;
}
