// The splits that deal out rows without looking at them.
#include <algorithm>
#include <cassert>
#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
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
  ShardSampler(const SplitInput& in, std::size_t peer, std::vector<std::uint32_t> shard,
               std::size_t pass_length)
      : seed_(in.seed),
        peer_(peer),
        batch_(in.batches[peer]),
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

class Shards final : public Deal {
 public:
  Shards(SplitInput in, std::vector<std::vector<std::uint32_t>> shards, std::vector<std::size_t> lengths)
      : in_(std::move(in)), shards_(std::move(shards)), lengths_(std::move(lengths)) {}
  std::unique_ptr<Sampler> sampler(std::size_t peer) const override {
    return std::make_unique<ShardSampler>(in_, peer, shards_.at(peer), lengths_.at(peer));
  }

 private:
  SplitInput in_;
  std::vector<std::vector<std::uint32_t>> shards_;
  std::vector<std::size_t> lengths_;
};

/// Rows drawn independently and uniformly from all.
class ReplacementSampler final : public Sampler {
 public:
  ReplacementSampler(const SplitInput& in, std::size_t peer)
      : key_(make_key(in.seed, Use::draw, peer)),
        rows_(in.data->rows()),
        batch_(in.batches[peer]),
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

class Replacement final : public Deal {
 public:
  explicit Replacement(SplitInput in) : in_(std::move(in)) {}
  std::unique_ptr<Sampler> sampler(std::size_t peer) const override {
    return std::make_unique<ReplacementSampler>(in_, peer);
  }

 private:
  SplitInput in_;
};

/// The permutation of each epoch that some sampler is in, made by the first that gets there.
class Orders {
 public:
  using Order = std::shared_ptr<const std::vector<std::uint32_t>>;
  Orders(std::uint64_t seed, std::size_t rows) : seed_(seed), rows_(rows) {}

  Order of(std::uint64_t epoch) {
    const std::lock_guard lock(mutex_);
    std::erase_if(made_, [](const auto& m) { return m.second.expired(); });
    if (Order order = made_[epoch].lock()) return order;
    std::vector<std::uint32_t> order(rows_);
    permutation(order, make_key(seed_, Use::epoch, epoch));
    const auto shared = std::make_shared<const std::vector<std::uint32_t>>(std::move(order));
    made_[epoch] = shared;
    return shared;
  }

 private:
  std::uint64_t seed_;
  std::size_t rows_;
  std::mutex mutex_;
  std::map<std::uint64_t, std::weak_ptr<const std::vector<std::uint32_t>>> made_;
};

/// One permutation of all rows per epoch, the same at every peer; step i of the epoch takes its Σ batches
/// entries from i·Σ batches on, of which this peer's part starts at the sum of the batches before it.
class GlobalSampler final : public Sampler {
 public:
  GlobalSampler(const SplitInput& in, std::size_t peer, std::shared_ptr<Orders> orders)
      : batch_(in.batches[peer]),
        total_(in.total_batch()),
        steps_(in.steps_per_epoch()),
        first_(std::accumulate(in.batches.begin(), in.batches.begin() + static_cast<std::ptrdiff_t>(peer),
                               std::size_t{0})),
        orders_(std::move(orders)) {}

  std::size_t steps_per_epoch() const override { return steps_; }

  void rows_of(std::uint64_t step, std::span<std::uint32_t> rows) override {
    assert(rows.size() == batch_);
    if (step / steps_ != epoch_) {
      epoch_ = step / steps_;
      order_ = nullptr;  // so that the last to leave an epoch frees its permutation
      order_ = orders_->of(epoch_);
    }
    const std::size_t start = static_cast<std::size_t>(step % steps_) * total_ + first_;
    // Only where there are fewer rows than one step of all peers needs does the end meet the beginning.
    for (std::size_t j = 0; j < rows.size(); ++j) rows[j] = (*order_)[(start + j) % order_->size()];
  }

 private:
  std::size_t batch_, total_, steps_, first_;
  std::shared_ptr<Orders> orders_;
  Orders::Order order_;
  std::uint64_t epoch_ = kNone;
};

class Global final : public Deal {
 public:
  explicit Global(SplitInput in)
      : in_(std::move(in)), orders_(std::make_shared<Orders>(in_.seed, in_.data->rows())) {}
  std::unique_ptr<Sampler> sampler(std::size_t peer) const override {
    return std::make_unique<GlobalSampler>(in_, peer, orders_);
  }

 private:
  SplitInput in_;
  std::shared_ptr<Orders> orders_;
};

/// Boundaries of contiguous parts of `rows` in proportion to the batches, none empty: peer p has [bound p,
/// bound p+1).
std::vector<std::size_t> boundaries(const SplitInput& in) {
  const std::size_t rows = in.data->rows(), peers = in.batches.size(), total = in.total_batch();
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

std::unique_ptr<Deal> make_shards(SplitInput in, std::vector<std::vector<std::uint32_t>> shards,
                                  std::vector<std::size_t> pass_lengths) {
  return std::make_unique<Shards>(std::move(in), std::move(shards), std::move(pass_lengths));
}

std::unique_ptr<Deal> make_local_shuffle(SplitInput in) {
  std::vector<std::uint32_t> order(in.data->rows());
  permutation(order, make_key(in.seed, Use::shards));
  const std::vector<std::size_t> bound = boundaries(in);
  std::vector<std::vector<std::uint32_t>> shards;
  std::vector<std::size_t> lengths;
  for (std::size_t p = 0; p < in.batches.size(); ++p) {
    shards.emplace_back(order.begin() + static_cast<std::ptrdiff_t>(bound[p]),
                        order.begin() + static_cast<std::ptrdiff_t>(bound[p + 1]));
    // A pass is an epoch: the few rows above a whole number of batches sit it out, others in the next epoch.
    lengths.push_back(std::min(shards.back().size(), in.steps_per_epoch() * in.batches[p]));
  }
  return make_shards(std::move(in), std::move(shards), std::move(lengths));
}

std::unique_ptr<Deal> make_with_replacement(SplitInput in) {
  return std::make_unique<Replacement>(std::move(in));
}

std::unique_ptr<Deal> make_global_shuffle(SplitInput in) { return std::make_unique<Global>(std::move(in)); }

}  // namespace gossamer::optim
