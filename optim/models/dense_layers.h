#pragma once
// Dense layers with ReLU between them, for every model that ends in or consists of a multilayer perceptron.
// Layer l has the weight W_l [in,out] and the bias b_l: z = a_l·W_l + b_l, with a_0 the input and
// a_(l+1) = max(z, 0); the last z are handed out as they are. Back propagation (Rumelhart, Hinton, Williams:
// Learning representations by back-propagating errors, Nature 1986) runs from the last layer to the first.
// With delta = ∂loss/∂z of layer l over the batch:
//     ∂loss/∂W_l = a_lᵀ·delta      ∂loss/∂b_l = column sums of delta      delta of layer l−1 = (delta·W_lᵀ)
//     where a_l > 0
// W_l is read last by the third product, so layer l is reported after it. Initial weights are He-normal for
// hidden layers (He et al.: Delving Deep into Rectifiers, ICCV 2015, eq. 10) and Glorot-normal for the last
// (Glorot, Bengio: Understanding the difficulty of training deep feedforward neural networks, AISTATS 2010,
// eq. 12); biases are 0.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gossamer/optim/model.h"
#include "scratch.h"

namespace gossamer::optim {

/// Appends a layer after the last one, at the next multiple of 64 bytes; fills in its tensors' offsets.
void append_layer(std::vector<Layer>& layers, std::size_t& buffer_size, std::string name,
                  std::vector<Tensor> tensors);

/// Holds activations; parameters x, gradients g and the input are the caller's. One thread at a time.
class DenseLayers {
 public:
  /// widths: of the input, of the hidden layers …, of the output. Throws OptimError for a width that is 0 or
  /// too large for BLAS; `model` is named in it.
  DenseLayers(std::vector<std::size_t> widths, const std::string& model);

  const std::vector<Layer>& layers() const { return layers_; }  ///< fc1, fc2, …
  std::size_t buffer_size() const { return buffer_size_; }
  std::size_t inputs() const { return widths_.front(); }
  std::size_t outputs() const { return widths_.back(); }
  void initialise(std::uint64_t seed, std::span<float> x) const;

  /// The last z [rows, outputs()] for input [rows, inputs()]; valid until the next call, and may be
  /// overwritten.
  float* forward(std::span<const float> x, const float* input, std::size_t rows);
  /// After forward with the same x, input and rows. g ← the gradient, padding included; input_delta [rows,
  /// inputs()] ← ∂loss/∂input unless it is null. delta is what ∂loss/∂z of the last layer is.
  void backward(std::span<const float> x, const float* input, std::size_t rows, const float* delta,
                std::span<float> g, float* input_delta, const OnLayer& on_layer);

 private:
  std::size_t weight_size(std::size_t l) const { return widths_[l] * widths_[l + 1]; }
  void layer_gradient(std::size_t l, const float* input, std::size_t rows, const float* delta,
                      std::span<float> g);
  void delta_before(std::size_t l, std::size_t rows, const float* delta, std::span<const float> x,
                    float* before);

  std::vector<std::size_t> widths_;
  std::vector<Layer> layers_;
  std::size_t buffer_size_ = 0;
  std::vector<Scratch<float>> activations_;
  Scratch<float> deltas_[2];
};

}  // namespace gossamer::optim
