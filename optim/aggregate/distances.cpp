// Rules that look at whole vectors: Krum, geometric median, clipping, nearest-neighbour mixing.
#include <algorithm>
#include <numeric>

#include "aggregators.h"

namespace gossamer::optim {
namespace {

constexpr std::size_t kMostRounds = 10000;  // of a geometric median; a few dozen are usual

/// Krum's score of vector i: the sum of its squared distances to its n − f − 2 nearest others.
std::vector<double> krum_scores(std::span<const double> distances, std::size_t n, std::size_t f) {
  std::vector<double> scores(n), row(n);
  const std::size_t nearest = n > f + 2 ? n - f - 2 : 1;
  for (std::size_t i = 0; i < n; ++i) {
    row.assign(distances.begin() + static_cast<std::ptrdiff_t>(i * n),
               distances.begin() + static_cast<std::ptrdiff_t>((i + 1) * n));
    row.erase(row.begin() + static_cast<std::ptrdiff_t>(i));
    std::sort(row.begin(), row.end());
    scores[i] = std::accumulate(
        row.begin(), row.begin() + static_cast<std::ptrdiff_t>(std::min(nearest, row.size())), 0.0);
  }
  return scores;
}

/// Krum (keep = 1) and Multi-Krum: mean of the `keep` vectors of least score (0: n − f − 2), ties to the
/// first.
class Krum final : public Aggregator {
 public:
  Krum(std::size_t f, std::size_t keep) : f_(f), keep_(keep) {}

  void aggregate(const Neighbourhood& from, std::span<float> out) override {
    const std::size_t n = from.vectors.size();
    const std::vector<double> scores = krum_scores(all_distances(from.vectors), n, f_);
    std::vector<std::size_t> order(n);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return scores[a] < scores[b]; });
    order.resize(std::min(keep_ > 0 ? keep_ : n - std::min(f_ + 2, n - 1), n));
    std::sort(order.begin(), order.end());
    std::vector<std::span<const float>> kept;
    for (const std::size_t i : order) kept.push_back(from.vectors[i]);
    weighted_sum(kept, std::vector<float>(kept.size(), 1.0f / static_cast<float>(kept.size())), out);
  }

 private:
  std::size_t f_, keep_;
};

/// Coordinates of vectors in their own span, origin where `origin` is: row i of a Cholesky factor of their
/// inner products, the shortest first, so that a vector of size 10¹⁸ costs the others no digit. n×n,
/// row-major.
std::vector<double> coordinates(std::span<const std::span<const float>> vectors,
                                std::span<const float> origin) {
  const std::size_t n = vectors.size();
  std::vector<double> inner(n * n), rows(n * n, 0.0);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j <= i; ++j)
      inner[i * n + j] = inner[j * n + i] = inner_product(vectors[i], vectors[j], origin);
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return inner[a * n + a] < inner[b * n + b]; });
  for (std::size_t r = 0; r < n; ++r) {
    double* row = rows.data() + order[r] * n;
    double left = inner[order[r] * n + order[r]];
    for (std::size_t c = 0; c < r; ++c) {
      const double* before = rows.data() + order[c] * n;
      if (before[c] == 0) continue;
      double sum = inner[order[r] * n + order[c]];
      for (std::size_t k = 0; k < c; ++k) sum -= row[k] * before[k];
      row[c] = sum / before[c];
      left -= row[c] * row[c];
    }
    constexpr double kDependent = 1e-14;
    row[r] = left > kDependent * inner[order[r] * n + order[r]] ? std::sqrt(left) : 0;
  }
  return rows;
}

/// Weiszfeld's iteration as Vardi and Zhang mend it (2000, "The multivariate L1-median and associated data
/// depth", equation 2.6), in the vectors' own span, where a round costs n² however long they are. From z,
///     T = Σ β_i x_i with β_i ∝ w_i/‖x_i − z‖ over the x_i ≠ z,   R = Σ w_i (x_i − z)/‖x_i − z‖ over the
///     same, z ← (1 − γ) T + γ z with γ = min(1, η/‖R‖), η the weight of the x_i = z;
/// γ is 0 away from the vectors, where this is Weiszfeld's, and 1 where a vector is itself the median. Begins
/// at the median of each entry: from the mean one vector of size 10¹⁸ would cost many rounds.
class GeometricMedian final : public Aggregator {
 public:
  GeometricMedian(std::size_t rounds, std::size_t n) : rounds_(rounds), start_(make_median({}, n)) {}

