#pragma once
// How what replicas learn beside parameters stands in a State; replicas of any device write and read the same
// arrays.
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "archive.h"
#include "extension.h"
#include "gossamer/optim/objective.h"
#include "gossamer/optim/optimizer.h"

namespace gossamer::node {

/// Writes an optimiser's state, or reads it.
class OptimizerState final : public optim::StateVisitor {
 public:
  explicit OptimizerState(Archive archive) : archive_(std::move(archive)) {}
  bool has(const char* name) const override { return archive_.has(name); }
  void floats(const char* name, std::span<float> values) override { archive_.floats(name, values); }
  void by_offset(const char* name, std::map<std::size_t, std::uint64_t>& values) override {
    std::vector<std::uint64_t> numbers = values_of<std::uint64_t>(values);
    archive_.numbers(name, numbers);
    keys(name, values, numbers);
  }
  void by_offset(const char* name, std::map<std::size_t, double>& values) override {
    std::vector<double> numbers = values_of<double>(values);
    archive_.doubles(name, numbers);
    keys(name, values, numbers);
  }

 private:
  template <class T>
  static std::vector<T> values_of(const std::map<std::size_t, T>& values) {
    std::vector<T> all;
    for (const auto& [offset, value] : values) all.push_back(value);
    return all;
  }
  template <class T>
  void keys(const char* name, std::map<std::size_t, T>& values, const std::vector<T>& numbers) {
    std::vector<std::uint64_t> offsets;
    for (const auto& [offset, value] : values) offsets.push_back(offset);
    archive_.numbers(std::string(name) + ".offsets", offsets, numbers.size());
    values.clear();
    for (std::size_t n = 0; n < offsets.size(); ++n) values[offsets[n]] = numbers[n];
  }
  Archive archive_;
};

/// What it keeps between steps.
void archive_objective(Archive archive, optim::Objective& objective);
/// What is of no use to other peers; nothing where it keeps nothing such.
void archive_private(Archive archive, optim::Objective& objective);
/// What the state holds of the extension's own, if anything.
void restore_own(Extension& extension, const State& state);

}  // namespace gossamer::node
