// The C++ header over the C API: y = a·sin(x) + b·cos(x) + c, stepped by an optimiser of the program's own.
#include <cmath>
#include <cstdio>
#include <gossamer.hpp>
#include <random>

int main(int argc, char** argv) try {
  if (argc != 3) return std::fprintf(stderr, "usage: loop_cpp JOB NAME-OF-A-PEER\n"), 2;
  gs_options options = {};
  options.own_steps = 1;
  gs::Loop loop(argv[1], argv[2], {{"abc", {3}, {1, 1, 1}}},
                {"exchange.method=allreduce", "exchange.codec=dense"}, options, {{"velocity", {3}}});
  if (loop.parameters(0)[2] != 1 || loop.kept(0).size() != 3) return 3;
  std::mt19937 random(static_cast<unsigned>(argv[2][4]));
  while (loop.wait()) {
    const auto x = loop.changing(0), g = loop.gradient(0);
    for (float& value : g) value = 0;
    double loss = 0;
    constexpr int kRows = 16;
    for (int row = 0; row < kRows; ++row) {
      const float at = std::uniform_real_distribution<float>(0, 6.28f)(random);
      const float in[] = {std::sin(at), std::cos(at), 1};
      const float error = (x[0] - 2) * in[0] + (x[1] + 1) * in[1] + (x[2] - 0.5f) * in[2];
      for (std::size_t k = 0; k < 3; ++k) g[k] += error * in[k] / kRows;
      loss += 0.5 * static_cast<double>(error * error) / kRows;
    }
    loop.post(loss, kRows);
    if (!loop.wait_for_mean()) continue;
    for (std::size_t k = 0; k < 3; ++k) x[k] -= 0.1f * (loop.kept(0)[k] = 0.5f * loop.kept(0)[k] + g[k]);
  }
  const auto x = loop.parameters(0);
  const double off = std::hypot(x[0] - 2.0, x[1] + 1.0, x[2] - 0.5);
  std::printf("%s: off by %.2e\n", argv[2], off);
  return off < 1e-2 ? 0 : 1;
} catch (const gs::Error& error) {
  return std::fprintf(stderr, "loop_cpp: %s\n", error.what()), 2;
}
