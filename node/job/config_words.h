#pragma once
// The tables of keys are written in these words.
#include <string>
#include <vector>

#include "config_keys.h"

namespace gossamer::node::config {

template <class Row>
std::vector<std::string> names_of(std::span<const Row> table) {
  std::vector<std::string> names;
  for (const Row& row : table) names.emplace_back(row.name);
  return names;
}

constexpr Interval kPositive{0, kInfinity, true}, kNotNegative{0}, kAtLeastOne{1};
constexpr Interval kPositiveFloat{1e-38};  // what a float of normal precision holds
constexpr Interval kProbability{0, 1, false, true}, kFraction{0, 1, true}, kShare{0, 1};

constexpr Constraint kLocalSeconds{
    .unit = "seconds", .range = kPositive, .scope = Scope::kLocal, .quantity = Quantity::kSeconds};
constexpr Constraint kLocalTime{
    .unit = "seconds", .range = kNotNegative, .scope = Scope::kLocal, .quantity = Quantity::kSeconds};
constexpr Constraint kLocalProbability{.range = kProbability, .scope = Scope::kLocal};
constexpr Constraint kLocalWindow{.range = kPositive, .scope = Scope::kLocal};
constexpr Constraint kLocalPath{.scope = Scope::kLocal, .path = Path::kAbsolute};

// Where the keys of each section stand.
template <auto Member>
auto& draft(Draft& d, const void*) {
  return d.*Member;
}
template <auto Member>
auto& job(Draft& d, const void*) {
  return d.job.*Member;
}

}  // namespace gossamer::node::config