  void aggregate(const Neighbourhood& from, std::span<float> out) override {
    start_->aggregate(from, out);
    n_ = from.vectors.size();
    x_ = coordinates(from.vectors, out);
    z_.assign(n_, 0.0);
    share_.assign(n_, 1.0 / static_cast<double>(n_));
    distance_.resize(n_);
    for (std::size_t round = 0; round < rounds_ && step(from.weights); ++round) {
    }
    weighted_sum(from.vectors, std::vector<float>(share_.begin(), share_.end()), out);
  }

 private:
  /// Also sets share_, the parts of the vectors in the new z. False where that is the median.
  bool step(std::span<const float> weights) {
    const double near = kNear * measure();
    std::vector<double> beta(n_), pull(n_);
    double sum = 0, here = 0;
    for (std::size_t i = 0; i < n_; ++i) {
      if (distance_[i] <= near) here += static_cast<double>(weights[i]);
      if (!(distance_[i] > near)) continue;
      beta[i] = static_cast<double>(weights[i]) / distance_[i];
      sum += beta[i];
      for (std::size_t k = 0; k < n_; ++k) pull[k] += beta[i] * (x_[i * n_ + k] - z_[k]);
    }
    const double force = std::sqrt(std::inner_product(pull.begin(), pull.end(), pull.begin(), 0.0));
    const double stay = here == 0 ? 0.0 : force > here ? here / force : 1.0;
    for (std::size_t i = 0; i < n_; ++i)
      share_[i] = (here > 0 && distance_[i] <= near ? stay * static_cast<double>(weights[i]) / here : 0.0) +
                  (sum > 0 ? (1 - stay) * beta[i] / sum : 0.0);
    if (sum == 0) return false;
    for (std::size_t k = 0; k < n_; ++k) z_[k] += (1 - stay) * pull[k] / sum;
    return (1 - stay) * force / sum > kTolerance * scale_;
  }

  /// The distances from z; returns scale_, the one in their middle, or the largest where most are nothing.
  double measure() {
    for (std::size_t i = 0; i < n_; ++i) {
      double squared = 0;
      for (std::size_t k = 0; k < n_; ++k) squared += (x_[i * n_ + k] - z_[k]) * (x_[i * n_ + k] - z_[k]);
      distance_[i] = std::sqrt(squared);
    }
    std::vector<double> sorted = distance_;
    std::sort(sorted.begin(), sorted.end());
    return scale_ = sorted[n_ / 2];
  }

  static constexpr double kNear = 1e-7, kTolerance = 1e-9;  // of scale_
  std::size_t rounds_, n_ = 0;
  double scale_ = 0;
  std::vector<double> x_, z_, share_, distance_;  ///< x_: row i is vector i
  std::unique_ptr<Aggregator> start_;
};

/// out += Σ_i weight_i · min(1, radius/‖x_i − centre‖) · (x_i − centre); out begins as the centre.
void add_clipped(const Neighbourhood& from, std::span<const float> centre, std::span<const double> squared,
                 double radius, std::span<float> out) {
  for (std::size_t v = 0; v < from.vectors.size(); ++v) {
    const double distance = std::sqrt(squared[v]);
    const auto factor = static_cast<float>(static_cast<double>(from.weights[v]) *
                                           (distance > radius ? radius / distance : 1.0));
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += factor * (from.vectors[v][i] - centre[i]);
  }
}

std::vector<double> squared_distances(const Neighbourhood& from, std::span<const float> centre) {
  std::vector<double> squared;
  for (const auto& v : from.vectors) squared.push_back(squared_distance(v, centre));
  return squared;
}

/// Centred clipping (Karimireddy, He & Jaggi 2021, "Learning from history for Byzantine robust optimization",
/// algorithm 2): v ← v + Σ w_i (x_i − v) min(1, τ/‖x_i − v‖), a few times, from the median of each entry, so
/// that nothing need be remembered. τ: the given radius, or the distance that n − f of the vectors are
/// within.
class CenteredClip final : public Aggregator {
 public:
  CenteredClip(const AggregatorParameters& p, std::size_t n)
      : f_(p.f), rounds_(p.rounds == 0 ? 3 : p.rounds), radius_(p.radius), start_(make_median({}, n)) {}

  void aggregate(const Neighbourhood& from, std::span<float> out) override {
    start_->aggregate(from, out);
    for (std::size_t round = 0; round < rounds_; ++round) {
      centre_.assign(out.begin(), out.end());
      const std::vector<double> squared = squared_distances(from, centre_);
      add_clipped(from, centre_, squared, radius_ > 0 ? radius_ : reach(squared), out);
    }
  }

