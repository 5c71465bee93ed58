// Multilayer perceptron: dense_layers.h with the data's features as input; its outputs are the logits of a
// softmax with cross-entropy.
#include <cassert>
#include <utility>

#include "cross_entropy.h"
#include "dense_layers.h"
#include "models.h"

namespace gossamer::optim {
namespace {

class Mlp final : public Model {
 public:
  explicit Mlp(std::vector<std::size_t> widths) : dense_(std::move(widths), "mlp") {
    for (const Layer& layer : dense_.layers()) add_layer(layer.name, layer.tensors);
  }

  void initialise(std::uint64_t seed, std::span<float> x) const override { dense_.initialise(seed, x); }

  double gradient(std::span<float> x, const Batch& batch, std::span<float> g,
                  const OnLayer& on_layer) override {
    const Logits logits = forward(x, batch);
    const double loss = cross_entropy_gradient(logits, batch) / static_cast<double>(batch.size);
    dense_.backward(x, batch.x.data(), batch.size, logits.data, g, nullptr, on_layer);
    return loss;
  }

  Evaluation evaluate(std::span<const float> x, const Batch& batch) override {
    return cross_entropy_evaluate(forward(x, batch), batch.labels);
  }

  std::size_t classes() const override { return dense_.outputs(); }

  void predict(std::span<const float> x, const Batch& batch, std::span<float> probabilities) override {
    softmax_rows(forward(x, batch), probabilities);
  }

 private:
  Logits forward(std::span<const float> x, const Batch& batch) {
    assert(batch.features == dense_.inputs() && batch.x.size() >= batch.size * batch.features);
    return {dense_.forward(x, batch.x.data(), batch.size), batch.size, classes(), classes()};
  }

  DenseLayers dense_;
};

std::unique_ptr<Model> make_mlp(const ModelSpec& spec) {
  require_classes(spec);
  std::vector<std::size_t> widths{spec.features};
  widths.insert(widths.end(), spec.hidden.begin(), spec.hidden.end());
  widths.push_back(spec.classes);
  return std::make_unique<Mlp>(std::move(widths));
}

}  // namespace

constinit const ModelKind kMlp{
    .row = {"mlp", "dense layers with ReLU and cross-entropy (hidden = sizes of the hidden layers)",
            "hidden"},
    .make = make_mlp,
    .traits = {.hidden = true}};

}  // namespace gossamer::optim
