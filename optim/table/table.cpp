#include "gossamer/optim/table.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <charconv>
#include <cmath>
#include <utility>

#include "local_table.h"
#include "local_table_inline.h"
#include "random.h"

namespace gossamer::optim {
namespace {

constexpr std::size_t kLeastMemory = std::size_t{1} << 18;
constexpr std::size_t kShardMemory = std::size_t{1} << 18;  // a limit of so much makes one more shard
constexpr std::size_t kFilterBytes = std::size_t{1} << 24;  // of an admission without a memory limit
constexpr std::size_t kMostShards = 16;  // unless asked for: large ones get huge pages sooner
constexpr std::uint64_t kSweeps = 8;     // of all shards within evict_after steps

void in_range(bool good, const char* key, double found, const char* expected) {
  if (good) return;
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), found).ptr;
  throw OptimError(std::string("table.") + key + ": found " + std::string(digits.data(), end) +
                   ", expected " + expected);
}

void check_table(const TableSpec& s) {
  const auto positive = [](double v) { return std::isfinite(v) && v > 0; };
  const auto at_least_0 = [](double v) { return std::isfinite(v) && v >= 0; };
  const auto count = [](std::uint64_t v) { return static_cast<double>(v); };
  in_range(s.width >= 1 && s.width <= 4096, "width", count(s.width),
           "1 to 4096 weights of a key: fewer model.factors, or of ffm fewer data.fields");
  in_range(s.linear <= s.width, "linear", count(s.linear), "at most the width");
  in_range(positive(s.learning_rate), "learning_rate", s.learning_rate, "more than 0");
  in_range(at_least_0(s.beta), "beta", s.beta, "at least 0");
  in_range(at_least_0(s.l1), "l1", s.l1, "at least 0");
  in_range(at_least_0(s.l2), "l2", s.l2, "at least 0");
  in_range(s.beta + s.l2 > 0, "beta", s.beta, "more than 0 where l2 is 0");
  in_range(s.beta1 >= 0 && s.beta1 < 1, "beta1", s.beta1, "at least 0 and below 1");
  in_range(s.beta2 >= 0 && s.beta2 < 1, "beta2", s.beta2, "at least 0 and below 1");
  in_range(std::isfinite(s.epsilon) && s.epsilon >= 1e-38, "epsilon", s.epsilon,
           "at least 1e-38, which is more than 0 as a float");
  in_range(at_least_0(s.initial_scale), "initial_scale", s.initial_scale, "at least 0");
  in_range(s.memory == 0 || s.memory >= kLeastMemory, "memory", count(s.memory), "at least 262144 bytes");
  in_range(s.admit_after >= 1 && s.admit_after <= Sightings::kMost, "admit_after",
           static_cast<double>(s.admit_after), "1 to 15");
  in_range(s.memory == 0 || s.filter_bytes <= s.memory / 2, "filter_bytes", count(s.filter_bytes),
           "at most half of the memory");
  in_range(s.evict_after < std::uint64_t{1} << 31, "evict_after", count(s.evict_after),
           "less than 2^31 steps");
  in_range(s.evict_zeros_after < std::uint64_t{1} << 31, "evict_zeros_after", count(s.evict_zeros_after),
           "less than 2^31 steps");
  in_range(s.decay > 0 && s.decay <= 1, "decay", s.decay, "more than 0 and at most 1");
  in_range(at_least_0(s.prior_clicks), "prior_clicks", s.prior_clicks, "at least 0");
  in_range(at_least_0(s.prior_others), "prior_others", s.prior_others, "at least 0");
  in_range(s.shards == 0 || (std::has_single_bit(s.shards) && s.shards >= 4 && s.shards <= 64), "shards",
           count(s.shards), "a power of 2 from 4 to 64");
}

const TableSpec& checked(const TableSpec& spec) {
  check_table(spec);
  return spec;
}