 private:
  double reach(std::vector<double> squared) const {
    const std::size_t within = squared.size() - std::min(f_, squared.size() - 1) - 1;
    std::nth_element(squared.begin(), squared.begin() + static_cast<std::ptrdiff_t>(within), squared.end());
    return std::sqrt(squared[within]);
  }
  std::size_t f_, rounds_;
  double radius_;
  std::unique_ptr<Aggregator> start_;
  std::vector<float> centre_;
};

/// Self-centred clipping (He, Karimireddy & Jaggi 2022, "Byzantine-robust decentralized learning via
/// ClippedGossip"): x + Σ w_i clip(x_i − x, τ). τ: the given radius, or τ² = Σ_near w_i‖x_i − x‖² / Σ_far
/// w_i, where the f farthest are far (their practical rule, section 5).
class SelfClip final : public Aggregator {
 public:
  explicit SelfClip(const AggregatorParameters& p) : f_(p.f), radius_(p.radius) {}

  void aggregate(const Neighbourhood& from, std::span<float> out) override {
    const auto own = from.vectors[from.self];
    std::copy(own.begin(), own.end(), out.begin());
    const std::vector<double> squared = squared_distances(from, own);
    add_clipped(from, own, squared, radius_ > 0 ? radius_ : reach(from, squared), out);
  }

 private:
  double reach(const Neighbourhood& from, const std::vector<double>& squared) const {
    std::vector<std::size_t> order(squared.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return squared[a] < squared[b]; });
    double near = 0, far = 0;
    for (std::size_t r = 0; r < order.size(); ++r) {
      const auto weight = static_cast<double>(from.weights[order[r]]);
      if (r + f_ < order.size())
        near += weight * squared[order[r]];
      else
        far += weight;
    }
    return far > 0 ? std::sqrt(near / far) : std::numeric_limits<double>::infinity();
  }
  std::size_t f_;
  double radius_;
};

/// Nearest-neighbour mixing (Allouah et al. 2023, "Fixing by mixing", algorithm 2).
class NearestMixing final : public Aggregator {
 public:
  NearestMixing(std::unique_ptr<Aggregator> inner, std::size_t f) : inner_(std::move(inner)), f_(f) {}

  void aggregate(const Neighbourhood& from, std::span<float> out) override {
    const std::size_t n = from.vectors.size(), near = n - std::min(f_, n - 1);
    const std::vector<double> distances = all_distances(from.vectors);
    mixed_.resize(n);
    std::vector<std::span<const float>> views, chosen;
    std::vector<std::size_t> order(n);
    const std::vector<float> share(near, 1.0f / static_cast<float>(near));
    for (std::size_t i = 0; i < n; ++i) {
      std::iota(order.begin(), order.end(), std::size_t{0});
      const double* row = distances.data() + i * n;
      std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return row[a] < row[b]; });
      chosen.clear();
      for (std::size_t r = 0; r < near; ++r) chosen.push_back(from.vectors[order[r]]);
      mixed_[i].resize(out.size());
      weighted_sum(chosen, share, mixed_[i]);
      views.emplace_back(mixed_[i]);
    }
    inner_->aggregate({views, from.weights, from.self}, out);
  }

 private:
  std::unique_ptr<Aggregator> inner_;
  std::size_t f_;
  std::vector<std::vector<float>> mixed_;
};

}  // namespace

std::unique_ptr<Aggregator> make_krum(const AggregatorParameters& p, std::size_t) {
  return std::make_unique<Krum>(p.f, 1);
}
std::unique_ptr<Aggregator> make_multi_krum(const AggregatorParameters& p, std::size_t) {
  return std::make_unique<Krum>(p.f, p.keep);
}
std::unique_ptr<Aggregator> make_geometric_median(const AggregatorParameters& p, std::size_t n) {
  return std::make_unique<GeometricMedian>(p.rounds == 0 ? kMostRounds : p.rounds, n);
}
std::unique_ptr<Aggregator> make_centered_clip(const AggregatorParameters& p, std::size_t n) {
  return std::make_unique<CenteredClip>(p, n);
}
std::unique_ptr<Aggregator> make_self_clip(const AggregatorParameters& p, std::size_t) {
  return std::make_unique<SelfClip>(p);
}
std::unique_ptr<Aggregator> make_nearest_mixing(std::unique_ptr<Aggregator> inner, std::size_t f) {
  return std::make_unique<NearestMixing>(std::move(inner), f);
}

}  // namespace gossamer::optim
