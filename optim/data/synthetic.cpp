// Gaussian blobs: row r belongs to class r mod classes and is that class's centre plus unit normal noise.
#include <algorithm>
#include <cmath>
#include <utility>

#include "dataset.h"
#include "random.h"

namespace gossamer::optim {
namespace {

/// The given rows of a part (0: training, 1: test).
std::shared_ptr<const Dataset> make_blobs(const DataSpec& spec, const std::vector<std::uint32_t>& rows,
                                          std::uint64_t part) {
  const std::uint64_t centre_key = make_key(spec.seed, Use::centres),
                      noise_key = make_key(spec.seed, Use::noise, part);
  std::vector<double> centres(spec.classes * spec.features);
  for (std::size_t i = 0; i < centres.size(); ++i) centres[i] = spec.separation * normal(centre_key, i);
  std::vector<float> values;
  values.reserve(rows.size() * spec.features);
  std::vector<std::int32_t> labels;
  for (const std::size_t r : rows) {
    const std::size_t label = r % spec.classes;
    labels.push_back(static_cast<std::int32_t>(label));
    for (std::size_t k = 0; k < spec.features; ++k)
      values.push_back(
          static_cast<float>(centres[label * spec.features + k] + normal(noise_key, r * spec.features + k)));
  }
  return make_float_rows(std::move(values), spec.features, spec.classes, std::move(labels));
}

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
  const double rows = static_cast<double>(spec.rows) + static_cast<double>(spec.test_rows);
  const double bytes =
      static_cast<double>(spec.classes) * static_cast<double>(spec.features) * sizeof(double) +
      rows * (static_cast<double>(spec.features) * sizeof(float) + sizeof(std::int32_t));
  if (bytes > static_cast<double>(spec.memory))
    throw OptimError("data synthetic: found " + std::to_string(spec.rows) + " + " +
                     std::to_string(spec.test_rows) + " rows of " + std::to_string(spec.features) +
                     " features and " + std::to_string(spec.classes) + " classes, which take " +
                     std::to_string(bytes / 1e9) + " GB; expected at most the " +
                     std::to_string(static_cast<double>(spec.memory) / 1e9) + " GB of free memory");
  const DataSpec all{.seed = spec.seed};  // without its limit
  return {make_blobs(spec, limited(spec.rows, spec), 0), make_blobs(spec, limited(spec.test_rows, all), 1)};
}

}  // namespace

constinit const DataFormat kSynthetic{.row = {"synthetic", "Gaussian blobs made from a seed, one per class",
                                              "rows test_rows features classes separation limit seed"},
                                      .load = load_synthetic,
                                      .traits = {.needs_path = false, .synthetic = true}};

}  // namespace gossamer::optim
