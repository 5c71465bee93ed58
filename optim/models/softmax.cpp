// Linear classifier: logits = row·W + b with softmax and cross-entropy; convex. All loops are its own and run
// left to right over features and rows, so that the bits are the same from every compiler and on every
// machine. Classes are taken 16 at a time: W is first copied to panels of 16 columns (the last one padded
// with zeros), so that the innermost loop always has 16 independent lanes.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

#include "cross_entropy.h"
#include "models.h"
#include "scratch.h"

namespace gossamer::optim {
namespace {

constexpr std::size_t kLanes = 16;

/// Sixteen floats as four vectors of the compilers' own extension: plain arrays of lanes end up in memory.
struct Lanes {
  using Four = float __attribute__((vector_size(16)));
  Four v[4];

  static Lanes load(const float* from) {
    Lanes lanes;
    for (std::size_t i = 0; i < 4; ++i) std::memcpy(&lanes.v[i], from + 4 * i, sizeof(Four));
    return lanes;
  }
  void store(float* to) const {
    for (std::size_t i = 0; i < 4; ++i) std::memcpy(to + 4 * i, &v[i], sizeof(Four));
  }
  /// Each lane += factor·other
  void add(float factor, const Lanes& other) {
    for (std::size_t i = 0; i < 4; ++i) v[i] += factor * other.v[i];
  }
};

/// z[16] ← bias[16] + Σ_k row[k]·panel[k][16]
void panel_forward(const float* row, std::size_t features, const float* panel, const float* bias, float* z) {
  Lanes sum = Lanes::load(bias);
  for (std::size_t k = 0; k < features; ++k) sum.add(row[k], Lanes::load(panel + k * kLanes));
  sum.store(z);
}

/// panel[k][16] += row[k]·delta[16]
void panel_backward(const float* row, std::size_t features, const float* delta, float* panel) {
  const Lanes d = Lanes::load(delta);
  for (std::size_t k = 0; k < features; ++k) {
    Lanes sum = Lanes::load(panel + k * kLanes);
    sum.add(row[k], d);
    sum.store(panel + k * kLanes);
  }
}

class Softmax final : public Model {
 public:
  Softmax(std::size_t features, std::size_t classes)
      : features_(features), classes_(classes), panels_((classes + kLanes - 1) / kLanes) {
    add_layer("fc1", {{"fc1.weight", {features, classes}, 0}, {"fc1.bias", {classes}, 0}});
  }

  void initialise(std::uint64_t seed, std::span<float> x) const override {
    assert(x.size() == buffer_size());
    std::fill(x.begin(), x.end(), 0.0f);
    // Glorot-normal, as the last layer of mlp.
    const double deviation = std::sqrt(2 / static_cast<double>(features_ + classes_));
    fill_normal(seed, 0, deviation, x.first(features_ * classes_));
  }

  double gradient(std::span<float> x, const Batch& batch, std::span<float> g,
                  const OnLayer& on_layer) override {
    assert(g.size() == buffer_size());
    const Logits logits = forward(x, batch);
    const double loss = cross_entropy_gradient(logits, batch) / static_cast<double>(batch.size);
    std::fill(g.begin(), g.end(), 0.0f);
    for (std::size_t p = 0; p < panels_; ++p) panel_gradient(p, batch, logits, g);
    if (on_layer) on_layer(0);
    return loss;
  }

  Evaluation evaluate(std::span<const float> x, const Batch& batch) override {
    return cross_entropy_evaluate(forward(x, batch), batch.labels);
  }

  std::size_t classes() const override { return classes_; }

  void predict(std::span<const float> x, const Batch& batch, std::span<float> probabilities) override {
    softmax_rows(forward(x, batch), probabilities);
  }

 private:
  std::size_t width(std::size_t p) const { return std::min(kLanes, classes_ - p * kLanes); }

  Logits forward(std::span<const float> x, const Batch& batch) {
    assert(x.size() == buffer_size() && batch.size >= 1 && batch.features == features_);
    const std::size_t stride = panels_ * kLanes;
    std::span<float> z = logits_.need(batch.size * stride);
    float* panel = panel_.need((features_ + 1) * kLanes).data();
    for (std::size_t p = 0; p < panels_; ++p) {
      std::fill(panel, panel + (features_ + 1) * kLanes, 0.0f);
      for (std::size_t k = 0; k <= features_;
           ++k)  // the bias follows the weight as its row number `features_`
        std::copy_n(x.data() + k * classes_ + p * kLanes, width(p), panel + k * kLanes);
      for (std::size_t b = 0; b < batch.size; ++b)
        panel_forward(batch.x.data() + b * features_, features_, panel, panel + features_ * kLanes,
                      z.data() + b * stride + p * kLanes);
    }
    return {z.data(), batch.size, classes_, stride};
  }

  /// Columns of panel p of the gradient; the padding of the logits holds zeros and ends nowhere.
  void panel_gradient(std::size_t p, const Batch& batch, const Logits& logits, std::span<float> g) {
    float* panel = panel_.need((features_ + 1) * kLanes).data();
    std::fill(panel, panel + (features_ + 1) * kLanes, 0.0f);
    float* bias = panel + features_ * kLanes;
    for (std::size_t b = 0; b < batch.size; ++b) {
      const float* delta = logits.data + b * logits.stride + p * kLanes;
      panel_backward(batch.x.data() + b * features_, features_, delta, panel);
      for (std::size_t j = 0; j < kLanes; ++j) bias[j] += delta[j];
    }
    for (std::size_t k = 0; k <= features_; ++k)
      std::copy_n(panel + k * kLanes, width(p), g.data() + k * classes_ + p * kLanes);
  }

  std::size_t features_, classes_, panels_;
  Scratch<float> logits_, panel_;
};

std::unique_ptr<Model> make_softmax(const ModelSpec& spec) {
  require_classes(spec);
  return std::make_unique<Softmax>(spec.features, spec.classes);
}

}  // namespace

constinit const ModelKind kSoftmax{
    .row = {"softmax", "linear classifier with cross-entropy; own loops, equal bits from every compiler"},
    .make = make_softmax};

}  // namespace gossamer::optim
