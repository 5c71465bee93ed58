#pragma once
// Tables of named parts. A part of some size has a descriptor at the end of its own file, and its table lists
// these; small ones are rows of their table: name, a line of help and the factory.
#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "gossamer/optim/model.h"

namespace gossamer::optim {

template <class Factory>
struct Row {
  NamedHelp entry;
  Factory make;
};

/// The public view of a table: names and help without the factories.
template <class Factory, std::size_t N>
constexpr std::array<NamedHelp, N> help_of(const std::array<Row<Factory>, N>& rows) {
  std::array<NamedHelp, N> help{};
  for (std::size_t i = 0; i < N; ++i) help[i] = rows[i].entry;
  return help;
}

/// The public view of a table of descriptors, whose first member is a NamedHelp called `row`.
template <class Kind, std::size_t N>
std::array<NamedHelp, N> help_of(const std::array<const Kind*, N>& kinds) {
  std::array<NamedHelp, N> help{};
  for (std::size_t i = 0; i < N; ++i) help[i] = kinds[i]->row;
  return help;
}

/// Throws OptimError: what was found, and which names there are.
[[noreturn]] void throw_unknown(std::string_view what, std::string_view name,
                                std::span<const NamedHelp> known);

/// The row called `name`; throws as throw_unknown. `what` says what is looked up ("model kind").
template <class Factory, std::size_t N>
const Row<Factory>& find_row(const std::array<Row<Factory>, N>& rows, std::string_view what,
                             std::string_view name) {
  for (const auto& row : rows)
    if (name == row.entry.name) return row;
  throw_unknown(what, name, help_of(rows));
}
template <class Kind, std::size_t N>
const Kind& find_kind(const std::array<const Kind*, N>& kinds, std::string_view what, std::string_view name) {
  for (const Kind* kind : kinds)
    if (name == kind->row.name) return *kind;
  throw_unknown(what, name, help_of(kinds));
}

}  // namespace gossamer::optim
