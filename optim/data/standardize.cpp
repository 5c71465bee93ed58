#include "standardize.h"

#include <cassert>
#include <cmath>

namespace gossamer::optim {

std::vector<Standardization> standardization_of(std::span<const float> rows, std::size_t columns) {
  assert(columns > 0 && !rows.empty() && rows.size() % columns == 0);
  const auto count = static_cast<double>(rows.size() / columns);
  const std::span<const float> first = rows.first(columns);
  const auto distance = [](float value, double from) { return static_cast<double>(value) - from; };
  std::vector<double> sums(columns), squares(columns);
  for (std::size_t at = 0; at < rows.size(); at += columns)
    for (std::size_t c = 0; c < columns; ++c) sums[c] += distance(rows[at + c], first[c]);
  std::vector<Standardization> out(columns);
  for (std::size_t c = 0; c < columns; ++c) out[c].mean = first[c] + sums[c] / count;
  for (std::size_t at = 0; at < rows.size(); at += columns)
    for (std::size_t c = 0; c < columns; ++c) {
      const double d = distance(rows[at + c], out[c].mean);
      squares[c] += d * d;
    }
  for (std::size_t c = 0; c < columns; ++c)
    out[c].factor = squares[c] > 0 ? 1 / std::sqrt(squares[c] / count) : 0;
  return out;
}

}  // namespace gossamer::optim
