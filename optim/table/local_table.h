#pragma once
// The table of this process.
#include <atomic>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "batch_order.h"
#include "gossamer/optim/table.h"
#include "shard.h"

namespace gossamer::optim {

class LocalTable final : public Table {
 public:
  /// Throws OptimError for values out of range.
  explicit LocalTable(const TableSpec& spec);
  const TableSpec& spec() const override { return spec_; }
  std::size_t pull(std::span<const std::uint64_t> keys, std::span<float> weights,
                   std::span<std::uint32_t> versions) const override;
  void push(std::span<const std::uint64_t> keys, std::span<const float> gradients) override;
  std::size_t pull_to_learn(std::span<const std::uint64_t> keys, std::span<float> weights,
                            PulledRows& pulled) const override;
  void push_pulled(const PulledRows& pulled, std::span<const float> gradients) override;
  void add(std::span<const std::uint64_t> keys, std::span<const float> deltas) override;
  void observe(std::span<const std::uint64_t> keys, std::span<const float> clicked) override;
  void click_rates(std::span<const std::uint64_t> keys, std::span<float> rates) const override;
  std::size_t evict() override;
  TableStatistics statistics() const override;
  void visit(const std::function<void(const TableRow&)>& visitor) const override;
  void save(const ByteSink& sink) const override;

  const RowShape& shape() const { return shape_; }
  void set_steps(std::uint64_t steps) { steps_ = steps; }
  /// The rows of a shard from its number `first` on, as many as fit in `most` bytes, each as its key and its
  /// words; first ← where to go on. Empty at the shard's end.
  void copy_rows(std::size_t shard, std::uint64_t& first, std::size_t most,
                 std::vector<std::byte>& rows) const;
  /// A row with these words, the step that touched it among them; drops it where there is no room.
  void put(std::uint64_t key, std::span<const float> words);
  std::size_t shards() const { return shards_.size(); }
  std::size_t record_bytes() const { return sizeof(std::uint64_t) + shape_.bytes(); }

 private:
  class Order;  ///< a BatchOrder, taken from those that lie idle
  struct Run {
    std::size_t shard, first, end;
  };
  /// use(run) for each shard's stretch of the sorted keys.
  template <class Use>
  void for_runs(std::span<const MixedKey> sorted, const Use& use) const;
  /// use(shard, place or nullptr, index) for each key, in any order, under its shard's shared lock. notes,
  /// unless null: room for as many keys and places, which it fills.
  template <class Use>
  void read(std::span<const std::uint64_t> keys, PulledRows* notes, const Use& use) const;
  /// Keys of a call from `start` on, as the table keeps them, and room for where their rows are.
  struct Block {
    std::size_t n, start;
    const std::uint64_t* mixed;
    const std::byte** places;
  };
  template <bool inside, class Use>
  void read_block(const Block& block, Use use) const;
  std::size_t pull(std::span<const std::uint64_t> keys, std::span<float> weights,
                   std::span<std::uint32_t> versions, PulledRows* notes) const;
  template <std::size_t columns>
  std::size_t pull_single(std::span<const std::uint64_t> keys, std::span<float> weights,
                          PulledRows* notes) const;
  std::uint64_t note_moves(std::uint64_t touched, std::uint64_t noted, PulledRows& notes) const;
  struct Gradients {
    const float* at;
    bool careful;  ///< RowOptimizer::step
  };
  void push_shard(std::size_t of_shard, std::span<std::uint32_t> which, const PulledRows& pulled,
                  const Gradients& gradients, std::span<float> first_weights);
  void step(float* row, std::span<const float> gradient, bool careful) const;
  void step_single(std::span<std::byte* const> places, const std::uint32_t* which, const Gradients& gradients,
                   std::uint32_t now) const;
  /// use(row's words, sum of its key's values) for each key that has a row or gets one.
  template <class Use>
  void write(std::span<const std::uint64_t> keys, std::span<const float> values, const Use& use);
  template <class Use>
  void write_run(const Run& run, std::span<const MixedKey> sorted, const float* values, std::span<float> sums,
                 const Use& use);
  std::byte* make_row(Shard& shard, std::uint64_t mixed, std::uint32_t now, std::span<float> first);
  void prefetch(std::uint64_t mixed) const { shards_[shard_of(mixed)]->prefetch(number(mixed)); }
  void prefetch(std::span<const MixedKey> sorted, std::size_t i) const;
  void first_weights(std::uint64_t key, std::span<float> weights) const;
  bool starts_at_zero() const { return spec_.linear >= spec_.width || spec_.initial_scale == 0; }
  void require_statistics() const;
  void sweep_some(std::uint64_t step);
  std::uint64_t number(std::uint64_t mixed) const { return mixed & (~std::uint64_t{0} >> shard_bits_); }
  std::size_t shard_of(std::uint64_t mixed) const { return mixed >> (64 - shard_bits_); }
  std::uint64_t key_of(std::size_t shard, std::uint64_t r) const;

  const TableSpec spec_;
  const RowShape shape_;
  const std::uint64_t salt_, weights_key_;
  const unsigned shard_bits_;
  Budget budget_;
  PagePool rows_;  ///< of those that do not stand in maps
  Admission admission_;
  Pages filter_;
  std::vector<std::unique_ptr<Shard>> shards_;
  std::atomic<std::uint64_t> steps_{0};
  mutable std::atomic<std::uint64_t> turns_{0};  ///< calls of for_runs
  mutable std::mutex idle_mutex_;
  mutable std::vector<std::unique_ptr<BatchOrder>> idle_;
};

}  // namespace gossamer::optim
