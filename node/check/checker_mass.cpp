// Push-sum's mass, counted in units of its last bit: by peer what it holds, what it has sent over each edge
// in all and what it has taken from each, read from the replica after every op.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <map>
#include <tuple>

#include "checkers.h"
#include "data_plane.h"
#include "frame.h"
#include "hash.h"
#include "mass.h"
#include "parcel.h"
#include "sum_numbers.h"
#include "total_mass.h"

namespace gossamer::node {
namespace {

using Units = std::vector<std::uint64_t>;  ///< an entry for each parameter, then one for each parcel's weight

std::uint64_t units_of(float value) {
  return static_cast<std::uint64_t>(std::llrint(static_cast<double>(value) * kMassOne));
}
std::int64_t as_signed(std::uint64_t units) { return static_cast<std::int64_t>(units); }

class MassChecker final : public Checker {
 public:
  MassChecker(const Invariants& invariants, const Prepared& prepared, Findings& findings)
      : findings_(findings), entries_(prepared.initial.size()), parcels_(prepared.plan->parcels) {
    for (PeerId p = 0; p < invariants.peers; ++p) {
      numbers_.emplace_back(invariants.schedule, p);
      sums_.emplace_back(numbers_[p].count(), Units(entries_ + parcels_.size(), 0));
      Units& held = sums_[p][0];
      for (std::size_t k = 0; k < held.size(); ++k)
        held[k] = k < entries_ ? units_of(prepared.initial[k]) : static_cast<std::uint64_t>(kMassOne);
    }
  }

  void on_op(PeerId peer, const Op& op, const DataView& after) override {
    if (const auto* extended = std::get_if<op::Extended>(&op))
      visit_command<op::Push, op::Absorb, op::Ratio>(extended->command,
                                                     [&](const auto& o) { run(peer, o, after); });
  }

 private:
  /// What is over an edge for one parcel: hashes of the sender's sum after each push, and how many of these
  /// are older than what the receiver has taken or stand for it.
  struct Edge {
    std::vector<std::uint64_t> sent{};
    std::size_t taken = 0;
  };

  void run(PeerId peer, const op::Push& o, const DataView& after) {
    const auto u = after.slot(kGradient);
    check_kept(peer, o.range, o.parcel, after,
               [&](std::size_t k) { return k < entries_ ? units_of(u[k]) : std::uint64_t{0}; });
    for (const auto& [number, share] : o.shares) check_share(peer, o, number, after, u);
    remember(peer, after);
    for (const auto& [number, share] : o.shares)
      edges_[{peer, numbers_[peer].receiver(number), o.parcel}].sent.push_back(
          hash_of(values(sums_[peer][number], o.range, o.parcel)));
  }

  void run(PeerId peer, const op::Absorb& o, const DataView& after) {
    check_kept(peer, o.range, o.parcel, after, [](std::size_t) { return std::uint64_t{0}; });
    remember(peer, after);
    const PeerId from = numbers_[peer].from()[o.sum - 1 - numbers_[peer].to().size()];
    Edge& edge = edges_[{from, peer, o.parcel}];
    const std::uint64_t now = hash_of(values(sums_[peer][o.sum], o.range, o.parcel));
    std::size_t at = edge.taken;
    while (at < edge.sent.size() && edge.sent[at] != now) ++at;
    if (at == edge.sent.size())
      return findings_.report(
          "mass",
          fmt::format("what peer {} has taken from peer {} of parcel {} is nothing that had been sent "
                      "since it last took some",
                      peer, from, o.parcel));
    edge.taken = at + 1;
  }

  void run(PeerId peer, const op::Ratio& o, const DataView& after) {
    const Units& held = sums_[peer][0];
    const auto weight = static_cast<double>(as_signed(held[entries_ + o.parcel]));
    for (std::size_t k = o.range.begin; k < o.range.begin + o.range.size; ++k)
      if (after.slot(kParameters)[k] != static_cast<float>(static_cast<double>(as_signed(held[k])) / weight))
        return findings_.report(
            "mass", fmt::format("peer {} takes {} for entry {}; it holds {} of weight {}", peer,
                                after.slot(kParameters)[k], k,
                                static_cast<double>(as_signed(held[k])) / kMassOne, weight / kMassOne));
  }

