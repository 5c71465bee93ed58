// Rules that look at each entry by itself: weighted sum, vote, median, trimmed mean.
#include <algorithm>

#include "aggregators.h"

namespace gossamer::optim {
namespace {

class Weighted final : public Aggregator {
 public:
  void aggregate(const Neighbourhood& from, std::span<float> out) override {
    weighted_sum(from.vectors, from.weights, out);
  }
};

class Vote final : public Aggregator {
 public:
  void aggregate(const Neighbourhood& from, std::span<float> out) override {
    std::fill(out.begin(), out.end(), 0.0f);
    for (std::size_t v = 0; v < from.vectors.size(); ++v) {
      const float weight = from.weights[v];
      for (std::size_t i = 0; i < out.size(); ++i) out[i] += from.vectors[v][i] >= 0 ? weight : -weight;
    }
    for (float& x : out) x = x >= 0 ? 1.0f : -1.0f;
  }
};

constexpr std::size_t kColumns = 64;  ///< entries that are sorted side by side

/// Sorts kColumns columns of n at once by Batcher's odd-even merge network (1968), which needs no branches.
class ColumnSorter {
 public:
  explicit ColumnSorter(std::size_t n) : rows_(n * kColumns) {
    for (std::size_t p = 1; p < n; p *= 2)
      for (std::size_t k = p; k >= 1; k /= 2)
        for (std::size_t j = k % p; j + k < n; j += 2 * k)
          for (std::size_t i = 0; i < std::min(k, n - j - k); ++i)
            if ((i + j) / (2 * p) == (i + j + k) / (2 * p)) pairs_.push_back({i + j, i + j + k});
  }
  /// Row r of the result holds the r-th smallest of each of the entries [at, at + count).
  const float* sorted(std::span<const std::span<const float>> vectors, std::size_t at, std::size_t count) {
    for (std::size_t v = 0; v < vectors.size(); ++v) std::copy_n(vectors[v].data() + at, count, row(v));
    for (const auto& [low, high] : pairs_) {
      float *a = row(low), *b = row(high);
      for (std::size_t i = 0; i < kColumns; ++i) {
        const float small = std::min(a[i], b[i]), large = std::max(a[i], b[i]);
        a[i] = small;
        b[i] = large;
      }
    }
    return rows_.data();
  }

 private:
  float* row(std::size_t v) { return rows_.data() + v * kColumns; }
  std::vector<float> rows_;
  std::vector<std::pair<std::size_t, std::size_t>> pairs_;
};

/// Mean of the sorted entries without the `cut` smallest and largest.
class TrimmedMean final : public Aggregator {
 public:
  TrimmedMean(std::size_t n, std::size_t cut, bool median) : n_(n), cut_(cut), median_(median), sorter_(n) {}

  void aggregate(const Neighbourhood& from, std::span<float> out) override {
    const std::size_t n = from.vectors.size();
    if (n != n_) {
      sorter_ = ColumnSorter(n);
      n_ = n;
    }
    const std::size_t cut = median_ ? (n - 1) / 2 : std::min(cut_, (n - 1) / 2);
    const auto kept = static_cast<float>(n - 2 * cut);
    for (std::size_t at = 0; at < out.size(); at += kColumns) {
      const std::size_t count = std::min(kColumns, out.size() - at);
      const float* sorted = sorter_.sorted(from.vectors, at, count);
      for (std::size_t i = 0; i < count; ++i) {
        float sum = 0;
        for (std::size_t r = cut; r < n - cut; ++r) sum += sorted[r * kColumns + i];
        out[at + i] = sum / kept;
      }
    }
  }

 private:
  std::size_t n_, cut_;
  bool median_;
  ColumnSorter sorter_;
};

}  // namespace

std::unique_ptr<Aggregator> make_weighted(const AggregatorParameters&, std::size_t) {
  return std::make_unique<Weighted>();
}
std::unique_ptr<Aggregator> make_vote(const AggregatorParameters&, std::size_t) {
  return std::make_unique<Vote>();
}
std::unique_ptr<Aggregator> make_median(const AggregatorParameters&, std::size_t n) {
  return std::make_unique<TrimmedMean>(n, 0, true);
}
std::unique_ptr<Aggregator> make_trimmed_mean(const AggregatorParameters& p, std::size_t n) {
  return std::make_unique<TrimmedMean>(n, p.f, false);
}

}  // namespace gossamer::optim
