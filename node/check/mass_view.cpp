#include "mass_view.h"

#include <fmt/format.h>

#include <cmath>

#include "data_plane.h"
#include "hash.h"
#include "total_mass.h"

namespace gossamer::node {
namespace {

std::int64_t as_signed(std::uint64_t units) { return static_cast<std::int64_t>(units); }

}  // namespace

std::uint64_t units_of(float value) {
  return static_cast<std::uint64_t>(std::llrint(static_cast<double>(value) * kMassOne));
}

Units units_of(std::span<const float> parameters, std::size_t parcels) {
  Units held;
  for (const float x : parameters) held.push_back(units_of(x));
  held.insert(held.end(), parcels, static_cast<std::uint64_t>(kMassOne));
  return held;
}

std::vector<Units> sums_in(const DataView& view, const SumNumbers& numbers) {
  std::vector<Units> sums;
  for (std::uint32_t n = 0; n < numbers.count(); ++n) {
    const auto sum = mass_sum(view, n);
    sums.emplace_back(sum.begin(), sum.end());
  }
  return sums;
}

bool MassEdges::take(const Incarnation& from, const Incarnation& to, ParcelId parcel, std::uint64_t hash) {
  Edge& edge = edges_[{from, to, parcel}];
  std::size_t at = edge.taken;
  while (at < edge.sent.size() && edge.sent[at] != hash) ++at;
  if (at == edge.sent.size()) return false;
  edge.taken = at + 1;
  return true;
}

MassView::MassView(PeerId self, std::vector<Incarnation> seats, const Plan& plan, std::vector<Units> sums,
                   MassEdges& edges, Findings& findings)
    : self_(self),
      seats_(std::move(seats)),
      parcels_(plan.parcels),
      numbers_(plan, self),
      sums_(std::move(sums)),
      entries_(sums_[0].size() - parcels_.size()),
      spent_(sums_[0].size(), 0),
      edges_(edges),
      findings_(findings) {}

void MassView::on_op(const Op& op, const DataView& after) {
  if (const auto* extended = std::get_if<op::Extended>(&op))
    visit_command<op::Push, op::Absorb, op::Ratio>(extended->command, [&](const auto& o) { run(o, after); });
}

void MassView::run(const op::Push& o, const DataView& after) {
  const auto u = after.slot(kGradient);
  const auto step = [&](std::size_t k) { return k < entries_ ? units_of(u[k]) : std::uint64_t{0}; };
  check_kept(o.range, o.parcel, after, step);
  for (std::size_t k = o.range.begin; k < o.range.begin + o.range.size; ++k) spent_[k] += step(k);
  for (const auto& [number, share] : o.shares) check_share(o, number, after, u);
  sums_ = sums_in(after, numbers_);
  for (const auto& [number, share] : o.shares)
    edges_.push(seats_[self_], seats_[numbers_[number].peer], o.parcel,
                hash_of(sums_[number], o.range, o.parcel));
}

void MassView::run(const op::Absorb& o, const DataView& after) {
  check_kept(o.range, o.parcel, after, [](std::size_t) { return std::uint64_t{0}; });
  sums_ = sums_in(after, numbers_);
  const PeerId from = numbers_[o.sum].peer;
  if (!edges_.take(seats_[from], seats_[self_], o.parcel, hash_of(sums_[o.sum], o.range, o.parcel)))
    findings_.report("mass",
                     fmt::format("what peer {} has taken from peer {} of parcel {} is nothing that had "
                                 "been sent since it last took some",
                                 self_, from, o.parcel));
}

void MassView::run(const op::Ratio& o, const DataView& after) {
  const Units& held = sums_[0];
  const auto weight = static_cast<double>(as_signed(held[entries_ + o.parcel]));
  for (std::size_t k = o.range.begin; k < o.range.begin + o.range.size; ++k)
    if (after.slot(kParameters)[k] != static_cast<float>(static_cast<double>(as_signed(held[k])) / weight))
      return findings_.report(
          "mass", fmt::format("peer {} takes {} for entry {}; it holds {} of weight {}", self_,
                              after.slot(kParameters)[k], k,
                              static_cast<double>(as_signed(held[k])) / kMassOne, weight / kMassOne));
}

/// held + Σ sent − Σ taken of a peer falls by what `spent` says within the range, and nothing changes
/// outside.
template <class Spent>
void MassView::check_kept(Range r, ParcelId parcel, const DataView& after, Spent&& spent) {
  for (std::size_t k = 0; k < entries_ + parcels_.size(); ++k) {
    std::uint64_t gained = 0, moved = 0;
    for (std::uint32_t n = 0; n < numbers_.count(); ++n) {
      const std::uint64_t change = mass_sum(after, n)[k] - sums_[n][k];
      moved |= change;
      gained += n == 0 || numbers_[n].sent ? change : ~change + 1;
    }
    const bool inside = in(r, parcel, k);
    if (!inside && moved != 0)
      return findings_.report(
          "mass", fmt::format("peer {} moves mass of entry {}, which is not of parcel {}", self_, k, parcel));
    const std::uint64_t expected = inside ? ~spent(k) + 1 : 0;
    if (gained != expected)
      return findings_.report(
          "mass", fmt::format("{} {} of parcel {}: held + sent − taken of peer {} changes by {} units; "
                              "expected {}",
                              k < entries_ ? "entry" : "the weight", k, parcel, self_, as_signed(gained),
                              as_signed(expected)));
  }
}

/// Of every entry the same share goes as of the weight, but for what rounding leaves: of the entry, and of
/// the weight by which the share is told, so much more as the entry is larger.
void MassView::check_share(const op::Push& o, std::uint32_t number, const DataView& after,
                           std::span<const float> u) {
  constexpr double kLeft = 2, kOfWeight = 1, kRelative = 0x1p-34;
  const auto gained = [&](std::size_t k) {
    return static_cast<double>(as_signed(mass_sum(after, number)[k] - sums_[number][k]));
  };
  const PeerId to = numbers_[number].peer;
  const std::size_t w = entries_ + o.parcel;
  const auto weight = static_cast<double>(as_signed(sums_[0][w]));
  const double share = gained(w) / weight;
  if (!(share >= 0 && share < 1))
    return findings_.report("mass", fmt::format("peer {} gives peer {} {} of its weight", self_, to, share));
  for (std::size_t k = o.range.begin; k < o.range.begin + o.range.size; ++k) {
    const auto held = static_cast<double>(as_signed(sums_[0][k] - units_of(u[k])));
    if (std::abs(gained(k) - held * share) > kLeft + std::abs(held) * (kOfWeight / weight + kRelative))
      return findings_.report("mass", fmt::format("peer {} gives peer {} {} of its weight and {} of entry {}",
                                                  self_, to, share, gained(k) / held, k));
  }
}

std::uint64_t MassView::hash_of(const Units& sum, Range r, ParcelId parcel) const {
  const auto begin = sum.begin() + static_cast<std::ptrdiff_t>(r.begin);
  Units v(begin, begin + static_cast<std::ptrdiff_t>(r.size));
  v.push_back(sum[entries_ + parcel]);
  return hash_bytes(std::as_bytes(std::span(v)));
}

}  // namespace gossamer::node