std::size_t shard_count(const TableSpec& s) {
  if (s.shards != 0) return s.shards;
  if (s.memory == 0) return kMostShards;
  return std::clamp<std::size_t>(std::bit_floor(s.memory / kShardMemory), 4, kMostShards);
}

/// Whole pages for each shard's part; 0 where no sightings are ever counted.
std::size_t filter_part(const TableSpec& s, std::size_t shards) {
  if (s.admit_after == 1 && s.memory == 0) return 0;
  const std::size_t wanted = s.filter_bytes != 0 ? s.filter_bytes
                             : s.memory != 0     ? s.memory / 16
                                                 : kFilterBytes;
  return std::max(Sightings::kLine, wanted / shards / Sightings::kLine * Sightings::kLine);
}

}  // namespace

LocalTable::LocalTable(const TableSpec& spec)
    : spec_(checked(spec)),
      shape_(spec_),
      salt_(make_key(spec.seed, Use::table_places, spec.places)),
      weights_key_(make_key(spec.seed, Use::table_weights)),
      shard_bits_(static_cast<unsigned>(std::countr_zero(shard_count(spec)))),
      budget_(spec.memory),
      rows_(budget_),
      admission_(static_cast<unsigned>(spec.admit_after), budget_) {
  const std::size_t count = shard_count(spec), part = filter_part(spec, count);
  const std::size_t pages = (part * count + Pages::kPage - 1) / Pages::kPage;
  if (pages > 0) filter_ = Pages(budget_, pages * Pages::kPage);
  for (std::size_t i = 0; i < count; ++i)
    shards_.push_back(
        std::make_unique<Shard>(shape_, 64 - shard_bits_, count,
                                std::span(reinterpret_cast<std::uint8_t*>(filter_.data()) + i * part, part),
                                admission_, budget_, rows_));
}

std::uint64_t LocalTable::key_of(std::size_t shard, std::uint64_t r) const {
  return unmix(std::uint64_t{shard} << (64 - shard_bits_) | r) ^ salt_;
}

void LocalTable::first_weights(std::uint64_t key, std::span<float> weights) const {
  for (std::size_t i = 0; i < weights.size(); ++i)
    weights[i] = i < spec_.linear || spec_.initial_scale == 0
                     ? 0
                     : static_cast<float>(spec_.initial_scale * normal(bits(weights_key_, key), i));
}

std::size_t LocalTable::pull(std::span<const std::uint64_t> keys, std::span<float> weights,
                             std::span<std::uint32_t> versions) const {
  return pull(keys, weights, versions, nullptr);
}

/// Of rows of one weight, which begin as zeros: what says their weights, the first `columns` floats, stands
/// side by side for the optimiser.
template <std::size_t columns>
std::size_t LocalTable::pull_single(std::span<const std::uint64_t> keys, std::span<float> weights,
                                    PulledRows* notes) const {
  static constexpr std::array<float, columns> kMissing{};
  const std::size_t n = keys.size();
  const Order order(*this);
  float* const states = columns == 1 ? weights.data() : order->floats(columns * n).data();
  std::size_t found = 0;
  read(keys, notes, [=, &found](const Shard&, const std::byte* place, std::size_t i) {
    const float* const row = place ? row_at(place) : kMissing.data();
    for (std::size_t c = 0; c < columns; ++c) states[c * n + i] = row[c];
    found += place != nullptr;
  });
  if (columns > 1) shape_.optimizer->read(states, weights);
  return found;
}

