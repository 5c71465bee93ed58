#pragma once
// A Model is parameters in layers, with a loss and its gradient on batches of rows.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gossamer::optim {

/// A named array inside a layer; offset in floats from the start of the parameter buffer; row-major.
struct Tensor {
  std::string name;
  std::vector<std::size_t> shape;
  std::size_t offset;
};

/// The unit whose gradient becomes ready at once (a dense layer: weight [in,out], then bias [out]).
/// Offsets are multiples of 16 floats (64 bytes); a layer's floats are contiguous; padding stands between
/// layers.
struct Layer {
  std::string name;
  std::size_t offset, size;
  std::vector<Tensor> tensors;
  bool state = false;  ///< has no gradient, but steps of its own: peers average it, whatever the codec
};

/// size rows of `features` floats, row-major, and their classes (empty where the task has none). Where
/// soft_labels is not empty (size × classes probabilities, row-major), a row's training loss is
/// (1 − soft_weight)·CE(class) + soft_weight·CE(soft label), CE(q) = −Σ_j q_j ln p_j: distillation (Hinton,
/// Vinyals, Dean 2015: Distilling the knowledge in a neural network, at temperature 1). Evaluation reads the
/// classes alone.
struct Batch {
  std::size_t size = 0;
  std::size_t features = 0;
  std::span<const float> x;
  std::span<const std::int32_t> labels;
  std::span<const float> soft_labels{};
  float soft_weight = 0;  ///< in [0, 1]
};

struct Evaluation {
  double loss_sum = 0;      ///< Σ over rows of the loss
  std::size_t correct = 0;  ///< rows whose class was predicted
  std::size_t rows = 0;
  bool has_accuracy = true;
  Evaluation& operator+=(const Evaluation& o);
  double loss() const { return rows ? loss_sum / static_cast<double>(rows) : 0; }
  double accuracy() const { return rows ? static_cast<double>(correct) / static_cast<double>(rows) : 0; }
};

/// Called with a layer's index, last layer first, once its gradient stands in g and its parameters will not
/// be read again by this call (so that the callee may change x there).
using OnLayer = std::function<void(std::size_t layer)>;

/// Whatever has parameters in layers.
class Layered {
 public:
  virtual ~Layered() = default;
  const std::vector<Layer>& layers() const { return layers_; }
  std::size_t buffer_size() const { return buffer_size_; }  ///< floats, padding included
  std::size_t parameters() const;                           ///< floats, padding not included

 protected:
  void add_layer(std::string name, std::vector<Tensor> tensors);  ///< tensor offsets are filled in here
  void adopt_layers(const Layered& other);                        ///< has the same ones
  void mark_state(std::size_t layer) { layers_[layer].state = true; }

 private:
  std::vector<Layer> layers_;
  std::size_t buffer_size_ = 0;
};

/// Holds scratch memory only; parameters and gradients are the caller's buffers of buffer_size() floats,
/// 64-byte aligned. One thread at a time.
class Model : public Layered {
 public:
  /// Fills x with the initial parameters drawn from seed (padding = 0). Same on every host.
  virtual void initialise(std::uint64_t seed, std::span<float> x) const = 0;
  /// Mean loss over the batch; g ← its gradient at x (overwritten, padding = 0). batch.size ≥ 1; labels are
  /// below the number of classes; on_layer may be empty.
  virtual double gradient(std::span<float> x, const Batch& batch, std::span<float> g,
                          const OnLayer& on_layer) = 0;
  virtual Evaluation evaluate(std::span<const float> x, const Batch& batch) = 0;
  virtual std::size_t classes() const { return 0; }  ///< that rows are told apart into; 0: no classifier
  /// probabilities [batch.size, classes()] ← each class's, of every row; labels are not read. Throws
  /// OptimError where classes() is 0.
  virtual void predict(std::span<const float> x, const Batch& batch, std::span<float> probabilities);
};

struct ModelSpec {
  std::string kind = "mlp";                   ///< a name of model_table()
  std::vector<std::size_t> hidden{256, 128};  ///< mlp: sizes of the hidden layers
  std::size_t features = 0, classes = 0;      ///< from the data set
};

/// A specification or a data file that cannot be used: what was found, what was expected, what to do.
class OptimError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  /// found is none of the names; whoever shows the message can add the one that was meant.
  OptimError(const std::string& message, std::string_view word, std::vector<std::string> known)
      : runtime_error(message), found(word), names(std::move(known)) {}
  std::string found;
  std::vector<std::string> names;
};

/// A row of a table of parts, as others see it.
struct NamedHelp {
  const char* name;
  const char* help;  ///< one line
  /// Keys of the job's section that make a difference to it, of those that no row of its table but such as
  /// name them reads; blanks between them.
  const char* reads = "";
};
/// Whether the key (without its section) makes a difference to the row of that name: it names the key, or no
/// row of the table does. False where there is no such row.
bool reads(std::span<const NamedHelp> table, std::string_view name, std::string_view key);

/// What others may know of a kind of model.
struct ModelTraits {
  bool classifier = true;  ///< its rows have labels, and it predicts a class for each: classes() > 0
  bool hidden = false;     ///< has hidden layers, of sizes that peers may choose
};
std::span<const NamedHelp> model_table();  ///< the keys are those of [model]
/// Throws OptimError for an unknown name, as make_model.
const ModelTraits& model_traits(std::string_view kind);
std::unique_ptr<Model> make_model(const ModelSpec& spec);

/// Threads that the dense algebra of this process uses (OpenBLAS). 1 makes results independent of the
/// machine's cores.
void set_blas_threads(int threads);

}  // namespace gossamer::optim
