#pragma once
// MassLedger holds push-sum's mass together over all views of a run whose members come and go, to the last
// unit, without the code under test. Of every incarnation
//
//   held + Σ sent − Σ taken + written off = brought − steps
//
// where it brought x·w of w = 1 when it first began, and between views nothing of that changes but for pairs
// with an incarnation that has gone, which are written off whole. What one incarnation has taken from another
// is what that one had sent it at some time, ever later ones, whatever views lie between. So Σ over all of
// what is held, is under way between those that live, and went with the dead is what all brought, less their
// steps.
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "mass_view.h"

namespace gossamer::node {

class MassLedger {
 public:
  /// gone: whether an incarnation cannot take part again.
  MassLedger(Findings& findings, std::function<bool(const Incarnation&)> gone)
      : findings_(findings), gone_(std::move(gone)) {}

  /// A peer begins a view, as the seat of that number; before anything changes.
  void begin(PeerId seat, std::vector<Incarnation> seats, const Plan& plan, const DataView& view);
  /// In the view that it began last.
  void on_op(const Incarnation& whose, const Op& op, const DataView& after);

  struct Counts {
    std::uint64_t carried = 0;      ///< pairs of living incarnations, from one view to the next
    std::uint64_t aside = 0;        ///< of these, that the next view does not link
    std::uint64_t owed = 0;         ///< pairs that one view links so that what an earlier one left arrives
    std::uint64_t written_off = 0;  ///< pairs
  };
  const Counts& counts() const { return counts_; }

 private:
  struct Pair {
    Units sent{}, taken{};
    bool operator==(const Pair&) const = default;
  };
  using Pairs = std::map<Incarnation, Pair>;
  struct Book {
    Units brought, spent;
    std::unique_ptr<MassView> view;  ///< the last
    Pairs aside{};                   ///< beside what the view has
    Units written_off{};
  };

  static Pairs pairs_of(const MassView& view, const Pairs& aside);
  void open(const Incarnation& whose, const DataView& view, const std::vector<Units>& sums, Pairs now,
            Book& book);
  void go_on(const Incarnation& whose, const std::vector<Units>& sums, const Units& written_off,
             const Pairs& now, Book& book);
  void report(const Incarnation& whose, const std::string& what);

  Findings& findings_;
  std::function<bool(const Incarnation&)> gone_;
  MassEdges edges_;
  std::map<Incarnation, Book> books_;
  Counts counts_;
};

}  // namespace gossamer::node
