#pragma once
// An Objective is what is learned: a model with its data. What a batch is (rows of floats, tokens, a user's
// own) is its affair alone, and what an evaluation tells.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gossamer/optim/byte_stream.h"
#include "gossamer/optim/data.h"
#include "gossamer/optim/model.h"
#include "gossamer/optim/table.h"

namespace gossamer::optim {

/// A model whose predictions label a batch beside the data's own labels.
struct Teacher {
  float weight;              ///< of its class probabilities in their mean
  std::span<const float> x;  ///< its parameters
  std::size_t shape;         ///< 0: this objective's; 1 + k: that of the k-th other model it was made with
};

/// Which batch, and what is asked of it.
struct BatchKey {
  std::uint64_t step = 0;    ///< of this peer, from 0
  bool flip_labels = false;  ///< learn class c as classes − 1 − c, as an experiment's attacker does
  float soft_weight = 0;     ///< of the loss against the teachers' labels, in [0, 1]; classifiers alone
  std::span<const Teacher> teachers{};
  /// To be called now and then by a gradient that waits for something: the peer's other work goes on in it.
  const std::function<void()>* idle = nullptr;
};

/// Objective::cancel ended what throws it.
class GivenUp final : public OptimError {
 public:
  using OptimError::OptimError;
};
struct StepResult {
  double loss = 0;       ///< mean over the batch
  std::size_t rows = 0;  ///< samples, of whatever kind
  /// Something of the step was not finite, and the objective has left it out: rows of a table are as before.
  /// Or there was none (hurry()), and g is NaN.
  bool left_out = false;
};

/// One result of an evaluation.
struct Figure {
  std::string name;  ///< "loss", "auc"; "accuracy" is a share, in [0, 1]
  double value = 0;
  bool operator==(const Figure&) const = default;
};
using Figures = std::vector<Figure>;
Figures figures_of(const Evaluation& evaluation);
std::optional<double> find_figure(const Figures& figures, std::string_view name);

/// Rows of a table that are learned beside the parameters.
class KeyedRows {
 public:
  /// Keys are distinct; row i's gradient is gradients[i·width, (i+1)·width).
  struct Changes {
    std::span<const std::uint64_t> keys;
    std::span<const float> gradients;
  };
  virtual ~KeyedRows() = default;
  virtual Table& table() = 0;
  /// From now on a gradient leaves the table as it is, and the caller pushes changes() before the next one.
  virtual void leave_to_caller() = 0;
  /// What the last gradient made of rows; valid until the next.
  virtual Changes changes() const = 0;
};

class DataCourse;

/// The rows that were dealt to a peer.
struct DealtRows {
  const Split* split;  ///< outlives the objective
  std::size_t peer = 0, batch = 1;
  std::shared_ptr<DataCourse> course{};  ///< null: peers do not come and go
  std::uint64_t first_step = 0;          ///< of this objective, where the course has had others
};

/// One peer's. Parameters and gradients are the caller's buffers of buffer_size() floats, 64-byte aligned.
/// Layers are added when it is made, and stand then. One thread at a time, but for cancel and hurry.
class Objective : public Layered {
 public:
  /// Fills x with the initial parameters drawn from seed (padding = 0). Same on every host and peer.
  virtual void initialise(std::uint64_t seed, std::span<float> x) const = 0;
  /// g ← the gradient at x of the mean loss over the batch (overwritten, padding = 0). on_layer is to be
  /// called for every layer, last first; where it is first called with the last one, all come in order, each
  /// once. Steps ascend by one; after a restore they go on from the one that was saved. Whatever is thrown
  /// ends the run with that message.
  virtual StepResult gradient(std::span<float> x, const BatchKey& key, std::span<float> g,
                              const OnLayer& on_layer) = 0;
  /// Of the model x on held-out data, at least "loss"; none where there are no such data. Throws GivenUp.
  virtual Figures evaluate(std::span<const float> x) = 0;
  virtual std::size_t classes() const { return 0; }  ///< that samples are told apart into; 0: no classifier
  /// Steps in which the peers together go through all data once.
  virtual std::uint64_t steps_per_epoch() const { return 1; }
  /// Of all peers' data together: what all must agree on. 0: nothing is compared.
  virtual std::uint64_t data_hash() const { return 0; }
  /// Before the first gradient, where whoever made it says which rows there are and leaves the dealing to
  /// others.
  virtual void deal(const DealtRows&) {}
  /// Rows beside the parameters; null: there are none.
  virtual KeyedRows* keyed_rows() { return nullptr; }
  /// Numbers of the last gradient's rows among those of all peers, where they have any; until the next one.
  virtual std::span<const std::uint32_t> batch_rows() const { return {}; }
  /// What it keeps between steps beside parameters: rows, where its data stand. Restored in one made alike,
  /// before the first gradient; throws OptimError.
  virtual void save(const ByteSink&) const {}
  virtual void restore(const ByteSource&) {}
  /// What it keeps that is of no use to other peers: it goes into this peer's checkpoints alone.
  virtual bool keeps_private() const { return false; }
  virtual void save_private(const ByteSink&) const {}
  virtual void restore_private(const ByteSource&) {}
  /// A gradient that waits for something is to return or throw soon, and an evaluation that is under way to
  /// throw GivenUp; from another thread.
  virtual void cancel() {}
  /// From now on a gradient waits for no data: it is left out where there are none. From another thread.
  virtual void hurry() {}
};

/// A Model on rows of a Dataset.
struct RowObjectiveParts {
  std::shared_ptr<Model> model;                    ///< may be shared with others of the same thread
  std::vector<std::shared_ptr<Model>> teachers{};  ///< shapes of teachers, from 1 on
  std::shared_ptr<const Dataset> train, test;
  const Split* split;  ///< outlives it
  std::size_t peer = 0, batch = 1;
  bool prefetch = false;                 ///< a thread of its own reads ahead
  std::shared_ptr<DataCourse> course{};  ///< null: peers do not come and go
  std::uint64_t first_step = 0;          ///< of this objective, where the course has had others
};
std::unique_ptr<Objective> make_row_objective(RowObjectiveParts parts);

}  // namespace gossamer::optim
