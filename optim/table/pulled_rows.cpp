// Rows that are pulled and pushed by the same learner: places that the pull found serve the push.
#include <cassert>

#include "local_table_inline.h"

namespace gossamer::optim {
namespace {

constexpr std::size_t kRows = 16;  // brought near at a time
constexpr std::uint64_t kMovedMeanwhile = ~std::uint64_t{0};

}  // namespace

std::size_t Table::pull_to_learn(std::span<const std::uint64_t> keys, std::span<float> weights,
                                 PulledRows& pulled) const {
  pulled.keys.assign(keys.begin(), keys.end());
  return pull(keys, weights);
}

void Table::push_pulled(const PulledRows& pulled, std::span<const float> gradients) {
  push(pulled.keys, gradients);
}

/// How often rows of these shards have moved, all at the same time for one of them: a pull of many keys lets
/// go of its shards in between.
std::uint64_t LocalTable::note_moves(std::uint64_t touched, std::uint64_t noted, PulledRows& notes) const {
  for (std::uint64_t left = touched; left != 0; left &= left - 1) {
    const auto shard = static_cast<std::size_t>(std::countr_zero(left));
    const std::uint64_t moves = shards_[shard]->moves();
    if ((noted >> shard & 1) == 0)
      notes.moves[shard] = moves;
    else if (notes.moves[shard] != moves)
      notes.moves[shard] = kMovedMeanwhile;
  }
  return noted | touched;
}

std::size_t LocalTable::pull_to_learn(std::span<const std::uint64_t> keys, std::span<float> weights,
                                      PulledRows& pulled) const {
  pulled.table = this;
  pulled.keys.resize(keys.size());
  pulled.places.resize(keys.size());
  return pull(keys, weights, {}, &pulled);
}

/// Of rows of one weight, put together into a wide one.
void LocalTable::step_single(std::span<std::byte* const> places, const std::uint32_t* which,
                             const Gradients& gradients, std::uint32_t now) const {
  const std::size_t n = places.size(), columns = shape_.floats;
  std::array<float, kMostColumns * kRows> wide;
  std::array<float, kRows> g;
  for (std::size_t i = 0; i < n; ++i) g[i] = gradients.at[which[i]];
  for (std::size_t c = 0; c < columns; ++c)
    for (std::size_t i = 0; i < n; ++i) wide[c * n + i] = row_at(places[i])[c];
  shape_.optimizer->step(wide.data(), {g.data(), n}, 0, gradients.careful);
  for (std::size_t c = 0; c < columns; ++c)
    for (std::size_t i = 0; i < n; ++i) row_at(places[i])[c] = wide[c * n + i];
  if (shape_.versions)
    for (std::byte* const place : places)
      RowShape::set_word(row_at(place), shape_.version_at, shape_.version(row_at(place)) + 1);
  if (shape_.touches)
    for (std::byte* const place : places) shape_.touch(row_at(place), now);
}

/// Rows that are there come first: those that are made would move them. Changes `which`.
void LocalTable::push_shard(std::size_t of_shard, std::span<std::uint32_t> which, const PulledRows& pulled,
                            const Gradients& gradients, std::span<float> first_weights) {
  Shard& shard = *shards_[of_shard];
  const auto now = static_cast<std::uint32_t>(steps_);
  const auto update = [&](std::byte* place, std::uint32_t i) {
    float* const row = row_at(place);
    shape_.touch(row, now);
    step(row, {gradients.at + i * spec_.width, spec_.width}, gradients.careful);
  };
  const bool together = spec_.width == 1 && !shape_.part->counts;
  const std::unique_lock lock(shard.mutex());
  const bool hold = shard.moves() == pulled.moves[of_shard];
  const auto bring_near = [&](std::size_t first) {
    for (std::size_t n = first; n < std::min(which.size(), first + kRows); ++n)
      if (hold)
        shard.prefetch_row(pulled.places[which[n]]);
      else
        shard.prefetch(number(pulled.keys[which[n]]));
  };
  std::size_t missing = 0;
  bring_near(0);
  for (std::size_t first = 0; first < which.size(); first += kRows) {
    bring_near(first + kRows);
    std::array<std::byte*, kRows> places;
    std::array<std::uint32_t, kRows> there;
    std::size_t found = 0;
    for (std::size_t n = first; n < std::min(which.size(), first + kRows); ++n) {
      const std::uint32_t i = which[n];
      places[found] = hold ? const_cast<std::byte*>(pulled.places[i]) : shard.find(number(pulled.keys[i]));
      if (places[found])
        there[found++] = i;
      else
        which[missing++] = i;
    }
    if (together)
      step_single({places.data(), found}, there.data(), gradients, now);
    else
      for (std::size_t n = 0; n < found; ++n) update(places[n], there[n]);
  }
  for (const std::uint32_t i : which.first(missing)) {
    const std::uint64_t r = number(pulled.keys[i]);
    std::byte* place = shard.find(r);  // others may have made it, and moved none
    if (!place && shard.admits(r, 1)) place = make_row(shard, pulled.keys[i], now, first_weights);
    if (place) update(place, i);
  }
}

void LocalTable::push_pulled(const PulledRows& pulled, std::span<const float> gradients) {
  const std::size_t n = pulled.keys.size();
  assert(pulled.table == this && gradients.size() == n * spec_.width && pulled.places.size() == n);
  const std::uint64_t now = ++steps_;
  const bool careful = any_large(gradients);
  const Order order(*this);
  const std::span<float> first_weights = order->floats(spec_.width);
  const ShardSplit split = order->split(pulled.keys, shard_bits_);
  const std::uint64_t turn = turns_.fetch_add(1, std::memory_order_relaxed) * kTurn;
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    const std::size_t shard = (turn + i) % shards_.size();
    if (const auto which = split.of(shard); !which.empty())
      push_shard(shard, which, pulled, {gradients.data(), careful}, first_weights);
  }
  sweep_some(now);
}

}  // namespace gossamer::optim
