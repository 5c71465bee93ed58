// The splits that deal out rows without looking at them.
#include <algorithm>
#include <cassert>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>

#include "random.h"
#include "splits.h"

namespace gossamer::optim {
namespace {

constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();

/// The peer's rows as one endless sequence, cut into passes; row number q of it is entry q mod length of the
/// permutation of pass q div length. Only the permutation in use is kept.
class ShardSampler final : public Sampler {
 public:
  ShardSampler(const SplitInput& in, std::vector<std::uint32_t> shard, std::size_t pass_length)
      : seed_(in.seed),
        peer_(in.peer),
        batch_(in.batch()),
        steps_(in.steps_per_epoch()),
        length_(pass_length),
        shard_(std::move(shard)),
        order_(shard_.size()) {
    assert(length_ >= 1 && length_ <= shard_.size());
  }

  std::size_t steps_per_epoch() const override { return steps_; }

  void rows_of(std::uint64_t step, std::span<std::uint32_t> rows) override {
    assert(rows.size() == batch_);
    for (std::size_t j = 0; j < rows.size(); ++j) {
      const std::uint64_t q = step * batch_ + j;
      if (q / length_ != pass_) reshuffle(q / length_);
      rows[j] = order_[q % length_];
    }
  }

 private:
  void reshuffle(std::uint64_t pass) {
    order_ = shard_;
    shuffle(order_, make_key(seed_, Use::epoch, peer_, pass));
    pass_ = pass;
  }

  std::uint64_t seed_, peer_;
  std::size_t batch_, steps_, length_;
  std::vector<std::uint32_t> shard_, order_;
  std::uint64_t pass_ = kNone;
};

/// Rows drawn independently and uniformly from all.
class ReplacementSampler final : public Sampler {
 public:
  explicit ReplacementSampler(const SplitInput& in)
      : key_(make_key(in.seed, Use::draw, in.peer)),
        rows_(in.data.rows()),
        batch_(in.batch()),
        steps_(in.steps_per_epoch()) {}

  std::size_t steps_per_epoch() const override { return steps_; }

  void rows_of(std::uint64_t step, std::span<std::uint32_t> rows) override {
    assert(rows.size() == batch_);
    for (std::size_t j = 0; j < rows.size(); ++j) rows[j] = below(key_, step * batch_ + j, rows_);
  }

 private:
  std::uint64_t key_;
  std::size_t rows_, batch_, steps_;
};

/// One permutation of all rows per epoch, the same at every peer; step i of the epoch takes its Σ batches
/// entries from i·Σ batches on, of which this peer's part starts at the sum of the batches before it.
class GlobalSampler final : public Sampler {
 public:
  explicit GlobalSampler(const SplitInput& in)
      : seed_(in.seed),
        batch_(in.batch()),
        total_(in.total_batch()),
        steps_(in.steps_per_epoch()),
        order_(in.data.rows()) {
    first_ = std::accumulate(in.batches.begin(), in.batches.begin() + static_cast<std::ptrdiff_t>(in.peer),
                             std::size_t{0});
  }

  std::size_t steps_per_epoch() const override { return steps_; }

  void rows_of(std::uint64_t step, std::span<std::uint32_t> rows) override {
    assert(rows.size() == batch_);
    if (step / steps_ != epoch_) {
      epoch_ = step / steps_;
      permutation(order_, make_key(seed_, Use::epoch, epoch_));
    }
    const std::size_t start = static_cast<std::size_t>(step % steps_) * total_ + first_;
    // Only where there are fewer rows than one step of all peers needs does the end meet the beginning.
    for (std::size_t j = 0; j < rows.size(); ++j) rows[j] = order_[(start + j) % order_.size()];
  }

 private:
  std::uint64_t seed_;
  std::size_t batch_, total_, steps_, first_ = 0;
  std::vector<std::uint32_t> order_;
  std::uint64_t epoch_ = kNone;
};

/// Boundaries of contiguous parts of `rows` in proportion to the batches, none empty: peer p has [bound p,
/// bound p+1).
std::vector<std::size_t> boundaries(const SplitInput& in) {
  const std::size_t rows = in.data.rows(), peers = in.batches.size(), total = in.total_batch();
  std::vector<std::size_t> bound(peers + 1, 0);
  std::size_t before = 0;
  for (std::size_t p = 0; p < peers; ++p) {
    before += in.batches[p];
    // rows·before/total in two parts, so that the product stays small
    bound[p + 1] = rows / total * before + rows % total * before / total;
    bound[p + 1] = std::max(bound[p + 1], bound[p] + 1);
  }
  for (std::size_t p = 0; p <= peers; ++p) bound[p] = std::min(bound[p], rows - (peers - p));
  return bound;
}

}  // namespace

std::unique_ptr<Sampler> make_shard_sampler(const SplitInput& in, std::vector<std::uint32_t> shard,
                                            std::size_t pass_length) {
  return std::make_unique<ShardSampler>(in, std::move(shard), pass_length);
}

std::unique_ptr<Sampler> make_local_shuffle(const SplitInput& in) {
  std::vector<std::uint32_t> order(in.data.rows());
  permutation(order, make_key(in.seed, Use::shards));
  const std::vector<std::size_t> bound = boundaries(in);
  std::vector<std::uint32_t> shard(order.begin() + static_cast<std::ptrdiff_t>(bound[in.peer]),
                                   order.begin() + static_cast<std::ptrdiff_t>(bound[in.peer + 1]));
  // A pass is an epoch: the few rows above a whole number of batches sit it out, others in the next epoch.
  const std::size_t length = std::min(shard.size(), in.steps_per_epoch() * in.batch());
  return make_shard_sampler(in, std::move(shard), length);
}

std::unique_ptr<Sampler> make_with_replacement(const SplitInput& in) {
  return std::make_unique<ReplacementSampler>(in);
}

std::unique_ptr<Sampler> make_global_shuffle(const SplitInput& in) {
  return std::make_unique<GlobalSampler>(in);
}

}  // namespace gossamer::optim
