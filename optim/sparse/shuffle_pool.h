#pragma once
// A ShufflePool draws samples from blocks that were read ahead: a random block, a random one of its samples
// that are left, so that whole blocks are used up and make room for others. With a given number of rows any
// of these is as likely, whichever its block, and the text's next row takes its place; blocks are then held
// until the last of their rows is drawn, about ten times as long. Or, unshuffled, one after the other.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "block_queue.h"
#include "random.h"
#include "sample_block.h"

namespace gossamer::optim {

class ShufflePool {
 public:
  /// memory: bytes of the blocks in the pool; rows: as SampleStreamSpec::shuffle_rows.
  ShufflePool(bool shuffle, std::size_t rows, std::size_t memory, std::uint64_t key, MemoryMeter& meter);
  ~ShufflePool();
  ShufflePool(const ShufflePool&) = delete;
  ShufflePool& operator=(const ShufflePool&) = delete;

  /// An empty pool draws as a new one would; `taken` keeps what it draws apart from what it drew.
  void begin_anew(std::uint64_t taken) {
    draws_ = taken * kMostDraws;
    largest_part_ = 1;
  }
  bool empty() const { return parts_.empty() && waiting_.empty() && given_ == picks_.size(); }
  /// Whether another block would help, if there is room for it.
  bool wants() const { return given_ == picks_.size() && waiting_.empty() && rows_ < most_rows_; }
  /// After wants(); gives up the sample that next() gave last.
  bool make_room(const SampleBlock& block);
  /// But for its first `skipped` samples.
  void add(std::unique_ptr<SampleBlock> block, std::size_t skipped);

  /// A sample of the pool, valid until the next call of next().
  struct Pick {
    const SampleBlock* block;
    std::size_t row;
  };
  /// Null where the pool is empty. Several are drawn at once, so that their memory can be fetched ahead:
  /// blocks are better added when wants() says so.
  const Pick* next();

 private:
  static constexpr std::uint64_t kAttempts = 32, kMostDraws = 128;  ///< for a sample
  struct Held {
    std::unique_ptr<SampleBlock> block;
    std::size_t left;   ///< rows not drawn
    std::size_t bytes;  ///< on the meter
  };
  /// Of a block. Those left are first … first + left − 1, or where there is an order, its first `left`.
  struct Part {
    Held* held;
    std::size_t first, left, size;
    std::vector<std::uint32_t> order;
  };
  /// Of the block and what is kept of each of its rows.
  std::size_t bytes_with(const SampleBlock& block) const {
    return block.bytes() + block.rows() * (part_rows_ == 1 ? sizeof(Part) : sizeof(std::uint32_t));
  }
  void open_parts();
  void draw_picks();
  Part& random_part();
  Pick draw();
  void drop_drawn();

  bool shuffle_;
  std::size_t most_rows_, part_rows_, memory_;
  std::uint64_t key_, draws_ = 0;
  MemoryMeter& meter_;
  std::vector<std::unique_ptr<Held>> held_;
  std::deque<Part> waiting_;  ///< in the text's order
  std::vector<Part> parts_;   ///< that are drawn from
  std::size_t largest_part_ = 1;
  std::size_t rows_ = 0;   ///< left in parts_
  std::size_t bytes_ = 0;  ///< of held_
  std::vector<Pick> picks_;
  std::size_t given_ = 0;  ///< of picks_
};

}  // namespace gossamer::optim
