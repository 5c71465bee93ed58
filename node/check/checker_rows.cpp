// Rows of tables: every change is told or kept, and what was told is applied once, in order, by everyone.
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <utility>

#include "checkers.h"
#include "row_exchange.h"

namespace gossamer::node {
namespace {

constexpr double kTolerance = 1e-4;  ///< of sums of floats over some dozen rounds

/// Sums by key, of floats in double precision.
class Sums {
 public:
  void add(std::span<const std::uint64_t> keys, std::span<const float> values, double factor = 1) {
    const std::size_t width = keys.empty() ? 0 : values.size() / keys.size();
    for (std::size_t i = 0; i < keys.size(); ++i) {
      auto& row = rows_[keys[i]];
      row.resize(width);
      for (std::size_t k = 0; k < width; ++k) row[k] += factor * static_cast<double>(values[i * width + k]);
    }
  }
  void add(const compress::RowChanges& changes, double factor = 1) {
    add(changes.keys, changes.values, factor);
  }
  /// A key where the two differ.
  std::optional<std::uint64_t> difference(const Sums& other) const {
    for (const auto& [key, row] : rows_)
      if (!alike(row, other.at(key))) return key;
    for (const auto& [key, row] : other.rows_)
      if (!alike(row, at(key))) return key;
    return std::nullopt;
  }

 private:
  using Row = std::vector<double>;
  Row at(std::uint64_t key) const {
    const auto found = rows_.find(key);
    return found == rows_.end() ? Row{} : found->second;
  }
  static bool alike(const Row& a, const Row& b) {
    for (std::size_t k = 0; k < std::max(a.size(), b.size()); ++k) {
      const double x = k < a.size() ? a[k] : 0, y = k < b.size() ? b[k] : 0;
      if (!(std::abs(x - y) <= kTolerance * (1 + std::abs(x)))) return false;
    }
    return true;
  }
  std::map<std::uint64_t, Row> rows_;
};

class RowChecker final : public Checker {
 public:
  RowChecker(const Invariants& invariants, Findings& findings)
      : invariants_(invariants),
        findings_(findings),
        unsent_(invariants.peers),
        own_(invariants.peers),
        told_(invariants.peers),
        taken_(invariants.peers, std::vector<std::size_t>(invariants.peers, 0)) {}

  void on_op(PeerId peer, const Op& op, const DataView& after) override {
    if (const auto* encode = std::get_if<op::EncodeRows>(&op)) check_told(peer, *encode, *after.rows());
    if (const auto* push = std::get_if<op::PushRows>(&op)) check_pushed(peer, *push, *after.rows());
  }

  void at_end(const SimResult& result) override {
    const bool all = std::all_of(result.peers.begin(), result.peers.end(),
                                 [](const auto& p) { return p.outcome == Outcome::finished; });
    if (!all || !invariants_.staleness) return;
    for (PeerId p = 0; p < invariants_.peers; ++p)
      for (PeerId from = 0; from < invariants_.peers; ++from)
        if (p != from && taken_[p][from] != told_[from].size())
          findings_.report("rows",
                           fmt::format("peer {} has applied {} of the {} messages that peer {} told all", p,
                                       taken_[p][from], told_[from].size(), from));
  }

 private:
  void check_told(PeerId peer, const op::EncodeRows& o, const RowExchange& rows) {
    if (own_[peer])
      findings_.report("rows",
                       fmt::format("peer {} begins to tell of round {} and has not applied what it learned "
                                   "before",
                                   peer, o.round));
    const auto changes = rows.changes();
    own_[peer].emplace().add(changes.keys, changes.gradients);
    unsent_[peer].add(changes.keys, changes.gradients);
    unsent_[peer].add(rows.told(), -1);
    if (o.send) told_[peer].push_back(rows.told());
    Sums kept;
    rows.sender().visit(
        [&](std::uint64_t key, std::span<const float> e) { kept.add(std::span(&key, 1), e); });
    if (const auto key = unsent_[peer].difference(kept))
      findings_.report("rows",
                       fmt::format("peer {} in round {}: of key {} the changes so far are not what was told "
                                   "and what is unsent",
                                   peer, o.round, *key));
  }

  void check_pushed(PeerId peer, const op::PushRows& o, const RowExchange& rows) {
    Sums expected, pushed;
    if (o.own) {
      if (!own_[peer])
        return findings_.report(
            "rows", fmt::format("peer {} applies what it learned in round {} twice", peer, o.round));
      expected = std::move(*own_[peer]);
      own_[peer].reset();
    }
    for (const auto& [from, payload] : o.received) {
      std::size_t& next = taken_[peer][from];
      if (next >= told_[from].size())
        return findings_.report(
            "rows", fmt::format("peer {} in round {} applies a message of peer {} that it did not "
                                "tell",
                                peer, o.round, from));
      expected.add(told_[from][next++]);
    }
    pushed.add(rows.pushed());
    if (const auto key = expected.difference(pushed))
      findings_.report(
          "rows", fmt::format("peer {} in round {} changes key {} by something else than the sum of what "
                              "was told to it",
                              peer, o.round, *key));
  }

  Invariants invariants_;
  Findings& findings_;
  std::vector<Sums> unsent_;                             ///< by peer
  std::vector<std::optional<Sums>> own_;                 ///< by peer: learned, and not applied
  std::vector<std::vector<compress::RowChanges>> told_;  ///< by origin, in order
  std::vector<std::vector<std::size_t>> taken_;          ///< [peer, origin]: messages applied
};

}  // namespace

std::unique_ptr<Checker> check_rows_told(const Invariants& invariants, Findings& findings) {
  return std::make_unique<RowChecker>(invariants, findings);
}

}  // namespace gossamer::node
