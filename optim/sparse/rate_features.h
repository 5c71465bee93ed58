#pragma once
// RateFeatures makes features of how often keys were clicked so far: statistics that a table keeps with its
// rows.
#include <cstdint>
#include <vector>

#include "gossamer/optim/sparse.h"
#include "gossamer/optim/table.h"

namespace gossamer::optim {

/// The key of a field's rate; no sample should have it.
constexpr std::uint64_t rate_key(std::uint32_t field) { return kBiasKey - 1 - field; }

/// One thread at a time.
class RateFeatures {
 public:
  /// batch ← the samples of `from`, each with one entry more for each of its fields: how much the log odds of
  /// the click rates of its keys there (Table::click_rates) are above those of all samples, on average; a key
  /// that was never shown counts as 0.
  void add(const Table& table, const SparseBatch& from, SparseBatch& batch);
  /// Each entry's key was shown, and clicked where its sample was.
  void observe(Table& table, const SparseBatch& batch);

 private:
  std::vector<float> rates_, clicked_, values_, sums_, counts_;
  std::vector<std::uint64_t> keys_;
  std::vector<std::uint32_t> fields_, present_;  ///< of a sample's entries; each of these once
};

}  // namespace gossamer::optim
