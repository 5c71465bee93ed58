// Averaging by pairs at random.
#include <Eigen/Dense>
#include <Eigen/Eigenvalues>
#include <cassert>
#include <cmath>

#include "gossamer/topology/cost.h"

namespace gossamer::topology {

double pair_contraction(std::size_t peers, std::span<const double> rates) {
  assert(rates.size() == peers * peers);
  if (peers < 2) return 0;
  const auto n = static_cast<Eigen::Index>(peers);
  using Rates = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  Eigen::MatrixXd laplacian = -Eigen::Map<const Rates>(rates.data(), n, n);
  laplacian.diagonal().setZero();
  laplacian.diagonal() = -laplacian.rowwise().sum();
  const double meetings = laplacian.trace() / 2;
  if (meetings <= 0) return 1;
  // A meeting of i and j is I − ½ (e_i − e_j)(e_i − e_j)ᵀ, its own square.
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(laplacian, Eigen::EigenvaluesOnly);
  return std::pow(1 - solver.eigenvalues()[1] / (2 * meetings), meetings);
}

}  // namespace gossamer::topology
