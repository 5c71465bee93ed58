#include <cmath>
#include <limits>
#include <utility>

#include "elementary.h"
#include "gossamer/optim/finite.h"
#include "random.h"
#include "support.h"

namespace gossamer::optim::test {

TEST_CASE("own exp agrees with libm") {
  double worst_float = 0, worst_double = 0;
  for (double x = -80; x <= 80; x += 0.0137) {
    const auto xf = static_cast<float>(x);
    const double exact = std::exp(static_cast<double>(xf));
    worst_float = std::max(worst_float, std::abs(static_cast<double>(portable_exp(xf)) / exact - 1));
    worst_double = std::max(worst_double, std::abs(portable_exp(x) / std::exp(x) - 1));
  }
  CHECK(worst_float < 2e-7);
  CHECK(worst_double < 1e-14);
  CHECK(portable_exp(0.0f) == 1.0f);
  CHECK(portable_exp(-1000.0f) < 1e-37f);
  CHECK(std::isfinite(portable_exp(1000.0f)));
  CHECK(std::isnan(portable_exp(std::numeric_limits<float>::quiet_NaN())));
}

TEST_CASE("own ln agrees with libm") {
  double worst = 0;
  for (double x = 1e-12; x < 1e12; x *= 1.0173) {
    const double exact = std::log(x);
    worst = std::max(worst, std::abs(portable_log(x) - exact) / std::max(1e-3, std::abs(exact)));
  }
  CHECK(worst < 1e-13);
  CHECK(portable_log(1.0) == 0.0);
  CHECK(std::isnan(portable_log(std::numeric_limits<double>::quiet_NaN())));
}

TEST_CASE("own cos agrees with libm") {
  for (double p = 0; p <= 1; p += 0.001) CHECK(std::abs(portable_cos_pi(p) - std::cos(p * M_PI)) < 1e-14);
}

TEST_CASE("normal numbers have the moments of a normal distribution") {
  constexpr std::size_t kCount = 200000;
  double sum = 0, square = 0, fourth = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    const double z = normal(make_key(1, Use::noise), i);
    sum += z;
    square += z * z;
    fourth += z * z * z * z;
  }
  CHECK(std::abs(sum / kCount) < 0.01);
  CHECK(std::abs(square / kCount - 1) < 0.02);
  CHECK(std::abs(fourth / kCount - 3) < 0.1);
}

TEST_CASE("one entry that is not finite is found wherever it stands") {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const std::size_t n : {std::size_t{1}, std::size_t{17}, std::size_t{4096}, std::size_t{9001}}) {
    std::vector<float> x(n, std::numeric_limits<float>::max());
    CHECK(all_finite(x));
    for (const std::size_t at : {std::size_t{0}, n / 2, n - 1})
      for (const float wrong : {kInf, -kInf, std::numeric_limits<float>::quiet_NaN()}) {
        const float right = std::exchange(x[at], wrong);
        CHECK_FALSE(all_finite(x));
        x[at] = right;
      }
  }
  CHECK(all_finite({}));
}

}  // namespace gossamer::optim::test
