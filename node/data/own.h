#pragma once
// Own is what outlives a view beside what the peer has learned, and is of no use to anybody else: what its
// method conserves, by the incarnations of those that it exchanged with. It is part "own" of a data plane's
// state.
#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "archive.h"

namespace gossamer::node {

/// One start of a peer.
struct Incarnation {
  std::string name;
  std::uint64_t start = 0;
  auto operator<=>(const Incarnation&) const = default;
};
void archive_incarnations(const Archive& archive, std::string_view name, std::vector<Incarnation>& all);

/// What is known of others when a view begins.
struct Passage {
  std::vector<Incarnation> seats{};  ///< of the view, by their numbers in it
  /// Of each name that is known, the least start that may come back: another process has taken the place of
  /// earlier ones, or they have left. One that merely seems dead may be on the other side of a partition.
  std::vector<Incarnation> least{};

  bool may_come_back(const Incarnation& one) const;
  void archive(const Archive& archive);
};
/// Puts it where Replica::restore looks for it; nothing where the state holds nothing of its own.
void add_passage(State& state, Passage passage);

bool has_own(const State& state);
/// Those that have been sent what they may not have taken, ascending; which an extension's own says.
std::vector<Incarnation> owed_in(const State& state);
void archive_owed(const Archive& own, std::vector<Incarnation>& owed);
/// Beside that: what it learned of rows and has told nobody.
bool has_own_rows(const State& state);
Archive own_rows(const Archive& state);
void drop_own_rows(State& state);
/// And a gradient by which no step was taken, and what it was computed at is what the state holds.
bool has_own_gradient(const State& state);
Archive own_gradient(const Archive& state);

/// What others may have of the state.
State without_own(const State& state);
/// Takes the rest out of it.
State take_own(State& state);

}  // namespace gossamer::node
