// Gradient tracking: Σ over peers of the trackers is Σ of their gradients, in every round of every view.
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <utility>

#include "checkers.h"
#include "tracking.h"

namespace gossamer::node {
namespace {

/// Rounding, over some hundred rounds, of the largest sum of magnitudes that there has been.
constexpr double kRounding = 1e-4;
constexpr double kBalanced = 1e-4;

class TrackingChecker final : public Checker {
 public:
  TrackingChecker(const Invariants& invariants, const Prepared& prepared, Findings& findings)
      : findings_(findings),
        peers_(invariants.peers),
        parcels_(prepared.plan->parcels),
        mixed_(peers_, std::vector<std::uint64_t>(parcels_.size(), 0)),
        largest_(parcels_.size(), 0) {}

  /// A tracker is what it will be until the next gradient when the last of its differences has been added.
  void on_op(PeerId peer, const Op& op, const DataView& after) override {
    const auto* combine = std::get_if<op::Combine>(&op);
    if (!combine || combine->dst != kTrackerSlot || combine->terms != kTrackerMixed) return;
    ParcelId parcel = 0;
    while (parcel < parcels_.size() && parcels_[parcel].range.begin != combine->range.begin) ++parcel;
    if (parcel == parcels_.size()) return;
    const std::uint64_t round = mixed_[peer][parcel]++;
    Sums& sums = sums_[{round, parcel}];
    sums.difference.resize(combine->range.size, 0);
    for (std::size_t k = 0; k < combine->range.size; ++k) {
      const auto y = static_cast<double>(after.slot(kTrackerSlot)[combine->range.begin + k]);
      const auto g = static_cast<double>(after.slot(kTrackedSlot)[combine->range.begin + k]);
      sums.difference[k] += y - g;
      sums.magnitude = std::max(sums.magnitude, std::abs(y) + std::abs(g));
    }
    if (++sums.peers < peers_) return;
    check(round, parcel, sums);
    sums_.erase({round, parcel});
  }

 private:
  struct Sums {
    std::vector<double> difference{};  ///< Σ y − g
    double magnitude = 0;              ///< of one peer's y and g
    std::size_t peers = 0;
  };

  void check(std::uint64_t round, ParcelId parcel, const Sums& sums) {
    largest_[parcel] = std::max(largest_[parcel], sums.magnitude);
    const double most = kRounding * largest_[parcel] * static_cast<double>(peers_);
    for (std::size_t k = 0; k < sums.difference.size(); ++k)
      if (!(std::abs(sums.difference[k]) <= most))
        return findings_.report(
            "tracking",
            fmt::format("after round {} the trackers of entry {} of parcel {} sum to {} more than the "
                        "gradients; expected {} at most either way",
                        round, k, parcel, sums.difference[k], most));
  }

  Findings& findings_;
  std::size_t peers_;
  SharedList<Parcel> parcels_;
  std::vector<std::vector<std::uint64_t>> mixed_;  ///< rounds, by peer and parcel
  std::vector<double> largest_;                    ///< magnitude, by parcel
  std::map<std::pair<std::uint64_t, ParcelId>, Sums> sums_;
};

/// What peers give of a tracker is what is taken of it.
bool balanced(const Plan& plan) {
  for (std::size_t t = 0; t < plan.schedule.period(); ++t) {
    std::vector<double> columns;
    for (PeerId p = 0; p < plan.schedule.peers(); ++p)
      columns.push_back(static_cast<double>(plan.schedule.at(t).self_weight(p)));
    for (PeerId p = 0; p < plan.schedule.peers(); ++p)
      for (const auto& e : plan.schedule.at(t).in(p)) columns[e.peer] += static_cast<double>(e.weight);
    for (const double sum : columns)
      if (std::abs(sum - 1) > kBalanced) return false;
  }
  return true;
}

}  // namespace

std::unique_ptr<Checker> check_tracking(const Invariants& invariants, const Prepared& prepared,
                                        Findings& findings) {
  if (!prepared.job.sim.attackers.empty() || !balanced(*prepared.plan)) return nullptr;
  return std::make_unique<TrackingChecker>(invariants, prepared, findings);
}

}  // namespace gossamer::node
