// Each kernel against its definition, on every instruction set of this machine, and on a GPU where there is
// one.
#include <array>

#include "gossamer/compress/kernels.h"
#include "gossamer_test/catch.h"
#include "targets.h"
#include "vectors.h"

using namespace gossamer::compress;
using namespace gossamer::compress::test;

namespace {

/// The bit contract word for word: level by level, an odd one out moves up as it is.
float pairwise(std::vector<float> sums) {
  if (sums.empty()) return 0;
  while (sums.size() > 1) {
    std::vector<float> next;
    for (std::size_t i = 0; i + 1 < sums.size(); i += 2) next.push_back(sums[i] + sums[i + 1]);
    if (sums.size() % 2 == 1) next.push_back(sums.back());
    sums = next;
  }
  return sums[0];
}

template <class Term>
float blockwise(std::span<const float> x, Term term) {
  std::vector<float> blocks;
  for (std::size_t start = 0; start < x.size(); start += 4096) {
    std::array<float, 16> lane{};
    const std::size_t end = std::min(start + 4096, x.size());
    for (std::size_t i = start; i < end; ++i) lane[i % 16] = lane[i % 16] + term(x[i]);
    for (const std::size_t width : {8u, 4u, 2u, 1u}) {
      for (std::size_t j = 0; j < width; ++j) lane[j] = lane[j] + lane[j + width];
    }
    blocks.push_back(lane[0]);
  }
  return pairwise(blocks);
}

std::vector<std::uint32_t> reference_signs(std::span<const float> x) {
  std::vector<std::uint32_t> words((x.size() + 31) / 32, 0);
  for (std::size_t i = 0; i < x.size(); ++i) words[i / 32] |= (x[i] >= 0 ? 1u : 0u) << (i % 32);
  return words;
}

Vector mixed(std::size_t n) {
  Vector v = gaussian(n, n + 1);
  for (std::size_t i = 0; i < n; i += 7) v[i] = 0.0f;
  for (std::size_t i = 3; i < n; i += 11) v[i] = -0.0f;
  return v;
}

/// Starts one float past an aligned address: callers' spans need not be aligned.
struct Shifted {
  explicit Shifted(const Vector& v) : store(v.size() + 1) {
    std::copy(v.begin(), v.end(), store.begin() + 1);
  }
  std::span<float> span() { return std::span(store).subspan(1); }
  Vector store;
};

void check_all(std::size_t n) {
  Shifted x(mixed(n)), y(laplacian(n, 5));
  Vector expected(y.span().begin(), y.span().end());
  for (std::size_t i = 0; i < n; ++i) expected[i] = expected[i] + 0.7f * x.span()[i];
  axpy(0.7f, x.span(), y.span());
  REQUIRE(same_bits(y.span(), expected));

  std::vector<std::uint32_t> words((n + 31) / 32, 0xdeadbeef);
  pack_signs(x.span(), words);
  REQUIRE(words == reference_signs(x.span()));

  for (std::size_t i = 0; i < n; ++i) expected[i] += (words[i / 32] >> (i % 32) & 1) != 0 ? 0.3f : -0.3f;
  add_signs(words, 0.3f, y.span());
  REQUIRE(same_bits(y.span(), expected));

  const Norms sums = norms(x.span());
  const Vector got = {sums.l1, sums.l2_squared};
  const Vector wanted = {blockwise(x.span(), [](float v) { return std::fabs(v); }),
                         blockwise(x.span(), [](float v) { return v * v; })};
  REQUIRE(same_bits(got, wanted));
}

}  // namespace

TEST_CASE("kernels give the defined bits on every instruction set") {
  for_each_target([](const std::string& target) {
    for (const std::size_t n : sizes()) {
      INFO(target << " on " << n);
      check_all(n);
    }
    for (std::size_t blocks = 2; blocks < 12; ++blocks) {
      INFO(target << " on " << blocks << " blocks");
      check_all(4096 * blocks + blocks % 3);
    }
  });
}

TEST_CASE("payloads have the same bytes on every instruction set") {
  for (const auto& spec : all_specs()) {
    const auto codec = make_codec(spec);
    const Vector v = laplacian(20011, 3);
    const Bytes expected = encode(*codec, v);
    for_each_target([&](const std::string& target) {
      INFO(spec << " on " << target);
      REQUIRE(encode(*codec, v) == expected);
    });
  }
}

TEST_CASE("CUDA kernels give the bits of their CPU twins") {
  std::string why;
  if (!cuda::available(why)) {
    WARN("no CUDA device: " << why);
    GOSSAMER_SKIP("the CUDA kernels were not run");
  }
  for (const std::size_t n : sizes()) {
    INFO(n);
    const Vector x = mixed(n), start = laplacian(n, 5);
    const std::size_t words = (n + 31) / 32;
    cuda::Buffer x_dev(4 * n), y_dev(4 * n), words_dev(4 * words);
    x_dev.from_host(x.data(), 4 * n);
    y_dev.from_host(start.data(), 4 * n);
    cuda::axpy(0.7f, static_cast<const float*>(x_dev.data()), static_cast<float*>(y_dev.data()), n, nullptr);
    cuda::pack_signs(static_cast<const float*>(x_dev.data()), static_cast<std::uint32_t*>(words_dev.data()),
                     n, nullptr);
    cuda::add_signs(static_cast<const std::uint32_t*>(words_dev.data()), 0.3f,
                    static_cast<float*>(y_dev.data()), n, nullptr);
    Vector y_got(n), y_cpu = start;
    std::vector<std::uint32_t> words_got(words), words_cpu(words);
    y_dev.to_host(y_got.data(), 4 * n);
    words_dev.to_host(words_got.data(), 4 * words);
    axpy(0.7f, x, y_cpu);
    pack_signs(x, words_cpu);
    add_signs(words_cpu, 0.3f, y_cpu);
    REQUIRE(words_got == words_cpu);
    REQUIRE(same_bits(y_got, y_cpu));
  }
}

TEST_CASE("without a device the reason is said") {
  std::string why;
  if (cuda::available(why)) return;
  REQUIRE(why.size() > 10);
  REQUIRE_THROWS_AS(cuda::Buffer(16), std::runtime_error);
}
