#pragma once
// A Dataset holds what is learned from; a Split deals it to peers, and a BatchStream reads ahead.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gossamer/optim/model.h"

namespace gossamer::optim {

/// Immutable rows in memory; shared between peers of one process. Thread-safe.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::size_t rows() const = 0;
  virtual std::size_t features() const = 0;
  virtual std::size_t classes() const = 0;  ///< 0 where there are no labels
  virtual std::int32_t label(std::size_t row) const = 0;
  /// out[r·features …] ← row rows[r], normalised as the data specification says.
  virtual void gather(std::span<const std::uint32_t> rows, std::span<float> out) const = 0;
  virtual std::uint64_t hash() const = 0;  ///< of shape, values and labels: equal data, equal hash
};

struct DataSpec {
  std::string format = "synthetic";  ///< a name of data_format_table()
  std::string path{};                ///< idx: directory; csv: the training file
  std::string test_path{};           ///< csv: the test file; empty = a tenth of path's rows, drawn by seed
  std::string label = "last";        ///< csv: label column: first, last, a 0-based index or a header name
  double mean = 0, scale = 1;        ///< idx: value = (byte/255 − mean)/scale; csv: (value − mean)/scale
  /// csv: each column of numbers less its mean and divided by its standard deviation, both of the training
  /// rows; 0 where it is constant.
  bool standardize = false;
  std::string text_as = "refuse";   ///< csv: refuse, onehot or hash:N (text_coding_table())
  std::vector<std::string> text{};  ///< csv: columns read as text, by index or name; "*" for all; none: those
                                    ///< whose first value, in 100 rows, is no number
  std::size_t limit = 0;            ///< training rows to use, drawn by seed and kept in order; 0 = all
  // synthetic: `classes` Gaussian blobs in `features` dimensions, centres drawn N(0, separation²), unit noise
  std::size_t rows = 4096, test_rows = 1024, features = 16, classes = 4;
  double separation = 1.0;
  std::uint64_t seed = 1;             ///< of synthetic data; of the rows that limit and test_path draw
  std::uint64_t memory = UINT64_MAX;  ///< bytes that the rows may take
};

struct Data {
  std::shared_ptr<const Dataset> train, test;
};
/// What others may know of a data format.
struct DataFormatTraits {
  bool needs_path = true;  ///< is read from DataSpec::path
  bool synthetic = false;  ///< is made from numbers of the specification: what cannot be made is one of these
};
std::span<const NamedHelp> text_coding_table();
/// Throws OptimError for an unknown name, or an N that is not from 2 to 2^20.
void check_text_coding(std::string_view name);
/// A member whose value makes no sense beside another's, and why.
struct DataSpecFault {
  std::string member, what;
};
/// The first one found; load_data throws for it.
std::optional<DataSpecFault> contradiction(const DataSpec& spec);

std::span<const NamedHelp> data_format_table();  ///< the keys are those of [data]
/// Throws OptimError for an unknown name, as load_data.
const DataFormatTraits& data_format_traits(std::string_view format);
/// idx: train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-…; each plain or .gz. csv: RFC 4180 with
/// comma, semicolon or tab, with or without a header line, plain or gzip; labels that are integers from 0 to
/// 65535 are the classes, others are numbered by value or in the order of their texts; test rows have none
/// that no training row has. Of a text column, onehot makes a feature for each text of the training rows (at
/// most 1024), in the order of first appearance, and hash:N makes N; a row has 1 in its text's and 0 in the
/// others. An empty field has none, nor has a text that only test rows hold a feature under onehot. Rows take
/// a float a column in memory; batches have them in full. Throws OptimError: missing or truncated file (how
/// many bytes were found and expected), a bad magic number, a CSV field that is no number (file:line:column),
/// too many texts in a column, row counts of images and labels that differ, more rows than memory holds.
Data load_data(const DataSpec& spec);
/// Puts what load_data gave where processes of this host can read it in place: an open file descriptor of
/// memory, the caller's, that programs started by this one have as well. Throws OptimError: no memory.
int share_data(const Data& data);
/// The same data, hashes included, mapped from there; the descriptor stays the caller's and may be closed.
/// Throws OptimError where it is of anything else.
Data shared_data(int fd);

