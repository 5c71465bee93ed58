// Vectors on a device against the host's loops. Runs on a device, and on the emulated one.
#include <cmath>
#include <limits>
#include <memory>

#include "device_memory.h"
#include "device_order.h"
#include "gossamer/compress/device_vectors.h"
#include "gossamer/compress/feedback.h"
#include "gossamer_test/catch.h"
#include "vectors.h"

using namespace gossamer::compress;
using namespace gossamer::compress::test;

namespace {

bool has_device() {
  std::string why;
  return cuda::available(why);
}

}  // namespace

TEST_CASE("vectors are combined on a device to the bits of one axpy after the other") {
  if (!has_device()) GOSSAMER_SKIP("vectors on a device: no CUDA device here");
  for (const std::size_t n : {1u, 31u, 256u, 1000u})
    for (const std::size_t count : {0u, 1u, 3u, 8u, 9u, 20u})
      for (const float keep : {0.0f, 1.0f, 0.3f}) {
        INFO(n << " entries, " << count << " terms, keep " << keep);
        order_device(n + count);
        Vector expected = laplacian(n, 1);
        if (keep == 0) expected[0] = std::numeric_limits<float>::quiet_NaN();  // is overwritten
        const OnDevice<float> dst(std::vector<float>(expected.begin(), expected.end()));
        std::vector<std::unique_ptr<OnDevice<float>>> on_device;
        std::vector<cuda::Term> terms;
        for (float& x : expected) x = keep == 0 ? 0.0f : keep * x;
        for (std::size_t k = 0; k < count; ++k) {
          const Vector x = gaussian(n, k + 2);
          const float factor = 0.1f * static_cast<float>(k + 1);
          axpy(factor, x, expected);
          on_device.push_back(std::make_unique<OnDevice<float>>(std::vector<float>(x.begin(), x.end())));
          terms.push_back({factor, on_device.back()->data()});
        }
        cuda::combine(keep, dst.data(), terms, n, nullptr);
        CHECK(same_bits(dst.get(), expected));
      }
}

TEST_CASE("vectors are subtracted and scaled on a device as on the host") {
  if (!has_device()) GOSSAMER_SKIP("vectors on a device: no CUDA device here");
  constexpr std::size_t kSize = 777;
  const Vector a = gaussian(kSize, 1), b = laplacian(kSize, 2);
  const OnDevice<float> a_dev(std::vector<float>(a.begin(), a.end())),
      b_dev(std::vector<float>(b.begin(), b.end()));
  cuda::subtract(a_dev.data(), b_dev.data(), b_dev.data(), kSize, nullptr);
  Vector expected(kSize);
  for (std::size_t i = 0; i < kSize; ++i) expected[i] = a[i] - b[i];
  CHECK(same_bits(b_dev.get(), expected));
  cuda::scale(0.3f, b_dev.data(), kSize, nullptr);
  for (float& x : expected) x = 0.3f * x;
  CHECK(same_bits(b_dev.get(), expected));
}

TEST_CASE("norms on a device are near the host's and the same each time; what is not finite is seen") {
  if (!has_device()) GOSSAMER_SKIP("vectors on a device: no CUDA device here");
  const OnDevice<double> partials(cuda::kSquarePartials), sum(1);
  for (const std::size_t n : {0u, 1u, 255u, 300000u}) {
    INFO(n << " entries");
    const Vector x = n == 0 ? Vector{} : gaussian(n, 3);
    const OnDevice<float> x_dev(std::vector<float>(x.begin(), x.end()));
    order_device(n);
    cuda::sum_of_squares(x_dev.data(), n, partials.data(), sum.data(), nullptr);
    const double once = sum.get()[0];
    order_device(n + 1);
    cuda::sum_of_squares(x_dev.data(), n, partials.data(), sum.data(), nullptr);
    CHECK(sum.get()[0] == once);
    CHECK(std::sqrt(once) == Approx(l2_norm(x)).epsilon(1e-12));
  }
  Vector x = gaussian(1000, 1);
  for (const float bad :
       {0.0f, std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::quiet_NaN()}) {
    x[997] = bad;
    const OnDevice<float> x_dev(std::vector<float>(x.begin(), x.end()));
    const OnDevice<std::uint32_t> flag(std::vector<std::uint32_t>{0});
    cuda::flag_not_finite(x_dev.data(), x.size(), flag.data(), nullptr);
    CHECK(flag.get()[0] == (std::isfinite(bad) ? 0 : 1));
  }
}

TEST_CASE("memory goes to a device and back in a stream's order") {
  if (!has_device()) GOSSAMER_SKIP("vectors on a device: no CUDA device here");
  const cuda::Stream stream;
  cuda::PinnedMemory there(4000), back(4000);
  auto* const floats = reinterpret_cast<float*>(there.data());
  for (int i = 0; i < 1000; ++i) floats[i] = static_cast<float>(i);
  const OnDevice<float> x(1000), y(1000);
  cuda::copy_to_device(x.data(), there.data(), 4000, stream.get());
  cuda::copy_on_device(y.data(), x.data(), 4000, stream.get());
  cuda::clear(x.data(), 2000, stream.get());
  cuda::combine(1, y.data(), std::vector<cuda::Term>{{1.0f, x.data()}}, 1000, stream.get());
  cuda::copy_to_host(back.data(), y.data(), 4000, stream.get());
  stream.wait();
  const auto* const got = reinterpret_cast<const float*>(back.data());
  CHECK(got[499] == 499);
  CHECK(got[500] == 1000);
  CHECK_THROWS_WITH(cuda::use_device(99), ContainsSubstring("cuda:99"));
  CHECK_THROWS_WITH(cuda::use_device(-1), ContainsSubstring("there are"));
  CHECK_NOTHROW(cuda::use_device(0));
}
