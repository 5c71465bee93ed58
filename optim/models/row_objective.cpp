#include <algorithm>
#include <cassert>
#include <utility>

#include "gossamer/optim/course.h"
#include "gossamer/optim/objective.h"

namespace gossamer::optim {
namespace {

class RowObjective final : public Objective {
 public:
  explicit RowObjective(RowObjectiveParts parts) : parts_(std::move(parts)) {
    adopt_layers(*parts_.model);
    if (parts_.course) parts_.course->enter(*parts_.split, parts_.peer, parts_.first_step);
  }

  void initialise(std::uint64_t seed, std::span<float> x) const override {
    parts_.model->initialise(seed, x);
  }

  StepResult gradient(std::span<float> x, const BatchKey& key, std::span<float> g,
                      const OnLayer& on_layer) override {
    Batch batch = batch_of(key.step);
    if (key.flip_labels) flip(batch);
    if (!key.teachers.empty()) label(batch, key);
    return {parts_.model->gradient(x, batch, g, on_layer), batch.size};
  }

  Figures evaluate(std::span<const float> x) override {
    return figures_of(optim::evaluate(*parts_.model, x, *parts_.test));
  }
  std::size_t classes() const override { return parts_.train->classes(); }
  std::uint64_t steps_per_epoch() const override {
    return std::max<std::uint64_t>(1, parts_.split->sampler(parts_.peer)->steps_per_epoch());
  }
  std::span<const std::uint32_t> batch_rows() const override {
    return stream_ ? stream_->rows() : std::span<const std::uint32_t>();
  }
  std::uint64_t data_hash() const override { return parts_.train->hash() ^ (parts_.test->hash() * 3); }

 private:
  /// Steps ascend, but for where they first begin.
  const Batch& batch_of(std::uint64_t step) {
    if (!stream_ || step != next_)
      stream_ = std::make_unique<BatchStream>(
          parts_.train, parts_.course ? parts_.course->sampler() : parts_.split->sampler(parts_.peer),
          parts_.batch, step, parts_.prefetch);
    next_ = step + 1;
    if (parts_.course) parts_.course->took(step);
    return stream_->next();
  }

  void flip(Batch& batch) {
    flipped_.resize(batch.labels.size());
    const auto last = static_cast<std::int32_t>(classes()) - 1;
    std::transform(batch.labels.begin(), batch.labels.end(), flipped_.begin(),
                   [last](std::int32_t c) { return last - c; });
    batch.labels = flipped_;
  }

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
  std::unique_ptr<BatchStream> stream_;
  std::uint64_t next_ = 0;  ///< the step that stream_ stands before
  std::vector<std::int32_t> flipped_;
  std::vector<float> soft_labels_, probabilities_;
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
