#pragma once
// A SparseModel learns clicks from samples of few keys each, out of a table of rows by 64-bit key: it works
// on the rows that were pulled for a batch, and says how they should change.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gossamer/optim/model.h"

namespace gossamer::optim {

/// The row of the intercept w₀; no sample may have this key.
inline constexpr std::uint64_t kBiasKey = UINT64_MAX;

/// A view of one sample: keys with their values (equally many), and whether it was a click.
struct Sample {
  std::span<const std::uint64_t> keys;
  std::span<const std::uint32_t> fields;  ///< of each key; empty: all are of field 0
  std::span<const float> values;
  float label = 0;             ///< 0 or 1
  std::uint64_t hash = 0;      ///< of its content
  std::uint64_t position = 0;  ///< in its stream; hash and position together tell samples apart
};

/// Samples in compressed rows: entry e of sample b, begins()[b] ≤ e < begins()[b + 1], has the key
/// keys()[index()[e]]. Every key is there once, in the order of first appearance, so that its row is pulled
/// once. Memory is kept from one batch to the next. One thread at a time.
class SparseBatch {
 public:
  SparseBatch() { clear(true); }
  /// Empties it; with `bias`, keys()[0] is kBiasKey (SparseModel::reads_bias()).
  void clear(bool bias);
  /// Copies the sample; fewer than 2^32 entries in all.
  void add(const Sample& sample);

  std::size_t size() const { return samples_; }
  std::size_t entries() const { return entries_; }
  bool has_bias() const { return bias_; }
  std::uint32_t field_count() const;  ///< one more than the largest field: looks at all entries
  std::span<const std::uint64_t> keys() const { return {keys_.data() + 1, key_count_}; }
  std::span<const std::uint32_t> begins() const { return {begins_.data(), samples_ + 1}; }
  std::span<const std::uint32_t> index() const { return {index_.data(), entries_}; }    ///< by entry
  std::span<const std::uint32_t> fields() const { return {fields_.data(), entries_}; }  ///< by entry
  std::span<const float> values() const { return {values_.data(), entries_}; }          ///< by entry
  std::span<const float> labels() const {
    return {labels_.data(), samples_};
  }  ///< by sample, as the two below
  std::span<const std::uint64_t> hashes() const { return {hashes_.data(), samples_}; }
  std::span<const std::uint64_t> positions() const { return {positions_.data(), samples_}; }

 private:
  std::size_t find_known(std::span<const std::uint64_t> keys, std::uint32_t* index) const;
  void find_or_add(std::span<const std::uint64_t> keys, std::uint32_t* index);
  void make_room(std::size_t more_entries);
  void set_slots(std::size_t slots);

  bool bias_ = true, has_fields_ = false;
  bool all_known_ = false;   ///< the last sample's keys were there
  std::uint32_t shift_ = 0;  ///< 64 − log2 of the slots
  std::size_t samples_ = 0, entries_ = 0, key_count_ = 0;
  std::vector<std::uint64_t> keys_;   ///< the first is no key; as those below longer than what is used
  std::vector<std::uint32_t> slots_;  ///< open addressing: place in keys_, 0 where free
  std::vector<std::uint64_t> hashes_, positions_;
  std::vector<std::uint32_t> begins_, index_, fields_;  ///< fields_ is 0 where it is not used
  std::vector<float> values_, labels_;
};

struct SparseModelSpec {
  std::string kind = "lr";              ///< a name of sparse_model_table()
  std::size_t factors = 8;              ///< k: floats of an embedding or of a latent vector, 1 to 1024
  std::size_t fields = 1;               ///< F, for ffm and pooling = concat: fields are below it
  std::vector<std::size_t> hidden{64};  ///< dnn, wide_deep, deepfm: units of the hidden layers
  std::string pooling = "sum";  ///< the same: of a sample's embeddings: sum, concat (one place a field)
  /// Of initialise_row's latent vectors (uniform); a table draws them normally with 1/√3 of it. Weights start
  /// at 0.
  double deviation = 0.05;
};

/// What the rest of a program must know of a model without making one.
struct SparseModelRow {
  const char* name;
  const char* help;
  const char* row;   ///< what a key's row holds
  bool reads_bias;   ///< the row of kBiasKey is w₀ (its first float)
  bool has_factors;  ///< rows hold vectors of spec.factors floats
  bool has_dense;    ///< there are dense parameters beside the table
  bool (*reads_fields)(const SparseModelSpec&);
  std::size_t (*row_width)(const SparseModelSpec&);  ///< floats
};
std::span<const SparseModelRow> sparse_model_table();  ///< lr, fm, ffm, dnn, wide_deep, deepfm

/// What gradient() writes.
struct SparseGradient {
  std::span<float> rows;           ///< [batch.keys(), row_width()]: of the *summed* loss
  std::span<float> dense;          ///< [buffer_size()]: of the *mean* loss, padding = 0
  std::span<float> probabilities;  ///< [batch.size()], before learning; may be empty
};

/// With p = σ(z) the loss of a sample is −y ln p − (1−y) ln(1−p). Holds scratch memory only; rows, dense
/// parameters and gradients are the caller's. Rows learn from the sum over the samples, as if the samples
/// that have the key came one by one (an owner adds what workers push, however many samples each had); dense
/// parameters from the mean, as any Model's. One thread at a time.
class SparseModel {
 public:
  virtual ~SparseModel() = default;
  std::size_t row_width() const { return row_width_; }  ///< floats
  bool reads_bias() const { return reads_bias_; }
  const std::vector<Layer>& layers() const { return layers_; }  ///< of the dense part, empty without one
  std::size_t buffer_size() const { return buffer_size_; }  ///< floats of the dense part, padding included

  /// Fills the dense parameters, drawn from seed (padding = 0).
  virtual void initialise(std::uint64_t seed, std::span<float> x) const = 0;
  /// What a key's row is before it has learnt anything: a pure function of seed and key, on any host.
  virtual void initialise_row(std::uint64_t seed, std::uint64_t key, std::span<float> row) const = 0;

  /// Mean loss of the batch (size ≥ 1, has_bias() == reads_bias()) with the pulled rows [batch.keys(),
  /// row_width()] and the dense parameters x; out is overwritten. on_layer as in Model::gradient, may be
  /// empty. Throws OptimError where the batch has a field that is not below spec.fields.
  virtual double gradient(const SparseBatch& batch, std::span<const float> rows, std::span<const float> x,
                          const SparseGradient& out, const OnLayer& on_layer) = 0;
  /// probabilities [batch.size()] ← p of each sample; labels are not read. Throws as gradient.
  virtual void predict(const SparseBatch& batch, std::span<const float> rows, std::span<const float> x,
                       std::span<float> probabilities) = 0;

 protected:
  std::size_t row_width_ = 0, buffer_size_ = 0;
  bool reads_bias_ = true;
  std::vector<Layer> layers_;
};

/// Throws OptimError for unknown names and values out of range.
std::unique_ptr<SparseModel> make_sparse_model(const SparseModelSpec& spec);

}  // namespace gossamer::optim
