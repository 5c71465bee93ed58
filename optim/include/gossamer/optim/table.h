#pragma once
// A Table holds the rows of a sparse model by 64-bit key: weights, the optimiser's state, a version.
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gossamer/optim/byte_stream.h"
#include "gossamer/optim/model.h"

namespace gossamer::optim {

struct TableSpec {
  std::size_t width = 1;           ///< weights of a row, in [1, 4096]
  std::size_t linear = 1;          ///< of these, the first ones that start at 0 (the others: initial_scale)
  std::string optimizer = "ftrl";  ///< a name of row_optimizer_table()
  double learning_rate = 0.05;
  double beta = 1, l1 = 0, l2 = 0;    ///< ftrl
  double beta1 = 0.9, beta2 = 0.999;  ///< adam
  double epsilon = 1e-8;              ///< adagrad, adam
  double initial_scale = 0;           ///< standard deviation of the first weights that are not linear
  std::uint64_t seed = 1;             ///< of the first weights
  /// Of where rows stand, with the seed: different for tables one of which is filled in the order in which
  /// another is visited, or its rows would stand too close together until all are there.
  std::uint64_t places = 0;
  std::size_t memory = 0;               ///< limit in bytes, at least 256 KiB; 0: none
  std::size_t admit_after = 1;          ///< times that a key is pushed until it gets a row, in [1, 15]
  std::size_t filter_bytes = 0;         ///< of the counters of such times; 0: memory/16, or 16 MiB
  std::uint64_t evict_after = 0;        ///< steps after which an untouched row goes, below 2^31; 0: never
  std::uint64_t evict_zeros_after = 0;  ///< the same for rows whose weights are all 0; 0: never
  bool versions = true;                 ///< rows count their updates (adam's always do)
  bool statistics = false;              ///< rows keep decayed shows and clicks
  double decay = 0.999;                 ///< γ of shows and clicks per show, in (0, 1]
  double prior_clicks = 1, prior_others = 20;  ///< a and b of click_rates
  std::size_t shards = 0;  ///< parts with a lock each: a power of 2 in [4, 64]; 0: by memory, at most 16
};

/// An optimiser of single rows, as it describes itself.
struct RowOptimizerInfo {
  const char* name;
  const char* help;
  std::size_t floats;  ///< kept per weight, the weight included
  const char* keys;    ///< of TableSpec that it reads
};
std::span<const RowOptimizerInfo> row_optimizer_table();

struct TableStatistics {
  std::size_t rows = 0, row_bytes = 0;      ///< row_bytes: of one row, its key and free slots not included
  std::size_t bytes = 0, peak_bytes = 0;    ///< taken from the system now, and at most so far
  std::uint64_t steps = 0;                  ///< calls of push
  std::uint64_t admitted = 0;               ///< rows made
  std::uint64_t waiting = 0;                ///< pushes dropped because the key was seen too seldom so far
  std::uint64_t no_room = 0;                ///< pushes dropped because no row could make way for a new one
  std::uint64_t evicted_old = 0;            ///< by evict_after
  std::uint64_t evicted_zero = 0;           ///< by evict_zeros_after
  std::uint64_t evicted_full = 0;           ///< because memory was used up
  unsigned admit_after = 0, tightened = 0;  ///< sightings asked for now; how often they were doubled
};

/// A row as visit shows it; the weights live until the visitor returns.
struct TableRow {
  std::uint64_t key = 0;
  std::span<const float> weights;
  std::uint32_t version = 0;    ///< updates so far, modulo 2^32; 0 where none are counted
  float shows = 0, clicks = 0;  ///< decayed; 0 where none are kept
};

/// What pull_to_learn leaves for push_pulled: which rows were pulled, and for the table itself where they
/// stood. About 20 bytes per key, kept from one pull to the next. One thread at a time.
struct PulledRows {
  const void* table = nullptr;            ///< whose
  std::vector<std::uint64_t> keys;        ///< as the table keeps them
  std::vector<const std::byte*> places;   ///< of rows, where they were
  std::array<std::uint64_t, 64> moves{};  ///< of each of the table's parts, how often rows moved before
};

/// Any number of threads may call anything at once; each row is read and updated as a whole, rows of one call
/// independently of each other. Beside the bytes that statistics() counts, each push, add or observe needs
/// about 20 bytes per key and 256 KiB, which are kept for the next.
///
/// A row is made when its key has been pushed admit_after times (counted by a filter that forgets, and may
/// overestimate). Where a memory limit is set it holds at any moment: when 7/8 of it are used, admit_after is
/// doubled, and again whenever half the rows have had to go for lack of memory; where there is no room for a
/// row, about a sixteenth of its shard goes, rows whose weights are all 0 (ftrl) and then those untouched for
/// longest, none of them touched in the same step; where there is none such, the push of the new row is
/// dropped and counted.
class Table {
 public:
  virtual ~Table() = default;
  virtual const TableSpec& spec() const = 0;

