// The splits that deal out rows without looking at them.
#include <algorithm>
#include <cassert>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <utility>
#include <vector>

#include "random.h"
#include "splits.h"

namespace gossamer::optim {
namespace {

/// Of a shard. Only the permutation in use is kept.
class ShardSampler final : public PassSampler {
 public:
  ShardSampler(const SplitInput& in, std::size_t peer, std::vector<std::uint32_t> shard,
               std::size_t pass_length)
      : PassSampler(in.batches[peer], in.steps_per_epoch(), pass_length),
        seed_(in.seed),
        id_(in.id(peer)),
        shard_(std::move(shard)),
        order_(shard_.size()) {
    assert(pass_length <= shard_.size());
  }

 private:
  std::uint32_t row(std::uint64_t pass, std::size_t entry) override {
    if (pass != pass_) {
      order_ = shard_;
      shuffle(order_, make_key(seed_, Use::epoch, id_, pass));
      pass_ = pass;
    }
    return order_[entry];
  }

  std::uint64_t seed_, id_;
  std::vector<std::uint32_t> shard_, order_;
  std::uint64_t pass_ = kNoPass;
};

class FixedShards final : public Deal {
 public:
  FixedShards(SplitInput in, Shards shards, std::vector<std::size_t> lengths)
      : in_(std::move(in)), shards_(std::move(shards)), lengths_(std::move(lengths)) {}
  std::unique_ptr<PassSampler> sampler(std::size_t peer) const override {
    return std::make_unique<ShardSampler>(in_, peer, shards_.at(peer), lengths_.at(peer));
  }

 private:
  SplitInput in_;
  Shards shards_;
  std::vector<std::size_t> lengths_;
};

/// Rows drawn independently and uniformly from all; a pass is a batch.
class ReplacementSampler final : public PassSampler {
 public:
  ReplacementSampler(const SplitInput& in, std::size_t peer)
      : PassSampler(in.batches[peer], in.steps_per_epoch(), in.batches[peer]),
        key_(make_key(in.seed, Use::draw, in.id(peer))),
        rows_(in.rows) {}

 private:
  std::uint32_t row(std::uint64_t pass, std::size_t entry) override {
    return below(key_, pass * batch() + entry, rows_);
  }

  std::uint64_t key_;
  std::size_t rows_;
};

class Replacement final : public Deal {
 public:
  explicit Replacement(SplitInput in) : in_(std::move(in)) {}
  std::unique_ptr<PassSampler> sampler(std::size_t peer) const override {
    return std::make_unique<ReplacementSampler>(in_, peer);
  }

 private:
  SplitInput in_;
};

/// What is made for each epoch that some sampler is in, by the first that gets there.
template <class Made>
class OfEpochs {
 public:
  explicit OfEpochs(std::function<Made(std::uint64_t epoch)> make) : make_(std::move(make)) {}

  std::shared_ptr<const Made> of(std::uint64_t epoch) {
    const std::lock_guard lock(mutex_);
    std::erase_if(made_, [](const auto& m) { return m.second.expired(); });
    if (auto made = made_[epoch].lock()) return made;
    const auto made = std::make_shared<const Made>(make_(epoch));
    made_[epoch] = made;
    return made;
  }

 private:
  std::function<Made(std::uint64_t)> make_;
  std::mutex mutex_;
  std::map<std::uint64_t, std::weak_ptr<const Made>> made_;
};

/// One permutation of all rows per epoch, the same at every peer.
std::vector<std::uint32_t> order_of(const SplitInput& in, std::uint64_t epoch) {
  std::vector<std::uint32_t> order(in.rows);
  permutation(order, make_key(in.seed, Use::epoch, epoch));
  return order;
}

/// Step i of an epoch takes its Σ batches entries from i·Σ batches on, of which this peer's part starts at
/// the sum of the batches before it.
class GlobalSampler final : public PassSampler {
 public:
  using Orders = OfEpochs<std::vector<std::uint32_t>>;
  GlobalSampler(const SplitInput& in, std::size_t peer, std::shared_ptr<Orders> orders)
      : PassSampler(in.batches[peer], in.steps_per_epoch(), in.steps_per_epoch() * in.batches[peer]),
        total_(in.total_batch()),
        first_(std::accumulate(in.batches.begin(), in.batches.begin() + static_cast<std::ptrdiff_t>(peer),
                               std::size_t{0})),
        orders_(std::move(orders)) {}

 private:
  std::uint32_t row(std::uint64_t pass, std::size_t entry) override {
    if (pass != epoch_) {
      epoch_ = pass;
      order_ = nullptr;  // so that the last to leave an epoch frees its permutation
      order_ = orders_->of(epoch_);
    }
    // Only where there are fewer rows than one step of all peers needs does the end meet the beginning.
    return (*order_)[(entry / batch() * total_ + first_ + entry % batch()) % order_->size()];
  }

  std::size_t total_, first_;
  std::shared_ptr<Orders> orders_;
  std::shared_ptr<const std::vector<std::uint32_t>> order_;
  std::uint64_t epoch_ = kNoPass;
};

class Global final : public Deal {
 public:
  explicit Global(SplitInput in)
      : in_(std::move(in)), orders_(std::make_shared<GlobalSampler::Orders>([in = in_](std::uint64_t epoch) {
          return order_of(in, epoch);
        })) {}
  std::unique_ptr<PassSampler> sampler(std::size_t peer) const override {
    return std::make_unique<GlobalSampler>(in_, peer, orders_);
  }

