#pragma once
// A RowOptimizer updates one row of a table. What it keeps of a row are arrays of `width` floats one after
// the other: weights w, then its state; or a state alone that says what the weights are. No weight knows of
// another: many rows of one weight, put together array by array, are a wide row.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>

#include "gossamer/optim/finite.h"
#include "gossamer/optim/table.h"

namespace gossamer::optim {

inline constexpr std::size_t kMostColumns = 4;  ///< arrays of a row

inline bool is_finite(float v) { return std::abs(v) <= std::numeric_limits<float>::max(); }
/// Whether squares of sums of these may be too large for a float. Else steps need not look at what they
/// compute, and their loops are vectors'.
inline bool any_large(std::span<const float> gradients) { return !all_within(gradients, 1e12f); }

/// Any thread; rows as wide as the span beside them.
class RowOptimizer {
 public:
  virtual ~RowOptimizer() = default;
  /// row ← that of these first weights.
  virtual void start(float* row, std::span<const float> weights) const = 0;
  virtual void read(const float* row, std::span<float> weights) const = 0;
  /// updates: how many the row has had, this one included; known where the descriptor's `counts` says so.
  /// careful (any_large): what would leave the row with a number that is not finite is left out, weight by
  /// weight.
  virtual void step(float* row, std::span<const float> gradient, std::uint32_t updates,
                    bool careful) const = 0;
  /// w ← w + deltas, the rest of the state as it is.
  virtual void add(float* row, std::span<const float> deltas) const = 0;
  /// Whether all weights are 0 and a row without them would do as well: only where exact zeros are made.
  virtual bool zero(const float* row, std::size_t width) const = 0;
  /// Of a row that another rule of the same optimizer has kept: these were its weights, and are.
  virtual void adopt(float*, std::span<const float> /*weights*/) const {}
};

struct RowOptimizerPart {
  RowOptimizerInfo info;
  std::unique_ptr<RowOptimizer> (*make)(const TableSpec& spec);
  bool in_front = true;  ///< a row begins with its weights
  bool counts = false;   ///< step needs `updates`
};
/// Throws OptimError for an unknown name.
const RowOptimizerPart& find_row_optimizer(const std::string& name);

std::unique_ptr<RowOptimizer> make_row_sgd(const TableSpec& spec);
std::unique_ptr<RowOptimizer> make_row_adagrad(const TableSpec& spec);
std::unique_ptr<RowOptimizer> make_row_adam(const TableSpec& spec);
std::unique_ptr<RowOptimizer> make_row_ftrl(const TableSpec& spec);

/// What those that keep the weights in front of the row share.
class WeightsInFront : public RowOptimizer {
 public:
  /// floats: per weight, as the descriptor says.
  explicit WeightsInFront(std::size_t floats) : floats_(floats) {}
  void start(float* row, std::span<const float> weights) const override;
  void read(const float* row, std::span<float> weights) const override;
  void add(float* row, std::span<const float> deltas) const override;
  bool zero(const float*, std::size_t) const override { return false; }

 private:
  const std::size_t floats_;
};

}  // namespace gossamer::optim
