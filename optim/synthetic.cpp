// Gaussian blobs: row r belongs to class r mod classes and is that class's centre plus unit normal noise.
#include <algorithm>
#include <cmath>
#include <utility>

#include "dataset.h"
#include "random.h"

namespace gossamer::optim {
namespace {

std::shared_ptr<const Dataset> make_blobs(const DataSpec& spec, std::size_t rows, std::uint64_t part) {
  const std::uint64_t centre_key = make_key(spec.seed, Use::centres),
                      noise_key = make_key(spec.seed, Use::noise, part);
  std::vector<double> centres(spec.classes * spec.features);
  for (std::size_t i = 0; i < centres.size(); ++i) centres[i] = spec.separation * normal(centre_key, i);
  std::vector<float> values(rows * spec.features);
  std::vector<std::int32_t> labels(rows);
  for (std::size_t r = 0; r < rows; ++r) {
    const std::size_t label = r % spec.classes;
    labels[r] = static_cast<std::int32_t>(label);
    for (std::size_t k = 0; k < spec.features; ++k) {
      const std::size_t i = r * spec.features + k;
      values[i] = static_cast<float>(centres[label * spec.features + k] + normal(noise_key, i));
    }
  }
  return make_float_rows(std::move(values), spec.features, spec.classes, std::move(labels));
}

}  // namespace

Data load_synthetic(const DataSpec& spec) {
  constexpr std::size_t kMost = std::size_t{1} << 31;
  if (spec.rows == 0 || spec.test_rows == 0 || spec.features == 0 || spec.classes == 0 ||
      spec.classes > kMost || spec.features > kMost ||
      std::max(spec.rows, spec.test_rows) > kMost / spec.features)
    throw OptimError("data synthetic: found " + std::to_string(spec.rows) + " rows, " +
                     std::to_string(spec.test_rows) + " test rows, " + std::to_string(spec.features) +
                     " features, " + std::to_string(spec.classes) +
                     " classes; expected each at least 1 and at most 2^31 numbers in all");
  if (!std::isfinite(spec.separation))
    throw OptimError("data synthetic: found a separation that is no finite number");
  return {make_blobs(spec, limited(spec.rows, spec.limit), 0), make_blobs(spec, spec.test_rows, 1)};
}

}  // namespace gossamer::optim
