#pragma once
// A TensorObjective is what the models of programs have in common that bring arrays and no objective: how
// they lie in layers, where they start, which rows were dealt to them.
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "gossamer/node/training_loop.h"

namespace gossamer::node {

/// Calls in the wrong order, numbers out of range.
[[noreturn]] void misuse(const std::string& what);
/// How many rows there are, and their labels; null for 0. Throws Error.
std::shared_ptr<const optim::Dataset> labelled_rows(std::size_t rows, std::vector<std::int32_t> labels);
/// What of the job goes with a state that is averaged exactly. Throws ConfigError.
void check_state(const Job& job, const std::vector<TensorSpec>& tensors);

/// Small tensors share layers; those of a state come last, in one of their own.
class TensorObjective : public optim::Objective {
 public:
  TensorObjective(const std::vector<TensorSpec>& tensors, std::uint64_t steps_per_epoch,
                  std::function<void(std::size_t, std::span<float>)> initialise);

  void initialise(std::uint64_t, std::span<float> x) const override;
  optim::Figures evaluate(std::span<const float>) override { return {}; }
  std::uint64_t steps_per_epoch() const override { return steps_per_epoch_; }
  void deal(const optim::DealtRows& rows) override;
  std::span<const std::uint32_t> batch_rows() const override { return batch_; }

  std::size_t tensors() const { return places_.size(); }
  bool has_state() const { return state_begin_ < buffer_size(); }
  bool is_state(std::size_t offset) const { return offset >= state_begin_; }

 protected:
  struct PlaceOfTensor {
    std::size_t layer, offset, size;
    bool state;
  };
  const PlaceOfTensor& place_of(std::size_t tensor) const;
  template <class Floats>
  std::span<Floats> part(std::span<Floats> all, std::size_t tensor) const {
    return all.subspan(place_of(tensor).offset, place_of(tensor).size);
  }
  /// The rows of that step are those of the batch from now on.
  void take_rows(std::uint64_t step);
  /// Of any step; of one before the rows were dealt, those of the first. Misuse where none were dealt.
  std::vector<std::uint32_t> rows_of_step(std::uint64_t step);

 private:
  void add_layers(const std::vector<TensorSpec>& tensors);

  const std::function<void(std::size_t, std::span<float>)> initialise_;
  const std::uint64_t steps_per_epoch_;
  std::vector<PlaceOfTensor> places_;
  std::size_t state_begin_ = 0;              ///< in the buffer
  std::unique_ptr<optim::Sampler> sampler_;  ///< null: the program sees to its rows
  std::shared_ptr<optim::DataCourse> course_;
  std::uint64_t first_step_ = 0;  ///< of the sampler
  std::vector<std::uint32_t> batch_;
};

/// a − b, element by element.
void subtract(std::span<const float> a, std::span<const float> b, std::span<float> to);

/// Steps of a state are what it has become; inner takes the others.
class StateAside final : public optim::Optimizer {
 public:
  StateAside(std::shared_ptr<const TensorObjective> objective, std::unique_ptr<optim::Optimizer> inner)
      : objective_(std::move(objective)), inner_(std::move(inner)) {}
  void step(double place, std::size_t offset, std::span<const float> x, std::span<const float> g,
            std::span<float> u) override;
  void show(optim::StateVisitor& visitor) override { inner_->show(visitor); }

 private:
  std::shared_ptr<const TensorObjective> objective_;
  std::unique_ptr<optim::Optimizer> inner_;
};

}  // namespace gossamer::node
