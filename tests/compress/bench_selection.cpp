// By hand: bench_selection [entries [threads [random]]]. Finds 0.1 % of the entries; medians, GB/s of fp32
// input. With a third argument on random entries alone. bench_selection table [threads]: on random entries of
// 16 KB to 64 MB of fp32, the sizes of the LDTE-BS paper (which are bytes).
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "gossamer/compress/feedback.h"
#include "gossamer/compress/selection.h"
#include "vectors.h"

using namespace gossamer::compress;
using namespace gossamer::compress::test;

namespace {

/// The process's own time where there is one thread, so that what else runs on the machine does not count.
double now(bool one_thread) {
  if (one_thread) return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Each run takes at least some milliseconds.
template <class Work>
double gigabytes_per_second(std::size_t n, bool one_thread, Work work) {
  constexpr int kRuns = 9;
  const int repeats = static_cast<int>(1 + 4000000 / n);
  std::vector<double> seconds;
  for (int run = 0; run < kRuns; ++run) {
    const double start = now(one_thread);
    for (int i = 0; i < repeats; ++i) work();
    seconds.push_back((now(one_thread) - start) / repeats);
  }
  std::nth_element(seconds.begin(), seconds.begin() + kRuns / 2, seconds.end());
  return 4e-9 * static_cast<double>(n) / seconds[kRuns / 2];
}

std::vector<Named> inputs(std::size_t n, bool adversarial) {
  std::vector<Named> all;
  all.push_back({"laplacian", laplacian(n, 1)});
  for (float& x : all[0].v) x = 5e-4f + 5e-3f * x;
  if (!adversarial) return all;
  Vector down = all[0].v;
  std::sort(down.begin(), down.end(), std::greater<>());
  all.push_back({"descending", down});
  all.push_back({"ascending", Vector(down.rbegin(), down.rend())});
  std::sort(down.begin(), down.end(), [](float a, float b) { return std::fabs(a) > std::fabs(b); });
  all.push_back({"by magnitude", down});
  all.push_back({"constant", Vector(n, 2.5f)});
  Vector mixed(n, 2.5f), few(n), huge = all[0].v, block = all[0].v, three(n, 0.0f);
  for (std::size_t i = 0; i < n; i += 2) mixed[i] = -2.5f;
  for (std::size_t i = 0; i < n; ++i) few[i] = static_cast<float>(static_cast<int>(i * 7919 % 9) - 4);
  huge[n / 3] = 1e30f;
  for (std::size_t i = n - n / 100; i < n; ++i) block[i] *= 1e10f;
  three[5] = three[n / 2] = three[n - 1] = 1;
  all.push_back({"equal magnitudes", mixed});
  all.push_back({"nine values", few});
  all.push_back({"one huge entry", huge});
  all.push_back({"large block at the end", block});
  all.push_back({"three entries", three});
  return all;
}

void print_header(const char* of) {
  std::printf("%-24s", of);
  for (const auto& name : selection_names()) std::printf(" %13s", std::string(name).c_str());
  std::printf("\n");
}

void print_row(const char* name, const Vector& v, Workspace& workspace) {
  const std::size_t k = std::max<std::size_t>(1, v.size() / 1000);
  std::printf("%-24s", name);
  for (std::size_t m = 0; m < selection_names().size(); ++m) {
    SelectionState state;
    std::printf(" %13.2f", gigabytes_per_second(v.size(), workspace.threads() == nullptr, [&] {
                  (void)select_largest(static_cast<Selection>(m), v, k, {}, state, workspace);
                }));
    std::fflush(stdout);
  }
  std::printf("\n");
}

void print_table(Workspace& workspace) {
  print_header("GB/s, 0.1 % of");
  for (std::size_t kilobytes = 16; kilobytes <= 65536; kilobytes *= 4) {
    const std::string name =
        kilobytes < 1024 ? std::to_string(kilobytes) + " KB" : std::to_string(kilobytes / 1024) + " MB";
    print_row(name.c_str(), inputs(kilobytes * 256, false)[0].v, workspace);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool table = argc > 1 && std::strcmp(argv[1], "table") == 0;
  const std::size_t n = argc > 1 && !table ? std::strtoull(argv[1], nullptr, 10) : 1u << 20;
  const std::size_t count = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  if (n == 0 || count == 0) {
    std::fprintf(stderr, "usage: bench_selection [entries [threads [random]]] | table [threads]\n");
    return 2;
  }
  Threads threads(count);
  Workspace workspace(count > 1 ? &threads : nullptr);
  if (table) {
    print_table(workspace);
    return 0;
  }
  std::printf("%zu entries, %zu threads\n", n, count);
  print_header("");
  for (const auto& [name, v] : inputs(n, argc <= 3)) print_row(name.c_str(), v, workspace);
}
