// Moniqua's residues: what each sender rounded is kept, so that what receivers make of its few bits can be
// compared with it.
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <tuple>

#include "checkers.h"
#include "data_plane.h"
#include "link.h"
#include "modulo.h"
#include "parcel.h"

namespace gossamer::node {
namespace {

constexpr double kTolerance = 1e-5;  ///< of fp32, relative

class Residues final : public Checker {
 public:
  Residues(const Invariants& invariants, const Prepared& prepared, Findings& findings)
      : invariants_(invariants),
        findings_(findings),
        bound_(kModuloBound.of(prepared.job.exchange)),
        bits_(static_cast<int>(kModuloBits.of(prepared.job.exchange))),
        constant_(optim::is_constant_rate(prepared.job.optimizer.schedule)),
        sums_(invariants.peers, std::vector<float>(prepared.initial.size(), 0.0f)),
        weighed_(invariants.peers, std::vector<double>(invariants.parcels, 0)) {}

  void on_message(PeerId peer, PeerId from, const Message& m) override {
    came_[{peer, m.payload.get()}] = {from, m.round, m.parcel, m.payload};
  }

  void on_op(PeerId peer, const Op& op, const DataView& after) override {
    if (const auto* combine = std::get_if<op::Combine>(&op)) run(peer, *combine, after);
    if (const auto* extended = std::get_if<op::Extended>(&op))
      visit_command<op::ModuloEncode, op::ModuloDecodeAdd>(extended->command,
                                                           [&](const auto& o) { run(peer, o, after); });
  }

  void on_mixed(PeerId peer, Round round, ParcelId parcel) override {
    const double neighbours = 1 - static_cast<double>(invariants_.schedule.at(round).self_weight(peer));
    const double weighed = std::exchange(weighed_[peer][parcel], 0);
    if (std::abs(weighed - neighbours) > kTolerance)
      findings_.report("residues",
                       fmt::format("peer {} weighs its neighbours {} together in round {} of parcel {}; "
                                   "expected {}",
                                   peer, weighed, round, parcel, neighbours));
  }

 private:
  struct Origin {
    PeerId from;
    Round round;
    ParcelId parcel;
    Payload alive{};  ///< so that the address stays its own
  };
  struct Told {
    std::uint64_t doublings;
    std::vector<float> rounded;
  };

  /// The sum begins anew.
  void run(PeerId peer, const op::Combine& o, const DataView& after) {
    if (o.keep != 0 || !o.terms.empty()) return;
    const auto sum = after.slot(o.dst).subspan(o.range.begin, o.range.size);
    std::copy(sum.begin(), sum.end(), sums_[peer].begin() + static_cast<std::ptrdiff_t>(o.range.begin));
  }

  void run(PeerId peer, const op::ModuloEncode& o, const DataView& after) {
    const auto rounded = after.slot(o.rounded).subspan(o.range.begin, o.range.size);
    const auto x = after.slot(o.src).subspan(o.range.begin, o.range.size);
    const double half_step = std::ldexp(bound_, static_cast<int>(o.doublings) - bits_) / 2;
    for (std::size_t k = 0; k < x.size(); ++k)
      if (std::abs(static_cast<double>(rounded[k]) - static_cast<double>(x[k])) >
          half_step * (1 + kTolerance) + kTolerance * std::abs(static_cast<double>(x[k])))
        return findings_.report("residues",
                                fmt::format("peer {} rounds {} to {} in round {}; half a step of the "
                                            "grid is {}",
                                            peer, x[k], rounded[k], o.round, half_step));
    told_[{peer, o.round, o.parcel}] = {o.doublings, {rounded.begin(), rounded.end()}};
  }

  void run(PeerId peer, const op::ModuloDecodeAdd& o, const DataView& after) {
    weighed_[peer][o.parcel] += static_cast<double>(o.weight);
    const auto origin = came_.find({peer, o.payload.get()});
    const auto told = origin == came_.end()
                          ? told_.end()
                          : told_.find({origin->second.from, origin->second.round, origin->second.parcel});
    if (told == told_.end() || origin->second.round != o.round || origin->second.parcel != o.parcel)
      return findings_.report("residues", fmt::format("peer {} reads residues in round {} of parcel {} that "
                                                      "nobody sent it for these",
                                                      peer, o.round, o.parcel));
    const PeerId from = origin->second.from;
    came_.erase(origin);
    if (told->second.doublings != o.doublings)
      return findings_.report("residues",
                              fmt::format("peer {} reads round {} of peer {} after {} doublings of "
                                          "the bound, and that one sent after {}",
                                          peer, o.round, from, o.doublings, told->second.doublings));
    check_read(peer, o, from, told->second.rounded, after);
  }

  void check_read(PeerId peer, const op::ModuloDecodeAdd& o, PeerId from, const std::vector<float>& theirs,
                  const DataView& after) {
    const auto slot = [&](Slot s) { return after.slot(s).subspan(o.range.begin, o.range.size); };
    const auto near = slot(o.near), own = slot(o.rounded), sum = slot(o.sum);
    float* before = sums_[peer].data() + o.range.begin;
    double apart = 0;
    bool left_out = true, right = true;
    std::size_t wrong = 0;
    for (std::size_t k = 0; k < theirs.size(); ++k) {
      const auto x = static_cast<double>(theirs[k]);
      apart = std::max(apart, std::abs(x - static_cast<double>(near[k])));
      const float expected = before[k] + o.weight * (theirs[k] - own[k]);
      const double size =
          std::abs(x) + std::abs(static_cast<double>(own[k])) + std::abs(static_cast<double>(before[k]));
      if (std::abs(static_cast<double>(sum[k]) - static_cast<double>(expected)) > kTolerance * size) {
        right = false;
        wrong = k;
      }
      left_out = left_out && sum[k] == before[k];
    }
    if (!right && !left_out)
      return findings_.report(
          "residues", fmt::format("peer {} reads entry {} of parcel {} of peer {} in round {} so that its "
                                  "sum goes from {} to {}; that one holds {}",
                                  peer, o.range.begin + wrong, o.parcel, from, o.round, before[wrong],
                                  sum[wrong], theirs[wrong]));
    // The bound follows a rate that falls.
    const double scale = constant_ ? 1 : std::pow(255.0 / 256, static_cast<double>(o.round + 1));
    const double bound = std::ldexp(bound_ * scale, static_cast<int>(o.doublings));
    if (!right && apart < bound / 2 * (1 - kTolerance))
      return findings_.report(
          "residues",
          fmt::format("peer {} leaves out what peer {} sent of parcel {} in round {}: they are {} "
                      "apart, and the bound is {}",
                      peer, from, o.parcel, o.round, apart, bound));
    std::copy(sum.begin(), sum.end(), before);
  }

  Invariants invariants_;
  Findings& findings_;
  double bound_;
  int bits_;
  bool constant_;                         ///< the learning rate
  std::vector<std::vector<float>> sums_;  ///< by peer: what its sum over neighbours held after the last op
  std::vector<std::vector<double>> weighed_;  ///< [peer][parcel]: weights of what it read since it last mixed
  std::map<std::tuple<PeerId, Round, ParcelId>, Told> told_;
  std::map<std::pair<PeerId, const void*>, Origin> came_;
};

}  // namespace

std::unique_ptr<Checker> check_residues(const Invariants& invariants, const Prepared& prepared,
                                        Findings& findings) {
  return std::make_unique<Residues>(invariants, prepared, findings);
}

}  // namespace gossamer::node
