// Rules that look at whole vectors: Krum, geometric median, clipping, nearest-neighbour mixing.
#include <algorithm>
#include <numeric>

#include "aggregators.h"

namespace gossamer::optim {
namespace {

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

/// Smoothed Weiszfeld (Pillutla, Kakade & Harchaoui 2022, "Robust aggregation for federated learning",
/// algorithm 2): z ← Σ β_i x_i / Σ β_i, β_i = w_i / max(ν, ‖z − x_i‖), from the median of each entry: from
/// the mean one vector of size 10¹⁸ would cost all the rounds.
class GeometricMedian final : public Aggregator {
 public:
  GeometricMedian(std::size_t rounds, std::size_t n) : rounds_(rounds), start_(make_median({}, n)) {}

  void aggregate(const Neighbourhood& from, std::span<float> out) override {
    start_->aggregate(from, out);
    std::vector<double> distance(from.vectors.size());
    std::vector<float> beta(from.vectors.size());
    for (std::size_t round = 0; round < rounds_; ++round) {
      for (std::size_t i = 0; i < distance.size(); ++i)
        distance[i] = std::sqrt(squared_distance(out, from.vectors[i]));
      std::vector<double> sorted = distance;
      std::sort(sorted.begin(), sorted.end());
      const double scale = sorted[sorted.size() / 2];
      if (scale == 0) return;  // most are the same
      double sum = 0;
      for (std::size_t i = 0; i < distance.size(); ++i)
        sum += static_cast<double>(from.weights[i]) / std::max(kSmooth * scale, distance[i]);
      for (std::size_t i = 0; i < distance.size(); ++i)
        beta[i] = static_cast<float>(static_cast<double>(from.weights[i]) /
                                     std::max(kSmooth * scale, distance[i]) / sum);
      weighted_sum(from.vectors, beta, out);
    }
  }

 private:
  static constexpr double kSmooth = 1e-6;
  std::size_t rounds_;
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
  return std::make_unique<GeometricMedian>(p.rounds == 0 ? 32 : p.rounds, n);
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
