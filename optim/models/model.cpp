#include "gossamer/optim/model.h"

#include <array>
#include <utility>

#include "dense_layers.h"
#include "models.h"
#include "names.h"
#include "random.h"

namespace gossamer::optim {
namespace {

// One row a model; each stands at the end of its own file.
constexpr std::array kModels{&kSoftmax, &kQuadratic, &kMlp};

const ModelKind& model_named(std::string_view kind) { return find_kind(kModels, "model kind", kind); }

}  // namespace

Evaluation& Evaluation::operator+=(const Evaluation& o) {
  loss_sum += o.loss_sum;
  correct += o.correct;
  rows += o.rows;
  has_accuracy = has_accuracy && o.has_accuracy;
  return *this;
}

void Model::predict(std::span<const float>, const Batch&, std::span<float>) {
  throw OptimError("this model predicts no classes; expected a classifier such as mlp or softmax");
}

std::size_t Layered::parameters() const {
  std::size_t total = 0;
  for (const Layer& layer : layers_) total += layer.size;
  return total;
}

void Layered::add_layer(std::string name, std::vector<Tensor> tensors) {
  append_layer(layers_, buffer_size_, std::move(name), std::move(tensors));
}

void Layered::adopt_layers(const Layered& other) {
  layers_ = other.layers_;
  buffer_size_ = other.buffer_size_;
}

void require_classes(const ModelSpec& spec) {
  if (spec.features == 0)
    throw OptimError("model " + spec.kind + ": found data without features, expected at least 1");
  if (spec.classes < 2)
    throw OptimError("model " + spec.kind + ": found " + std::to_string(spec.classes) +
                     " classes in the data, expected at least 2; the quadratic model needs none");
}

void fill_normal(std::uint64_t seed, std::size_t layer, double deviation, std::span<float> out) {
  const std::uint64_t key = make_key(seed, Use::parameters, layer);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(deviation * normal(key, i));
}

std::span<const NamedHelp> model_table() {
  static const auto kHelp = help_of(kModels);
  return kHelp;
}

const ModelTraits& model_traits(std::string_view kind) { return model_named(kind).traits; }

std::unique_ptr<Model> make_model(const ModelSpec& spec) { return model_named(spec.kind).make(spec); }

}  // namespace gossamer::optim
