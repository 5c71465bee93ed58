#pragma once
// These functions find eigenvalues. They are compiled once, apart from what uses them: the solvers are large.
#include <span>
#include <vector>

namespace gossamer::topology {

/// Of a symmetric matrix of n·n values, ascending.
std::vector<double> symmetric_eigenvalues(std::span<const double> matrix);
/// Moduli of the eigenvalues of any real matrix of n·n values, by columns; in no order. Throws GraphError
/// where they do not converge.
std::vector<double> eigenvalue_moduli(std::span<const double> matrix);

}  // namespace gossamer::topology
