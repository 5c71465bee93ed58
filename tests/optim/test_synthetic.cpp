#include <cmath>

#include "support.h"

namespace gossamer::optim::test {

TEST_CASE("blobs are made from the specification") {
  const Data data = load_data({.limit = 100, .rows = 400, .test_rows = 50, .features = 3, .classes = 4});
  CHECK(data.train->rows() == 100);
  CHECK(data.test->rows() == 50);
  CHECK(data.train->features() == 3);
  CHECK(data.train->classes() == 4);
  CHECK(message_of([] { load_data({.classes = 1U << 31, .memory = 1U << 30}); }).find("free memory") !=
        std::string::npos);
}

TEST_CASE("training and test rows of a blob have the same centre and unit noise") {
  const Data data = blobs(4000, 1, 2);
  double mean[2] = {}, square = 0, test_mean[2] = {};
  std::vector<float> x(1);
  for (std::uint32_t r = 0; r < 4000; ++r) {
    data.train->gather({&r, 1}, x);
    mean[r % 2] += static_cast<double>(x[0]) / 2000;
  }
  for (std::uint32_t r = 0; r < 4000; ++r) {
    data.train->gather({&r, 1}, x);
    square += std::pow(static_cast<double>(x[0]) - mean[r % 2], 2) / 4000;
  }
  for (std::uint32_t r = 0; r < 512; ++r) {
    data.test->gather({&r, 1}, x);
    test_mean[r % 2] += static_cast<double>(x[0]) / 256;
  }
  CHECK(square == Approx(1).epsilon(0.1));
  CHECK(std::abs(test_mean[0] - mean[0]) < 0.3);
  CHECK(std::abs(test_mean[1] - mean[1]) < 0.3);
}

TEST_CASE("the data hash tells any two data sets apart") {
  const DataSpec spec{.rows = 60, .test_rows = 10, .features = 6, .classes = 3};
  const std::uint64_t hash = load_data(spec).train->hash();
  CHECK(load_data(spec).train->hash() == hash);
  const auto changed = [&](auto change) {
    DataSpec other = spec;
    change(other);
    return load_data(other).train->hash() != hash;
  };
  CHECK(changed([](DataSpec& s) { s.seed = 2; }));
  CHECK(changed([](DataSpec& s) { s.rows = 61; }));
  CHECK(changed([](DataSpec& s) { s.classes = 4; }));
  CHECK(changed([](DataSpec& s) { s.features = 5; }));
  CHECK(changed([](DataSpec& s) { s.separation = 1.1; }));
}

TEST_CASE("wrong data specifications are refused") {
  CHECK(offers([] { load_data({.format = "cvs"}); }, "cvs", "csv"));
  CHECK_THROWS_AS(load_data({.scale = 0}), OptimError);
  CHECK_THROWS_AS(load_data({.rows = 0}), OptimError);
  CHECK_THROWS_AS(load_data({.classes = 0}), OptimError);
  CHECK_THROWS_AS(load_data({.rows = std::size_t{1} << 62}), OptimError);
}

}  // namespace gossamer::optim::test
