#pragma once
// SumNumbers tell where a peer of push_sum keeps its sums; for the method, and for whoever counts the mass.
#include <cstdint>
#include <vector>

#include "exchange.h"
#include "mass.h"

namespace gossamer::node {

/// Numbers of the sums: 0 what is held, then one for each peer sent to in any round, then one for each heard
/// from, both ascending; then the same of peers that only former graphs link (Plan::former).
class SumNumbers {
 public:
  explicit SumNumbers(const Plan& plan) : SumNumbers(plan, plan.self) {}
  SumNumbers(const Plan& plan, PeerId self);
  std::size_t count() const { return 1 + sums_.size(); }
  const std::vector<MassSum>& sums() const { return sums_; }  ///< from number 1 on
  const MassSum& operator[](std::uint32_t number) const { return sums_[number - 1]; }
  std::uint32_t sent(PeerId to) const { return number({to, true}); }        ///< σ: all ever sent there
  std::uint32_t taken(PeerId from) const { return number({from, false}); }  ///< ρ: all ever taken from there

 private:
  std::uint32_t number(const MassSum& sum) const;
  std::vector<MassSum> sums_;
};

}  // namespace gossamer::node
