// Push-sum's mass in a run whose peers all begin at x⁰ and stay.
#include "mass_view.h"

namespace gossamer::node {
namespace {

class MassChecker final : public Checker {
 public:
  MassChecker(const Invariants& invariants, const Prepared& prepared, Findings& findings) {
    std::vector<Incarnation> seats;
    for (PeerId p = 0; p < invariants.peers; ++p) seats.push_back({"", p});
    for (PeerId p = 0; p < invariants.peers; ++p) {
      const std::size_t parcels = prepared.plan->parcels.size();
      std::vector<Units> sums(SumNumbers(*prepared.plan, p).count(),
                              Units(prepared.initial.size() + parcels, 0));
      sums[0] = units_of(prepared.initial, parcels);
      peers_.emplace_back(p, seats, *prepared.plan, std::move(sums), edges_, findings);
    }
  }

  void on_op(PeerId peer, const Op& op, const DataView& after) override { peers_[peer].on_op(op, after); }

 private:
  MassEdges edges_;
  std::vector<MassView> peers_;
};

}  // namespace

std::unique_ptr<Checker> check_mass(const Invariants& invariants, const Prepared& prepared,
                                    Findings& findings) {
  return std::make_unique<MassChecker>(invariants, prepared, findings);
}

}  // namespace gossamer::node
