#include "eigenvalues.h"

#include <Eigen/Dense>
#include <Eigen/Eigenvalues>
#include <cmath>

#include "gossamer/topology/schedule.h"

namespace gossamer::topology {
namespace {

Eigen::Map<const Eigen::MatrixXd> square(std::span<const double> values) {
  const auto n = static_cast<Eigen::Index>(std::lround(std::sqrt(static_cast<double>(values.size()))));
  return {values.data(), n, n};
}

}  // namespace

std::vector<double> symmetric_eigenvalues(std::span<const double> matrix) {
  const Eigen::VectorXd values =
      Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd>(square(matrix), Eigen::EigenvaluesOnly).eigenvalues();
  return {values.begin(), values.end()};
}

std::vector<double> eigenvalue_moduli(std::span<const double> matrix) {
  const Eigen::EigenSolver<Eigen::MatrixXd> solver(square(matrix), /*computeEigenvectors=*/false);
  if (solver.info() != Eigen::Success)
    throw GraphError("the eigenvalues of the mixing matrix did not converge; the graph may still be used");
  const Eigen::ArrayXd moduli = solver.eigenvalues().array().abs();
  return {moduli.begin(), moduli.end()};
}

}  // namespace gossamer::topology
