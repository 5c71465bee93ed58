#pragma once
#include <cstddef>
#include <span>
#include <vector>

namespace gossamer::optim {

/// How a column of numbers becomes one of mean 0 and variance 1: (value − mean) · factor.
struct Standardization {
  double mean = 0, factor = 1;
};

/// Of every column of the rows, `columns` values each (at least one row): the factor is 1/deviation, over n
/// rows and not n − 1; 0 where all values are equal. Two passes in double: first the mean, as a distance from
/// the first row, then the squares of the distances from it.
std::vector<Standardization> standardization_of(std::span<const float> rows, std::size_t columns);

}  // namespace gossamer::optim
