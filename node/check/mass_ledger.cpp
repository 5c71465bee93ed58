#include "mass_ledger.h"

#include <fmt/format.h>

#include <algorithm>

#include "total_mass.h"

namespace gossamer::node {
namespace {

bool nothing(const Units& sum) {
  return std::all_of(sum.begin(), sum.end(), [](std::uint64_t units) { return units == 0; });
}

/// to += factor · sum; either may be empty.
void add(Units& to, const Units& sum, std::uint64_t factor) {
  to.resize(std::max(to.size(), sum.size()), 0);
  for (std::size_t k = 0; k < sum.size(); ++k) to[k] += factor * sum[k];
}

constexpr std::uint64_t kLess = ~std::uint64_t{0};

std::string name_of(const Incarnation& one) { return fmt::format("{} of start {}", one.name, one.start); }

}  // namespace

void MassLedger::report(const Incarnation& whose, const std::string& what) {
  findings_.report("ledger", fmt::format("{}: {}", name_of(whose), what));
}

/// By incarnation; those of which there is nothing are left out.
MassLedger::Pairs MassLedger::pairs_of(const MassView& view, const Pairs& aside) {
  Pairs all = aside;
  for (std::uint32_t n = 1; n < view.numbers().count(); ++n) {
    if (nothing(view.sums()[n])) continue;
    Pair& pair = all[view.seats()[view.numbers()[n].peer]];
    (view.numbers()[n].sent ? pair.sent : pair.taken) = view.sums()[n];
  }
  return all;
}

void MassLedger::begin(PeerId seat, std::vector<Incarnation> seats, const Plan& plan, const DataView& view) {
  const auto& mass = dynamic_cast<const Mass&>(*view.extension());
  const Incarnation whose = seats[seat];
  const SumNumbers numbers(plan, seat);
  std::vector<Units> sums = sums_in(view, numbers);
  auto next = std::make_unique<MassView>(seat, std::move(seats), plan, sums, edges_, findings_);
  Pairs aside;
  for (const auto& [other, pair] : mass.aside()) aside[other] = {pair.sent, pair.taken};
  const Pairs now = pairs_of(*next, aside);
  const Units written_off(mass.written_off().begin(), mass.written_off().end());
  const auto known = books_.find(whose);
  Book& book = known == books_.end() ? books_[whose] : known->second;
  if (known == books_.end())
    open(whose, view, sums, now, book);
  else
    go_on(whose, sums, written_off, now, book);
  counts_.carried += now.size();
  counts_.aside += aside.size();
  counts_.owed += plan.owed_by(seat).size();
  book.view = std::move(next);
  book.aside = std::move(aside);
  book.written_off = written_off;
}

/// Of one that begins its first view.
void MassLedger::open(const Incarnation& whose, const DataView& view, const std::vector<Units>& sums,
                      Pairs now, Book& book) {
  const std::size_t parcels = sums[0].size() - view.slot(kParameters).size();
  book.brought = units_of(view.slot(kParameters), parcels);
  book.spent.assign(book.brought.size(), 0);
  if (sums[0] != book.brought) report(whose, "begins with other mass than its parameters of weight 1");
  if (!now.empty()) report(whose, "has exchanged mass before it began");
}

void MassLedger::go_on(const Incarnation& whose, const std::vector<Units>& sums, const Units& written_off,
                       const Pairs& now, Book& book) {
  add(book.spent, book.view->spent(), 1);
  if (sums[0] != book.view->sums()[0]) report(whose, "holds another mass than when it left its last view");
  Units gone = book.written_off;
  for (const auto& [other, pair] : pairs_of(*book.view, book.aside)) {
    const auto kept = now.find(other);
    if (kept != now.end() && kept->second == pair) continue;
    if (kept != now.end())
      report(whose,
             fmt::format("knows another past with {} than when it left its last view", name_of(other)));
    else if (!gone_(other))
      report(whose, fmt::format("has written off {}, which may come back", name_of(other)));
    ++counts_.written_off;
    add(gone, pair.sent, 1);
    add(gone, pair.taken, kLess);
  }
  if (gone != written_off) report(whose, "wrote off something else than what it exchanged with the dead");
  Units all = sums[0];
  for (const auto& [other, pair] : now) {
    add(all, pair.sent, 1);
    add(all, pair.taken, kLess);
  }
  add(all, written_off, 1);
  add(all, book.spent, 1);
  if (all != book.brought)
    report(whose, "what it holds and has given is not what it brought, less its steps");
}

void MassLedger::on_op(const Incarnation& whose, const Op& op, const DataView& after) {
  const auto book = books_.find(whose);
  if (book != books_.end()) book->second.view->on_op(op, after);
}

}  // namespace gossamer::node