  bool in(Range r, ParcelId parcel, std::size_t k) const {
    return (k >= r.begin && k < r.begin + r.size) || k == entries_ + parcel;
  }

  /// held + Σ sent − Σ taken of a peer falls by what `spent` says within the range, and nothing changes
  /// outside.
  template <class Spent>
  void check_kept(PeerId peer, Range r, ParcelId parcel, const DataView& after, Spent&& spent) {
    const std::size_t to = numbers_[peer].to().size();
    for (std::size_t k = 0; k < entries_ + parcels_.size(); ++k) {
      std::uint64_t gained = 0, moved = 0;
      for (std::uint32_t n = 0; n < numbers_[peer].count(); ++n) {
        const std::uint64_t change = mass_sum(after, n)[k] - sums_[peer][n][k];
        moved |= change;
        gained += n <= to ? change : ~change + 1;
      }
      const bool inside = in(r, parcel, k);
      if (!inside && moved != 0)
        return findings_.report(
            "mass",
            fmt::format("peer {} moves mass of entry {}, which is not of parcel {}", peer, k, parcel));
      const std::uint64_t expected = inside ? ~spent(k) + 1 : 0;
      if (gained != expected)
        return findings_.report(
            "mass", fmt::format("{} {} of parcel {}: held + sent − taken of peer {} changes by {} units; "
                                "expected {}",
                                k < entries_ ? "entry" : "the weight", k, parcel, peer, as_signed(gained),
                                as_signed(expected)));
    }
  }

  /// Of every entry the same share goes as of the weight, but for what rounding leaves.
  void check_share(PeerId peer, const op::Push& o, std::uint32_t number, const DataView& after,
                   std::span<const float> u) {
    constexpr double kLeft = 2, kRelative = 0x1p-34;
    const auto gained = [&](std::size_t k) {
      return static_cast<double>(as_signed(mass_sum(after, number)[k] - sums_[peer][number][k]));
    };
    const std::size_t w = entries_ + o.parcel;
    const double share = gained(w) / static_cast<double>(as_signed(sums_[peer][0][w]));
    if (!(share >= 0 && share < 1))
      return findings_.report("mass", fmt::format("peer {} gives peer {} {} of its weight", peer,
                                                  numbers_[peer].receiver(number), share));
    for (std::size_t k = o.range.begin; k < o.range.begin + o.range.size; ++k) {
      const auto held = static_cast<double>(as_signed(sums_[peer][0][k] - units_of(u[k])));
      if (std::abs(gained(k) - held * share) > kLeft + std::abs(held) * kRelative)
        return findings_.report("mass",
                                fmt::format("peer {} gives peer {} {} of its weight and {} of entry {}", peer,
                                            numbers_[peer].receiver(number), share, gained(k) / held, k));
    }
  }

  void remember(PeerId peer, const DataView& after) {
    for (std::uint32_t n = 0; n < numbers_[peer].count(); ++n) {
      const auto sum = mass_sum(after, n);
      sums_[peer][n].assign(sum.begin(), sum.end());
    }
  }

  Units values(const Units& sum, Range r, ParcelId parcel) const {
    const auto begin = sum.begin() + static_cast<std::ptrdiff_t>(r.begin);
    Units v(begin, begin + static_cast<std::ptrdiff_t>(r.size));
    v.push_back(sum[entries_ + parcel]);
    return v;
  }
  static std::uint64_t hash_of(const Units& v) { return hash_bytes(std::as_bytes(std::span(v))); }

  Findings& findings_;
  std::size_t entries_;
  SharedList<Parcel> parcels_;
  std::vector<SumNumbers> numbers_;       ///< by peer
  std::vector<std::vector<Units>> sums_;  ///< [peer][number], as they stood after its last op
  std::map<std::tuple<PeerId, PeerId, ParcelId>, Edge> edges_;  ///< from, to, parcel
};

}  // namespace

std::unique_ptr<Checker> check_mass(const Invariants& invariants, const Prepared& prepared,
                                    Findings& findings) {
  return std::make_unique<MassChecker>(invariants, prepared, findings);
}

}  // namespace gossamer::node