std::size_t LocalTable::pull(std::span<const std::uint64_t> keys, std::span<float> weights,
                             std::span<std::uint32_t> versions, PulledRows* notes) const {
  assert(weights.size() == keys.size() * spec_.width);
  assert(versions.empty() || versions.size() == keys.size());
  const bool single = spec_.width == 1 && starts_at_zero() && versions.empty();
  if (single && shape_.part->in_front) return pull_single<1>(keys, weights, notes);
  if (single && shape_.floats == 2) return pull_single<2>(keys, weights, notes);
  std::size_t found = 0;
  read(keys, notes, [&](const Shard&, const std::byte* place, std::size_t i) {
    const std::span<float> to = weights.subspan(i * spec_.width, spec_.width);
    if (!versions.empty()) versions[i] = 0;
    if (!place) return first_weights(keys[i], to);
    ++found;
    const float* const row = row_at(place);
    if (!versions.empty()) versions[i] = shape_.version(row);
    if (shape_.part->in_front) return copy_words(to.data(), row, spec_.width);
    shape_.optimizer->read(row, to);
  });
  return found;
}

std::byte* LocalTable::make_row(Shard& shard, std::uint64_t mixed, std::uint32_t now,
                                std::span<float> first) {
  std::byte* const place = shard.make(number(mixed), now);
  if (!place) return nullptr;
  first_weights(unmix(mixed) ^ salt_, first);
  float* const row = row_at(place);
  std::fill(row + shape_.floats, row + shape_.words, 0.0f);
  shape_.optimizer->start(row, first);
  shape_.touch(row, now);
  return place;
}

template <class Use>
void LocalTable::write_run(const Run& run, std::span<const MixedKey> sorted, const float* values,
                           std::span<float> sums, const Use& use) {
  Shard& shard = *shards_[run.shard];
  const auto now = static_cast<std::uint32_t>(steps_);
  const std::size_t width = spec_.width;
  struct Held {
    std::byte* place;
    std::size_t first, end;  ///< of the sorted keys
  };
  std::array<Held, kHeld> held;
  std::size_t holds = 0;
  const auto apply = [&] {
    for (std::size_t h = 0; h < holds; ++h) {
      const auto [place, first, end] = held[h];
      const float* value = values + sorted[first].index * width;
      if (end - first > 1) {
        std::copy_n(value, width, sums.data());
        for (std::size_t i = first + 1; i < end; ++i)
          for (std::size_t k = 0; k < width; ++k) sums[k] += values[sorted[i].index * width + k];
        value = sums.data();
      }
      float* const row = row_at(place);
      shape_.touch(row, now);
      use(row, std::span(value, width));
    }
    holds = 0;
  };
  const std::unique_lock lock(shard.mutex());
  for (std::size_t first = run.first, end = first; first < run.end; first = end) {
    const std::uint64_t mixed = sorted[first].mixed;
    for (; end < run.end && sorted[end].mixed == mixed; ++end) prefetch(sorted, end + kAhead);
    std::byte* place = shard.find(number(mixed));
    if (!place && shard.admits(number(mixed), end - first)) {
      apply();  // a row that is made may move or evict others
      place = make_row(shard, mixed, now, sums);
    }
    if (place) held[holds++] = {place, first, end};
    if (holds == kHeld) apply();
  }
  apply();
}

template <class Use>
void LocalTable::write(std::span<const std::uint64_t> keys, std::span<const float> values, const Use& use) {
  assert(values.size() == keys.size() * spec_.width);
  const Order order(*this);
  const std::span<const MixedKey> sorted = order->sort(keys, salt_, shard_bits_);
  const std::span<float> sums = order->floats(spec_.width);
  for_runs(sorted, [&](const Run& run) { write_run(run, sorted, values.data(), sums, use); });
}

void LocalTable::push(std::span<const std::uint64_t> keys, std::span<const float> gradients) {
  const std::uint64_t step = ++steps_;
  const bool careful = any_large(gradients);
  write(keys, gradients,
        [&](float* row, std::span<const float> gradient) { this->step(row, gradient, careful); });
  sweep_some(step);
}

void LocalTable::step(float* row, std::span<const float> gradient, bool careful) const {
  const std::uint32_t updates = shape_.version(row) + 1;
  if (shape_.versions) RowShape::set_word(row, shape_.version_at, updates);
  shape_.optimizer->step(row, gradient, updates, careful);
}