  /// weights[i·width, (i+1)·width) ← the row of keys[i], or the weights it would start with; versions[i] ←
  /// its version, 0 for a missing row (versions may be empty). Makes no rows. Returns how many keys have one;
  /// a key may occur more than once.
  virtual std::size_t pull(std::span<const std::uint64_t> keys, std::span<float> weights,
                           std::span<std::uint32_t> versions = {}) const = 0;

  /// One step: the optimiser's update of each key's row by its gradient; gradients of a key that occurs more
  /// than once are summed in the order of the call and applied as one, and each occurrence is a sighting.
  virtual void push(std::span<const std::uint64_t> keys, std::span<const float> gradients) = 0;

  /// pull and push for whoever learns: the keys, each of which occurs once, are looked up only once for both,
  /// unless rows moved in between. Pushed once per pull.
  virtual std::size_t pull_to_learn(std::span<const std::uint64_t> keys, std::span<float> weights,
                                    PulledRows& pulled) const;
  virtual void push_pulled(const PulledRows& pulled, std::span<const float> gradients);

  /// Adds deltas to weights past the optimiser, as averaging with others does; makes rows as push does, but
  /// is no step. A key that occurs more than once gets the sum.
  virtual void add(std::span<const std::uint64_t> keys, std::span<const float> deltas) = 0;

  /// For each key that has a row, in order of the call: s ← γs + 1, c ← γc + clicked[i]. With statistics
  /// only.
  virtual void observe(std::span<const std::uint64_t> keys, std::span<const float> clicked) = 0;
  /// rates[i] ← (c + a)/(s + a + b); a missing row has s = c = 0. With statistics only.
  virtual void click_rates(std::span<const std::uint64_t> keys, std::span<float> rates) const = 0;

  /// Removes now what evict_after and evict_zeros_after ask for; push does it too, shard by shard, so that
  /// rows go at most an eighth of the time (or `shards` steps) later than that. Returns how many went.
  virtual std::size_t evict() = 0;

  virtual TableStatistics statistics() const = 0;

  /// Shows every row that is there throughout; rows that come or go meanwhile may be shown or not. Nobody
  /// waits while the visitor runs; it may call the table.
  virtual void visit(const std::function<void(const TableRow&)>& visitor) const = 0;

  /// Writes rows as visit sees them, each as it was at some moment of the call, in blocks of at most 1 MiB
  /// that carry their XXH3 hashes; others may read and write meanwhile.
  virtual void save(const ByteSink& sink) const = 0;
};

/// An empty table. Throws OptimError for unknown names and values out of range.
std::unique_ptr<Table> make_table(const TableSpec& spec);

/// A table with the rows that save wrote. The rows' shape must be the spec's (width, optimizer, versions,
/// statistics), memory, rates and the like need not. Memory is taken as rows arrive, whatever the stream
/// claims. Under a memory limit, rows that do not fit are dropped and counted in no_room or evicted_full.
/// Throws OptimError for a damaged or truncated stream and one of another shape: what was found and where.
std::unique_ptr<Table> load_table(const TableSpec& spec, const ByteSource& source);

}  // namespace gossamer::optim
