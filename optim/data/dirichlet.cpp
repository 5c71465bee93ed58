// Label skew (Hsu, Qi, Brown: Measuring the Effects of Non-Identical Data Distribution for Federated Visual
// Classification, 2019): for each class, the peers' shares of its rows are drawn from a Dirichlet
// distribution with parameters alpha·P·w_p, where w_p is peer p's part of the batches; with equal batches
// that is alpha for every peer. Draws that leave a peer with too few rows are repeated. With many peers and a
// small alpha no draw may ever do, so after some attempts the poorest peers get rows of the richest ones.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>
#include <utility>

#include "random.h"
#include "splits.h"

namespace gossamer::optim {
namespace {

constexpr std::size_t kLeastRows = 10;
constexpr std::uint64_t kAttempts = 32;

using Rows = Shards;

/// ln of a gamma variate of the given shape by Marsaglia and Tsang (A Simple Method for Generating Gamma
/// Variables, ACM TOMS 2000). Shapes below 1 are drawn as Gamma(shape + 1)·U^(1/shape) (their section 6); the
/// logarithm is returned because for small shapes that power underflows.
double log_gamma_variate(double shape, std::uint64_t key) {
  const double d = (shape < 1 ? shape + 1 : shape) - 1.0 / 3.0, c = 1 / (3 * std::sqrt(d));
  const double boost = shape < 1 ? portable_log(uniform(key, 0)) / shape : 0.0;
  for (std::uint64_t i = 1;; i += 2) {
    const double x = normal(key, i), t = 1 + c * x;
    if (t <= 0) continue;
    const double v = t * t * t;
    if (portable_log(uniform(key, i + 1)) < 0.5 * x * x + d - d * v + d * portable_log(v))
      return portable_log(d * v) + boost;
  }
}

/// One draw of the peers' shares of a class; they sum to 1.
std::vector<double> draw_shares(const SplitInput& in, std::uint64_t key) {
  return dirichlet_shares(in.alpha, in.batches, key);
}

/// The rows of each class, in an order drawn from the seed.
Rows rows_by_class(const SplitInput& in) {
  Rows rows(in.data->classes());
  for (std::size_t r = 0; r < in.data->rows(); ++r)
    rows[static_cast<std::size_t>(in.data->label(r))].push_back(static_cast<std::uint32_t>(r));
  for (std::size_t c = 0; c < rows.size(); ++c) shuffle(rows[c], make_key(in.seed, Use::classes, c));
  return rows;
}

Rows deal(const SplitInput& in, const Rows& by_class, std::uint64_t attempt) {
  Rows shards(in.batches.size());
  for (std::size_t c = 0; c < by_class.size(); ++c) {
    const std::vector<double> share = draw_shares(in, make_key(in.seed, Use::proportions, attempt, c));
    const std::vector<std::uint32_t>& rows = by_class[c];
    const auto size = static_cast<double>(rows.size());
    double before = 0;
    std::size_t first = 0;
    for (std::size_t p = 0; p < shards.size(); ++p) {
      before += share[p];
      const bool last = p + 1 == shards.size();
      const std::size_t end =
          last ? rows.size() : std::min(rows.size(), static_cast<std::size_t>(before * size + 0.5));
      shards[p].insert(shards[p].end(), rows.begin() + static_cast<std::ptrdiff_t>(first),
                       rows.begin() + static_cast<std::ptrdiff_t>(end));
      first = end;
    }
  }
  return shards;
}

/// Rows that peer p must have: a batch or kLeastRows, whichever is less, as far as there are enough rows.
std::size_t least_rows(const SplitInput& in, std::size_t p) {
  return std::min({kLeastRows, in.batches[p], in.data->rows() / in.batches.size()});
}

bool enough_everywhere(const SplitInput& in, const Rows& shards) {
  for (std::size_t p = 0; p < shards.size(); ++p)
    if (shards[p].size() < least_rows(in, p)) return false;
  return true;
}

void take_from_the_rich(const SplitInput& in, Rows& shards) {
  for (std::size_t p = 0; p < shards.size(); ++p)
    while (shards[p].size() < least_rows(in, p)) {
      const auto richest = std::max_element(shards.begin(), shards.end(),
                                            [](const auto& a, const auto& b) { return a.size() < b.size(); });
      assert(richest->size() > shards[p].size());
      shards[p].push_back(richest->back());
      richest->pop_back();
    }
}

Shards skewed_shards(const SplitInput& in) {
  const Rows by_class = rows_by_class(in);
  Shards shards = deal(in, by_class, 0);
  for (std::uint64_t attempt = 1; attempt < kAttempts && !enough_everywhere(in, shards); ++attempt)
    shards = deal(in, by_class, attempt);
  take_from_the_rich(in, shards);
  return shards;
}

}  // namespace

std::vector<double> dirichlet_shares(double alpha, std::span<const std::size_t> batches, std::uint64_t key) {
  const auto peers = static_cast<double>(batches.size());
  const auto total = static_cast<double>(std::accumulate(batches.begin(), batches.end(), std::size_t{0}));
  std::vector<double> share(batches.size());
  for (std::size_t p = 0; p < share.size(); ++p)
    share[p] = log_gamma_variate(alpha * peers * static_cast<double>(batches[p]) / total, bits(key, p));
  const double largest = *std::max_element(share.begin(), share.end());
  for (double& s : share) s = portable_exp(s - largest);
  const double sum = std::accumulate(share.begin(), share.end(), 0.0);
  for (double& s : share) s /= sum;
  return share;
}

std::unique_ptr<Deal> make_dirichlet(SplitInput in) {
  if (in.data->classes() == 0)
    throw OptimError("data split dirichlet: found data without labels, expected labels; use local_shuffle");
  Shards shards = in.among ? among_peers(in, skewed_shards(in.at_home()), false) : skewed_shards(in);
  std::vector<std::size_t> lengths;  // every row before any again, however many epochs that takes
  for (const auto& shard : shards) lengths.push_back(shard.size());
  return make_shards(std::move(in), std::move(shards), std::move(lengths));
}

}  // namespace gossamer::optim