void LocalTable::add(std::span<const std::uint64_t> keys, std::span<const float> deltas) {
  write(keys, deltas, [&](float* row, std::span<const float> delta) { shape_.optimizer->add(row, delta); });
}

void LocalTable::require_statistics() const {
  if (!shape_.statistics)
    throw OptimError("table: found no shows and clicks in its rows, expected a table with statistics = true");
}

void LocalTable::observe(std::span<const std::uint64_t> keys, std::span<const float> clicked) {
  require_statistics();
  assert(clicked.size() == keys.size());
  const auto keep = static_cast<float>(spec_.decay);
  const auto now = static_cast<std::uint32_t>(steps_);
  const Order order(*this);
  const std::span<const MixedKey> sorted = order->sort(keys, salt_, shard_bits_);
  for_runs(sorted, [&](const Run& run) {
    Shard& shard = *shards_[run.shard];
    const std::unique_lock lock(shard.mutex());
    for (std::size_t i = run.first; i < run.end; ++i) {
      prefetch(sorted, i + kAhead);
      std::byte* const place = shard.find(number(sorted[i].mixed));
      if (!place) continue;
      shape_.touch(row_at(place), now);
      float* const shows = row_at(place) + shape_.shows_at;
      shows[0] = keep * shows[0] + 1;
      shows[1] = keep * shows[1] + clicked[sorted[i].index];
    }
  });
}

void LocalTable::click_rates(std::span<const std::uint64_t> keys, std::span<float> rates) const {
  require_statistics();
  assert(rates.size() == keys.size());
  const auto a = static_cast<float>(spec_.prior_clicks), b = static_cast<float>(spec_.prior_others);
  read(keys, nullptr, [&](const Shard&, const std::byte* place, std::size_t i) {
    const float* const row = place ? row_at(place) + shape_.shows_at : nullptr;
    const float shows = row ? row[0] : 0, clicks = row ? row[1] : 0;
    rates[i] = (clicks + a) / (shows + a + b);
  });
}

void LocalTable::sweep_some(std::uint64_t step) {
  const std::uint64_t old = spec_.evict_after, zero = spec_.evict_zeros_after;
  const std::uint64_t soonest = old == 0 || zero == 0 ? std::max(old, zero) : std::min(old, zero);
  if (soonest == 0) return;
  const std::uint64_t every = std::max<std::uint64_t>(1, soonest / (kSweeps * shards_.size()));
  if (step % every != 0) return;
  Shard& shard = *shards_[step / every % shards_.size()];
  const std::unique_lock lock(shard.mutex());
  shard.sweep(static_cast<std::uint32_t>(steps_), old, zero);
}

std::size_t LocalTable::evict() {
  std::size_t gone = 0;
  for (const auto& shard : shards_) {
    const std::unique_lock lock(shard->mutex());
    gone += shard->sweep(static_cast<std::uint32_t>(steps_), spec_.evict_after, spec_.evict_zeros_after);
  }
  return gone;
}

TableStatistics LocalTable::statistics() const {
  TableStatistics s;
  s.row_bytes = shape_.bytes();
  s.bytes = budget_.used();
  s.peak_bytes = budget_.peak();
  s.steps = steps_;
  s.admit_after = admission_.asked();
  s.tightened = admission_.tightened();
  for (const auto& shard : shards_) {
    const std::shared_lock lock(shard->mutex());
    const ShardCounts counts = shard->counts();
    s.rows += shard->rows();
    s.admitted += counts.admitted;
    s.waiting += counts.waiting;
    s.no_room += counts.no_room;
    s.evicted_old += counts.evicted_old;
    s.evicted_zero += counts.evicted_zero;
    s.evicted_full += counts.evicted_full;
  }
  return s;
}

std::unique_ptr<Table> make_table(const TableSpec& spec) { return std::make_unique<LocalTable>(spec); }

}  // namespace gossamer::optim