 private:
  SplitInput in_;
  std::shared_ptr<GlobalSampler::Orders> orders_;
};

/// Among some of the homes, or others: what each home would have in an epoch is dealt, and read in an order
/// of the peer's own.
class GlobalAmongSampler final : public PassSampler {
 public:
  using Deals = OfEpochs<Shards>;
  GlobalAmongSampler(const SplitInput& in, std::size_t peer, std::size_t length, std::shared_ptr<Deals> deals)
      : PassSampler(in.batches[peer], in.steps_per_epoch(), length),
        seed_(in.seed),
        id_(in.id(peer)),
        peer_(peer),
        deals_(std::move(deals)) {}

 private:
  std::uint32_t row(std::uint64_t pass, std::size_t entry) override {
    if (pass != epoch_) {
      epoch_ = pass;
      deal_ = nullptr;
      deal_ = deals_->of(epoch_);
      order_ = (*deal_)[peer_];
      shuffle(order_, make_key(seed_, Use::epoch, id_, pass));
    }
    return order_[entry];
  }

  std::uint64_t seed_, id_;
  std::size_t peer_;
  std::shared_ptr<Deals> deals_;
  std::shared_ptr<const Shards> deal_;
  std::vector<std::uint32_t> order_;
  std::uint64_t epoch_ = kNoPass;
};

/// By row: whose part of the epoch's order it is in, were all homes there.
std::vector<std::uint32_t> homes_of_epoch(const SplitInput& in, std::uint64_t epoch) {
  std::vector<std::uint32_t> by_place;  // of a step of all homes
  const std::vector<std::size_t> batches = in.among->home_batches();
  for (std::size_t h = 0; h < batches.size(); ++h)
    by_place.insert(by_place.end(), batches[h], static_cast<std::uint32_t>(h));
  const std::vector<std::uint32_t> order = order_of(in, epoch);
  std::vector<std::uint32_t> home(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) home[order[i]] = by_place[i % by_place.size()];
  return home;
}

class GlobalAmong final : public Deal {
 public:
  explicit GlobalAmong(SplitInput in)
      : in_(std::move(in)),
        deals_(std::make_shared<GlobalAmongSampler::Deals>(
            [in = in_](std::uint64_t epoch) { return in.among->deal(homes_of_epoch(in, epoch), true); })) {
    // How many rows each has does not depend on the epoch.
    const std::shared_ptr<const Shards> first = deals_->of(0);
    for (const auto& shard : *first) shares_.push_back(shard.size());
  }
  std::unique_ptr<PassSampler> sampler(std::size_t peer) const override {
    const std::size_t length = std::min(shares_.at(peer), in_.steps_per_epoch() * in_.batches[peer]);
    return std::make_unique<GlobalAmongSampler>(in_, peer, length, deals_);
  }

 private:
  SplitInput in_;
  std::shared_ptr<GlobalAmongSampler::Deals> deals_;
  std::vector<std::size_t> shares_;
};

/// Boundaries of contiguous parts of `rows` in proportion to the batches, none empty: peer p has [bound p,
/// bound p+1).
std::vector<std::size_t> boundaries(const SplitInput& in) {
  const std::size_t rows = in.rows, peers = in.peers(), total = in.total_batch();
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

/// Of a permutation of all rows each peer has a stretch.
Shards local_shards(const SplitInput& in) {
  std::vector<std::uint32_t> order(in.rows);
  permutation(order, make_key(in.seed, Use::shards));
  const std::vector<std::size_t> bound = boundaries(in);
  Shards shards;
  for (std::size_t p = 0; p < in.peers(); ++p)
    shards.emplace_back(order.begin() + static_cast<std::ptrdiff_t>(bound[p]),
                        order.begin() + static_cast<std::ptrdiff_t>(bound[p + 1]));
  return shards;
}

}  // namespace

std::unique_ptr<Deal> make_shards(SplitInput in, Shards shards, std::vector<std::size_t> pass_lengths) {
  return std::make_unique<FixedShards>(std::move(in), std::move(shards), std::move(pass_lengths));
}

Shards among_peers(SplitInput& in, Shards homes, bool even) {
  if (in.stays) {
    Shards own;
    in.rows = 0;
    for (std::size_t p = 0; p < in.peers(); ++p) {
      own.push_back(std::move(homes.at(in.among->home_of(p))));
      in.rows += own.back().size();
    }
    return own;
  }
  std::vector<std::uint32_t> home_of_row(in.rows);
  for (std::size_t h = 0; h < homes.size(); ++h)
    for (const std::uint32_t row : homes[h]) home_of_row[row] = static_cast<std::uint32_t>(h);
  return in.among->deal(home_of_row, even);
}

std::unique_ptr<Deal> make_local_shuffle(SplitInput in) {
  Shards shards = in.among ? among_peers(in, local_shards(in.at_home()), true) : local_shards(in);
  // A pass is an epoch: the few rows above a whole number of batches sit it out, others in the next epoch.
  std::vector<std::size_t> lengths;
  for (std::size_t p = 0; p < in.peers(); ++p)
    lengths.push_back(std::min(shards[p].size(), in.steps_per_epoch() * in.batches[p]));
  return make_shards(std::move(in), std::move(shards), std::move(lengths));
}

std::unique_ptr<Deal> make_with_replacement(SplitInput in) {
  return std::make_unique<Replacement>(std::move(in));
}

std::unique_ptr<Deal> make_global_shuffle(SplitInput in) {
  if (in.among) return std::make_unique<GlobalAmong>(std::move(in));
  return std::make_unique<Global>(std::move(in));
}

}  // namespace gossamer::optim
