// Spectra of mixing matrices.
//
// Let W_t be the matrices of a period of T rounds, M = W_{T−1}…W_0, π the left Perron vector of M (πᵀM = πᵀ,
// πᵀ1 = 1): the peers end up at the value 1πᵀx. The error of a start x lives in y = x − 1πᵀx, which has πᵀy =
// 0; R = I − ππᵀ/‖π‖² projects onto such y. M maps that space into itself, so with N = M R the error after k
// periods is N^k, free of the consensus part, and can be squared again and again without losing digits.
#include "gossamer/topology/report.h"

#include <Eigen/Dense>
#include <Eigen/SparseCore>
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>

#include "connectivity.h"
#include "eigenvalues.h"
#include "random.h"

namespace gossamer::topology {
namespace {

using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;
using Sparse = Eigen::SparseMatrix<double, Eigen::RowMajor>;

constexpr double kReached = 1e-6 * (1 + 1e-5);  // slack for float weights: 0.1f⁶ counts as 1e-6
constexpr long kMaxRounds = 10'000'000;
constexpr double kStuck = 1 - 1e-9;  // |λ₂| from here on is 1 up to rounding; also beyond kMaxRounds
constexpr double kVanished =
    1e-5;  // a round that shrinks the error so leaves only the rounding of its weights

/// Float weights make rows that sum to 1 ± 1e-7; here they must do so to double precision, or 10⁷ rounds
/// drift.
Sparse normalised(const MixingMatrix& w) {
  std::vector<Eigen::Triplet<double>> entries;
  for (PeerId i = 0; i < w.peers(); ++i) {
    double sum = static_cast<double>(w.self_weight(i));
    for (const Edge& e : w.in(i)) sum += static_cast<double>(e.weight);
    entries.emplace_back(i, i, static_cast<double>(w.self_weight(i)) / sum);
    for (const Edge& e : w.in(i)) entries.emplace_back(i, e.peer, static_cast<double>(e.weight) / sum);
  }
  const auto n = static_cast<Eigen::Index>(w.peers());
  Sparse matrix(n, n);
  matrix.setFromTriplets(entries.begin(), entries.end());
  return matrix;
}

/// |λ₂|: the second largest modulus.
double second_eigenvalue(const Matrix& m, bool symmetric) {
  if (m.rows() < 2) return 0;
  const std::span<const double> values(m.data(), static_cast<std::size_t>(m.size()));
  std::vector<double> moduli = symmetric ? symmetric_eigenvalues(values) : eigenvalue_moduli(values);
  for (double& value : moduli) value = std::abs(value);
  std::nth_element(moduli.begin(), moduli.begin() + 1, moduli.end(), std::greater<>());
  return moduli[1];
}

/// π, where it is the only one. One of the equations πᵀ(M − I) = 0 follows from the others; πᵀ1 = 1 replaces
/// it.
Vector perron_vector(const Matrix& m) {
  const Eigen::Index n = m.rows();
  Matrix equations = m.transpose() - Matrix::Identity(n, n);
  equations.row(n - 1).setOnes();
  return equations.partialPivLu().solve(Vector::Unit(n, n - 1));
}

/// The largest singular value, by power iteration on AᵀA, whose estimates only grow; or the first estimate
/// above `enough`.
template <class AnyMatrix>
double largest_singular_value(const AnyMatrix& a, double enough, double converged = 1e-10) {
  constexpr int kIterations = 1000;
  SplitMix64 random(1);
  Vector v = Vector::NullaryExpr(a.cols(), [&] { return random.symmetric(); });
  double sigma = 0;
  for (int i = 0; i < kIterations; ++i) {
    v.normalize();
    const Vector u = a * v;
    const double estimate = u.norm();
    if (estimate > enough || estimate <= sigma * (1 + converged)) return estimate;
    sigma = estimate;
    v = a.transpose() * u;
  }
  return sigma;
}

bool norm_exceeds(const Matrix& a, double bound) {
  return a.norm() > bound && largest_singular_value(a, bound) > bound;
}

/// N, and what the first period tells on the way.
struct FirstPeriod {
  Matrix error;                 ///< N
  std::optional<long> reached;  ///< rounds, where within the period
  bool exact = false;           ///< some round takes away all that was left
};

FirstPeriod first_period(const std::vector<Sparse>& rounds, const Vector& perron) {
  const Eigen::Index n = perron.size();
  FirstPeriod first{Matrix::Identity(n, n) - perron * perron.transpose() / perron.squaredNorm(), {}, false};
  for (std::size_t t = 0; t < rounds.size(); ++t) {
    const double before = first.error.norm();
    first.error = rounds[t] * first.error;
    first.exact = first.exact || first.error.norm() <= kVanished * before;
    if (!first.reached && !norm_exceeds(first.error, kReached)) first.reached = static_cast<long>(t + 1);
  }
  return first;
}

/// The first round at which the error is ≤ 1e-6, given N that is not: doubling, then bisection over whole
/// periods, then round by round.
long rounds_beyond(const std::vector<Sparse>& rounds, const Matrix& period_error) {
  const long period = static_cast<long>(rounds.size());
  std::vector<Matrix> powers{period_error};  // N^(2^j)
  while (norm_exceeds(powers.back(), kReached)) {
    if ((period << powers.size()) > 2 * kMaxRounds) return -1;
    powers.push_back(powers.back() * powers.back());
  }
  powers.pop_back();
  long periods = 1L << (powers.size() - 1);  // the most of which the error is known to be above
  Matrix error = powers.back();
  for (std::size_t j = powers.size() - 1; j-- > 0;)
    if (Matrix further = error * powers[j]; norm_exceeds(further, kReached)) {
      error = std::move(further);
      periods += 1L << j;
    }
  long count = periods * period;
  for (const Sparse& w : rounds) {
    ++count;
    error = w * error;
    if (!norm_exceeds(error, kReached)) break;
  }
  return count <= kMaxRounds ? count : -1;
}

void measure_spectrum(const Schedule& schedule, SpectralReport& report) {
  std::vector<Sparse> rounds;
  for (Round t = 0; t < schedule.period(); ++t) rounds.push_back(normalised(schedule.at(t)));
  const auto n = static_cast<Eigen::Index>(schedule.peers());
  Matrix product = Matrix::Identity(n, n);
  for (const Sparse& w : rounds) product = w * product;

  const double lambda = second_eigenvalue(product, report.symmetric && report.period == 1);
  if (lambda >= kStuck) return;  // no consensus: gap 0, never
  const FirstPeriod first = first_period(rounds, perron_vector(product));
  report.spectral_gap = first.exact ? 1 : 1 - std::pow(lambda, 1.0 / static_cast<double>(report.period));
  report.rounds_to_1e6 = first.reached ? *first.reached : rounds_beyond(rounds, first.error);
}

}  // namespace

SpectralReport analyse(const Schedule& schedule) {
  SpectralReport report;
  report.connected = strong_components(schedule).size() == 1;
  report.symmetric = report.doubly_stochastic = true;
  report.period = schedule.period();
  report.min_degree = schedule.peers();
  for (Round t = 0; t < schedule.period(); ++t) {
    const MixingMatrix& w = schedule.at(t);
    report.symmetric = report.symmetric && w.symmetric();
    report.doubly_stochastic = report.doubly_stochastic && w.doubly_stochastic();
    for (PeerId i = 0; i < w.peers(); ++i) {
      report.min_degree = std::min(report.min_degree, w.out(i).size());
      report.max_degree = std::max(report.max_degree, w.out(i).size());
    }
  }
  if (schedule.peers() == 1) {
    report.spectral_gap = 1;
    report.rounds_to_1e6 = 0;
  } else {
    measure_spectrum(schedule, report);
  }
  return report;
}

double largest_pull(const Schedule& schedule) {
  constexpr double kConverged = 1e-6;
  double largest = 0;
  for (Round t = 0; t < schedule.period(); ++t) {
    Sparse identity(static_cast<Eigen::Index>(schedule.peers()), static_cast<Eigen::Index>(schedule.peers()));
    identity.setIdentity();
    const Sparse pull = identity - normalised(schedule.at(t));
    largest =
        std::max(largest, largest_singular_value(pull, std::numeric_limits<double>::infinity(), kConverged));
  }
  return largest;
}

std::vector<double> consensus_errors(const Schedule& schedule, std::size_t rounds, const Pull& pull) {
  constexpr double kGone = 1e-7;
  std::vector<Sparse> cycle;
  for (Round t = 0; t < schedule.period(); ++t) cycle.push_back(normalised(schedule.at(t)));
  const auto n = static_cast<Eigen::Index>(schedule.peers());
  Matrix product = Matrix::Identity(n, n);
  for (const Sparse& w : cycle) product = w * product;
  const Vector perron = perron_vector(product);
  Matrix error = Matrix::Identity(n, n) - perron * perron.transpose() / perron.squaredNorm();
  Matrix moved = Matrix::Zero(n, n);
  std::vector<double> errors{1.0};
  while (errors.size() <= rounds && errors.back() > kGone) {
    moved = pull.momentum * moved + pull.gamma * (cycle[(errors.size() - 1) % cycle.size()] * error - error);
    error += moved;
    errors.push_back(largest_singular_value(error, std::numeric_limits<double>::infinity()));
  }
  return errors;
}

double pull_growth(const Schedule& schedule, const Pull& pull) {
  constexpr std::size_t kLeastRounds = 512, kPeriods = 8;
  constexpr double kGone = 1e-200;
  std::vector<Sparse> cycle;
  for (Round t = 0; t < schedule.period(); ++t) cycle.push_back(normalised(schedule.at(t)));
  const auto n = static_cast<Eigen::Index>(schedule.peers());
  Vector error(n), moved = Vector::Zero(n);
  std::minstd_rand random;
  std::normal_distribution<double> normal;
  for (double& x : error) x = normal(random);
  const std::size_t rounds = std::max(kLeastRounds, kPeriods * schedule.period());
  double log_growth = 0;
  for (std::size_t t = 0; t < rounds; ++t) {
    error.array() -= error.mean();
    moved = pull.momentum * moved + pull.gamma * (cycle[t % cycle.size()] * error - error);
    error += moved;
    const double size = std::hypot(error.norm(), moved.norm());
    if (!(size > kGone)) return 0;
    if (t >= rounds / 2) log_growth += std::log(size);
    error /= size;
    moved /= size;
  }
  return std::exp(log_growth / static_cast<double>(rounds - rounds / 2));
}

double rounds_to_consensus(std::span<const double> errors) {
  if (errors.empty()) return -1;
  std::size_t above = errors.size();  // one past the last that is too large
  while (above > 0 && errors[above - 1] <= kReached) --above;
  if (above < errors.size()) return static_cast<double>(above);
  const std::size_t last = errors.size() - 1, middle = last / 2;
  const double slope = std::log(errors[last] / errors[middle]) / static_cast<double>(last - middle);
  return slope < 0 ? static_cast<double>(last) + std::ceil(std::log(1e-6 / errors[last]) / slope) : -1;
}

}  // namespace gossamer::topology
