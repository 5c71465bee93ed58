#include "gossamer/topology/schedule.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace gossamer::topology {
namespace {

constexpr double kRowTolerance = 1e-6;
constexpr double kSymmetryTolerance = 1e-6;
constexpr double kColumnTolerance = 1e-5;

void check_entry(const Edge& e, std::size_t row, std::size_t peers) {
  const std::string entry =
      "the weight of peer " + std::to_string(e.peer) + "'s vector at peer " + std::to_string(row);
  if (e.peer >= peers) throw GraphError(entry + ": there are " + std::to_string(peers) + " peers only");
  if (e.peer == row) throw GraphError(entry + " is on the diagonal; leave it out, it is 1 minus the others");
  if (!std::isfinite(e.weight) || e.weight < 0)
    throw GraphError(entry + " is " + std::to_string(e.weight) + "; expected a finite number of at least 0");
}

/// Sorts a row and drops its zeros; returns W_ii.
float settle_row(std::vector<Edge>& row, std::size_t i, std::size_t peers) {
  for (const Edge& e : row) check_entry(e, i, peers);
  std::sort(row.begin(), row.end(), [](const Edge& a, const Edge& b) { return a.peer < b.peer; });
  const auto twin = std::adjacent_find(row.begin(), row.end(),
                                       [](const Edge& a, const Edge& b) { return a.peer == b.peer; });
  if (twin != row.end())
    throw GraphError("peer " + std::to_string(i) + " takes peer " + std::to_string(twin->peer) +
                     "'s vector twice; expected one weight for each pair of peers");
  std::erase_if(row, [](const Edge& e) { return e.weight == 0; });
  double sum = 0;
  for (const Edge& e : row) sum += static_cast<double>(e.weight);
  if (sum > 1 + kRowTolerance)
    throw GraphError("the weights of what peer " + std::to_string(i) + " receives sum to " +
                     std::to_string(sum) + "; expected at most 1: what is missing to 1 is its own weight");
  return static_cast<float>(std::max(0.0, 1 - sum));
}

}  // namespace

MixingMatrix::MixingMatrix(std::vector<std::vector<Edge>> rows)
    : rows_(std::move(rows)), out_(rows_.size()), self_(rows_.size()) {
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    self_[i] = settle_row(rows_[i], i, rows_.size());
    for (const Edge& e : rows_[i]) out_[e.peer].push_back(static_cast<PeerId>(i));
  }
}

bool MixingMatrix::symmetric() const {
  const auto weight = [&](PeerId i, PeerId j) {  // W_ij
    const auto at = std::lower_bound(rows_[i].begin(), rows_[i].end(), j,
                                     [](const Edge& e, PeerId peer) { return e.peer < peer; });
    return at != rows_[i].end() && at->peer == j ? at->weight : 0.0F;
  };
  for (PeerId i = 0; i < peers(); ++i)
    for (const Edge& e : rows_[i])
      if (std::abs(static_cast<double>(e.weight) - static_cast<double>(weight(e.peer, i))) >
          kSymmetryTolerance)
        return false;
  return true;
}

bool MixingMatrix::doubly_stochastic() const {
  std::vector<double> sums(self_.begin(), self_.end());
  for (const std::vector<Edge>& row : rows_)
    for (const Edge& e : row) sums[e.peer] += static_cast<double>(e.weight);
  return std::all_of(sums.begin(), sums.end(), [](double s) { return std::abs(s - 1) <= kColumnTolerance; });
}

std::vector<double> MixingMatrix::dense() const {
  std::vector<double> w(peers() * peers());
  for (std::size_t i = 0; i < peers(); ++i) {
    w[i * peers() + i] = static_cast<double>(self_[i]);
    for (const Edge& e : rows_[i]) w[i * peers() + e.peer] = static_cast<double>(e.weight);
  }
  return w;
}

Schedule::Schedule(std::vector<MixingMatrix> cycle)
    : cycle_(std::make_shared<const std::vector<MixingMatrix>>(std::move(cycle))) {
  if (cycle_->empty() || cycle_->front().peers() == 0)
    throw GraphError(
        "a schedule without rounds or peers; expected at least one mixing matrix of at least one peer");
  for (const MixingMatrix& w : *cycle_)
    if (w.peers() != peers())
      throw GraphError("mixing matrices of " + std::to_string(peers()) + " and of " +
                       std::to_string(w.peers()) +
                       " peers in one schedule; expected the same peers in every round");
}

std::vector<PeerId> Schedule::links(PeerId i) const {
  assert(i < peers());
  std::vector<PeerId> linked;
  for (const MixingMatrix& w : *cycle_) {
    linked.insert(linked.end(), w.out(i).begin(), w.out(i).end());
    for (const Edge& e : w.in(i)) linked.push_back(e.peer);
  }
  std::sort(linked.begin(), linked.end());
  linked.erase(std::unique(linked.begin(), linked.end()), linked.end());
  return linked;
}

}  // namespace gossamer::topology
