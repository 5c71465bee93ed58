#pragma once
// A ClickObjective is a sparse model with its table and its stream of samples: rows stand in the table, dense
// parameters in the caller's buffers, as any Objective's.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "gossamer/optim/click_metrics.h"
#include "gossamer/optim/course.h"
#include "gossamer/optim/objective.h"
#include "gossamer/optim/sample_stream.h"
#include "gossamer/optim/sparse.h"
#include "gossamer/optim/table.h"

namespace gossamer::optim {

struct ClickParts {
  SparseModelSpec model{};
  TableSpec table{};  ///< width, linear and initial_scale are the model's
  /// Makes the table; empty: an empty one.
  std::function<std::unique_ptr<Table>(const TableSpec&)> rows{};
  /// The peer's samples of an epoch, from 0 on; the next one is asked for when a stream has ended.
  std::function<std::unique_ptr<SampleStream>(std::uint64_t epoch)> train{};
  /// Read whole at each evaluation; empty: no such data.
  std::function<std::unique_ptr<SampleStream>()> test{};
  std::function<double()> best_auc{};  ///< that any model can expect of the test samples; empty: not known
  bool follows = false;    ///< text that grows: the order of its samples depends on when what was there
  std::size_t batch = 64;  ///< samples a step
  std::uint64_t steps_per_epoch = 1;     ///< as Objective's
  std::uint64_t data_hash = 0;           ///< the same
  std::shared_ptr<DataCourse> course{};  ///< null: peers do not come and go
  /// Of a stream that goes on without end: what is to come is shared out as `train` would; empty: streams
  /// end.
  std::function<void(SampleStream&)> share_anew{};
};

/// A step pulls the batch's rows, pushes their gradients to the table's optimiser (or leaves that to the
/// caller), and gives the dense part's gradient to the caller. Each sample is predicted before it is learned
/// from. Saved are the rows and how far the stream is, not what the metrics have counted nor how often keys
/// without a row were seen.
class ClickObjective : public Objective, public KeyedRows {
 public:
  virtual const ProgressiveMetrics& progressive() const = 0;
  virtual StreamCounters counters() const = 0;  ///< of the epoch under way
};

/// evaluate gives "auc", "loss" and "calibration" of the test samples (of millions "auc_error", too: by how
/// much the AUC may be off), "best_auc" where it is known, and "progressive_auc", "progressive_loss" and
/// "keys_per_sample" of all that was learned from, "recent_auc" and "recent_loss" of what came since the last
/// evaluation, where there was any; "bad_lines" of an epoch, "rows_lost_in_loading" of a table that was
/// loaded under a limit. Throws OptimError as make_sparse_model and make_table do, and in gradient as
/// SampleStream::next, or where an epoch has no sample at all.
std::unique_ptr<ClickObjective> make_click_objective(ClickParts parts);

}  // namespace gossamer::optim