/// A peer that rows were dealt to.
struct RowHome {
  std::string name;
  std::size_t batch = 1;
};
/// How the rows are shared out: local_shuffle (fixed shard, shuffled each epoch), with_replacement (drawn
/// from all), global_shuffle (reshuffled across peers each epoch), dirichlet:alpha (label skew, alpha
/// from 1e-6 to 1e9, then as local_shuffle).
struct SplitSpec {
  std::string kind = "local_shuffle";
  std::uint64_t seed = 1;
  std::vector<std::size_t> batches;  ///< rows per step of each peer (P entries); shards are in proportion
  /// Where peers come and go: names of those that are there (P entries), and all that the rows were dealt to
  /// at first. Empty: they are the same. Rows of who is not there go to the others, by rendezvous.
  std::vector<std::string> names{};
  std::vector<RowHome> homes{};
  bool stays = false;  ///< rows of who is not there are nobody's; of local_shuffle and dirichlet alone
};
std::span<const NamedHelp> split_table();

/// What a peer has still to train of the pass over its rows that is under way.
struct RowsLeft {
  std::vector<std::uint32_t> rows{};  ///< in order; none where no pass is under way
  std::uint64_t next_pass = 0;        ///< that comes then, from 0; with_replacement: batches drawn
};

/// The rows of each step of one peer: a pure function of (spec, peer, step). Steps per epoch are the same for
/// all peers: floor(rows / Σ batches), at least 1. Where a dirichlet shard holds less than an epoch's rows it
/// is reshuffled and reused; a larger one is covered over several epochs. A pass is an epoch, or goes once
/// over a dirichlet shard. One thread at a time.
class Sampler {
 public:
  virtual ~Sampler() = default;
  virtual std::size_t steps_per_epoch() const = 0;
  /// Fills rows (size = this peer's batch) with the row numbers of `step`.
  virtual void rows_of(std::uint64_t step, std::span<std::uint32_t> rows) = 0;
  /// What is left before that step.
  virtual RowsLeft left(std::uint64_t step) = 0;
};
/// The rows dealt out to all peers, once; the samplers made from it share what is not a peer's own.
class Split {
 public:
  /// Throws OptimError for an unknown kind, a bad alpha, a batch of 0, fewer rows than peers, or `stays`
  /// where a peer has no home.
  Split(const SplitSpec& spec, std::shared_ptr<const Dataset> data);
  ~Split();
  Split(Split&&) noexcept;
  /// Samplers of different peers may be used by different threads.
  std::unique_ptr<Sampler> sampler(std::size_t peer) const;
  /// Of a peer that took part in another deal of the rows: its steps count from first_step on, and are what
  /// was left to it there; then come whole passes over what it has here.
  std::unique_ptr<Sampler> sampler(std::size_t peer, std::uint64_t first_step, RowsLeft left) const;

 private:
  std::unique_ptr<const class Deal> deal_;
};
/// Split(spec, data).sampler(peer), for one peer alone.
std::unique_ptr<Sampler> make_sampler(const SplitSpec& spec, std::shared_ptr<const Dataset> data,
                                      std::size_t peer);
/// Checks the spec's text without data ("dirichlet:0"); throws OptimError. stays: as SplitSpec's.
void check_split(std::string_view kind, bool stays = false);

/// Batches of consecutive steps, gathered ahead by a thread of its own (threaded) or when asked for.
class BatchStream {
 public:
  BatchStream(std::shared_ptr<const Dataset> data, std::unique_ptr<Sampler> sampler, std::size_t batch,
              std::uint64_t first_step, bool threaded);
  ~BatchStream();
  BatchStream(const BatchStream&) = delete;
  BatchStream& operator=(const BatchStream&) = delete;
  /// The next step's batch, 64-byte aligned; valid until the next call. What dataset or sampler threw for a
  /// step is thrown when that step's turn comes, and again by every later call.
  const Batch& next();
  /// What next() gives then, where it has been gathered already; else null. Valid until the call after that.
  const Batch* ahead() const;
  /// The numbers of the rows of what next() gave last; valid as long.
  std::span<const std::uint32_t> rows() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Whole-set evaluation in blocks of at most 1024 rows; before each of them go_on is called, which may throw.
Evaluation evaluate(Model& model, std::span<const float> x, const Dataset& data,
                    const std::function<void()>& go_on = {});

}  // namespace gossamer::optim
