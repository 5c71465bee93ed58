#include "shuffle_pool.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace gossamer::optim {
namespace {

constexpr std::size_t kPicks = 16;  // drawn at once: what memory fetches beside each other

}  // namespace

ShufflePool::ShufflePool(bool shuffle, std::size_t rows, std::size_t memory, std::uint64_t key,
                         MemoryMeter& meter)
    : shuffle_(shuffle),
      most_rows_(!shuffle   ? 1
                 : rows > 0 ? rows
                            : SIZE_MAX),
      part_rows_(shuffle && rows > 0 ? 1 : SIZE_MAX),
      memory_(memory),
      key_(key),
      meter_(meter) {}

ShufflePool::~ShufflePool() { meter_.remove(bytes_); }

bool ShufflePool::make_room(const SampleBlock& block) {
  drop_drawn();
  return held_.empty() || bytes_ + bytes_with(block) <= memory_;
}

void ShufflePool::add(std::unique_ptr<SampleBlock> block, std::size_t skipped) {
  const std::size_t rows = block->rows() - skipped, bytes = bytes_with(*block);
  meter_.add(bytes - block->bytes());
  if (rows == 0) {
    meter_.remove(bytes);
    return;
  }
  bytes_ += bytes;
  held_.push_back(std::make_unique<Held>(Held{std::move(block), rows, bytes}));
  waiting_.push_back({held_.back().get(), skipped, rows, rows, {}});
  open_parts();
}

void ShufflePool::open_parts() {
  while (!waiting_.empty()) {
    Part& all = waiting_.front();
    const std::size_t size = std::min(part_rows_, all.left);
    if (rows_ > 0 && rows_ + size > most_rows_) return;
    Part part{all.held, all.first, size, size, {}};
    if (shuffle_ && size > 1) {
      part.order.resize(size);
      std::iota(part.order.begin(), part.order.end(), static_cast<std::uint32_t>(part.first));
    }
    all.first += size;
    all.left -= size;
    if (all.left == 0) waiting_.pop_front();
    largest_part_ = std::max(largest_part_, size);
    rows_ += size;
    parts_.push_back(std::move(part));
  }
}

/// As often as it was large at first: large and small ones are used up at the same time, so that none is left
/// over for the end. (By what is left, most of the memory would soon be held by blocks nearly used up.)
ShufflePool::Part& ShufflePool::random_part() {
  for (std::uint64_t attempt = 0;; ++attempt) {
    Part& part = parts_[below(key_, draws_++, parts_.size())];
    if (attempt == kAttempts || below(key_, draws_++, largest_part_) < part.size) return part;
  }
}

ShufflePool::Pick ShufflePool::draw() {
  Part& part = shuffle_ ? random_part() : parts_.front();
  std::size_t row = part.first;
  if (!part.order.empty()) {
    std::uint32_t& at = part.order[below(key_, draws_++, part.left)];
    row = std::exchange(at, part.order[part.left - 1]);
  }
  ++part.first;
  --part.left;
  --part.held->left;
  --rows_;
  const Pick pick{part.held->block.get(), row};
  if (part.left == 0) {
    if (&part != &parts_.back()) part = std::move(parts_.back());
    parts_.pop_back();
  }
  return pick;
}

void ShufflePool::drop_drawn() {
  std::erase_if(held_, [this](const std::unique_ptr<Held>& held) {
    if (held->left > 0) return false;
    bytes_ -= held->bytes;
    meter_.remove(held->bytes);
    return true;
  });
}

void ShufflePool::draw_picks() {
  picks_.clear();
  given_ = 0;
  drop_drawn();
  open_parts();
  for (std::size_t i = 0; i < kPicks && rows_ > 0; ++i) {
    picks_.push_back(draw());
    picks_.back().block->prefetch_head(picks_.back().row);
    open_parts();
  }
  for (const Pick& pick : picks_) pick.block->prefetch_entries(pick.row);
}

const ShufflePool::Pick* ShufflePool::next() {
  if (given_ == picks_.size()) draw_picks();
  return given_ == picks_.size() ? nullptr : &picks_[given_++];
}

}  // namespace gossamer::optim
