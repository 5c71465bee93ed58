#include "row_batches.h"

#include <utility>

#include "cancelled.h"

namespace gossamer::optim {
namespace {

class RowObjective final : public Objective {
 public:
  explicit RowObjective(RowObjectiveParts parts) : parts_(std::move(parts)), batches_(parts_) {
    adopt_layers(*parts_.model);
  }

  void initialise(std::uint64_t seed, std::span<float> x) const override {
    parts_.model->initialise(seed, x);
  }

  StepResult gradient(std::span<float> x, const BatchKey& key, std::span<float> g,
                      const OnLayer& on_layer) override {
    Batch batch = batches_.take(key.step, key.flip_labels);
    if (!key.teachers.empty()) label(batch, key);
    return {parts_.model->gradient(x, batch, g, on_layer), batch.size};
  }

  Figures evaluate(std::span<const float> x) override {
    return figures_of(optim::evaluate(*parts_.model, x, *parts_.test, cancelled_.while_running()));
  }
  void cancel() override { cancelled_.set(); }
  std::size_t classes() const override { return batches_.classes(); }
  std::uint64_t steps_per_epoch() const override { return batches_.steps_per_epoch(); }
  std::span<const std::uint32_t> batch_rows() const override { return batches_.rows(); }
  std::uint64_t data_hash() const override { return hash_of_rows(parts_); }

 private:
  /// The weighted mean of what the teachers predict, terms in order.
  void label(Batch& batch, const BatchKey& key) {
    soft_labels_.assign(batch.size * parts_.model->classes(), 0.0f);
    probabilities_.resize(soft_labels_.size());
    for (const Teacher& teacher : key.teachers) {
      Model& model = teacher.shape == 0 ? *parts_.model : *parts_.teachers[teacher.shape - 1];
      model.predict(teacher.x, batch, probabilities_);
      for (std::size_t i = 0; i < soft_labels_.size(); ++i)
        soft_labels_[i] += teacher.weight * probabilities_[i];
    }
    batch.soft_labels = soft_labels_;
    batch.soft_weight = key.soft_weight;
  }

  RowObjectiveParts parts_;
  RowBatches batches_;
  std::vector<float> soft_labels_, probabilities_;
  Cancelled cancelled_;
};

}  // namespace

std::optional<double> find_figure(const Figures& figures, std::string_view name) {
  const auto at =
      std::find_if(figures.begin(), figures.end(), [&](const Figure& f) { return f.name == name; });
  return at == figures.end() ? std::nullopt : std::optional(at->value);
}

Figures figures_of(const Evaluation& evaluation) {
  if (evaluation.has_accuracy) return {{"accuracy", evaluation.accuracy()}, {"loss", evaluation.loss()}};
  return {{"loss", evaluation.loss()}};
}

std::unique_ptr<Objective> make_row_objective(RowObjectiveParts parts) {
  return std::make_unique<RowObjective>(std::move(parts));
}

}  // namespace gossamer::optim
