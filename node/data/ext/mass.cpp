#include "mass.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "shared_blocks.h"

namespace gossamer::node {
namespace {

static_assert(std::endian::native == std::endian::little);
constexpr double kLargest = 0x1p22;
constexpr double kMostPeers = 0x1p14;
constexpr double kUsualRounds = 100;  ///< over about as many goes the mean of a weight

std::uint64_t fixed(float value) {
  const double v = static_cast<double>(value);
  if (!(std::abs(v) < kLargest))
    throw Diverged(fmt::format("a step of {} is beyond what push-sum can hold", value));
  return static_cast<std::uint64_t>(std::llrint(v * kMassOne));
}

/// held += mass; false where that is beyond what fits.
bool add(std::uint64_t& held, std::uint64_t mass) {
  std::int64_t sum = 0;
  const bool fits =
      !__builtin_add_overflow(static_cast<std::int64_t>(held), static_cast<std::int64_t>(mass), &sum);
  held += mass;
  return fits;
}

double real(std::uint64_t mass) { return static_cast<double>(static_cast<std::int64_t>(mass)); }

}  // namespace

Mass::Mass(std::span<const float> x0, std::size_t parcels, std::vector<MassSum> sums, Planted planted)
    : entries_(x0.size()), of_(std::move(sums)), told_(of_.size(), 0), planted_(planted) {
  sums_.assign(1 + of_.size(), Units(entries_ + parcels, 0));
  std::transform(x0.begin(), x0.end(), sums_[0].begin(), fixed);
  std::fill(sums_[0].begin() + static_cast<std::ptrdiff_t>(entries_), sums_[0].end(),
            static_cast<std::uint64_t>(kMassOne));
  usual_weight_.assign(parcels, 1);
}

void Mass::run(const std::any& command, const SlotAt& at, const PostEvent& post) {
  const auto run_one = [&]<class Command>(const Command& o) {
    if constexpr (std::is_same_v<Command, op::Push>) {
      push(o, at(kGradient, o.range));
      for (const auto& [number, share] : o.shares)
        post(Encoded{o.round, o.parcel, number, o.range.size, payload(number, o.range, o.parcel)});
    } else if constexpr (std::is_same_v<Command, op::Absorb>) {
      absorb(o);
    } else {
      ratio(o, at(kParameters, o.range));
    }
  };
  [[maybe_unused]] const bool known = visit_command<op::Push, op::Absorb, op::Ratio>(command, run_one);
  assert(known);
}

void Mass::archive(Archive archive) {
  for (std::size_t n = 0; n < sums_.size() && (n == 0 || of_[n - 1].by_graph); ++n)
    archive.numbers("sum" + std::to_string(n), std::span<std::uint64_t>(sums_[n]));
  archive.doubles("usual_weight", usual_weight_, usual_weight_.size());
}

void Mass::overflow(ParcelId parcel) const {
  throw std::runtime_error(fmt::format(
      "push-sum holds a parameter times this peer's weight (here {:.4g}) up to 2^23 = 8388608, and one "
      "has passed that: the run diverges, or the weight is that of a hub; lower "
      "optimizer.learning_rate, or use a graph in which no peer hears from so many",
      real(sums_[0][weight_at(parcel)]) / kMassOne));
}

/// What is left over by rounding stays where it was.
void Mass::move(const std::vector<std::pair<std::uint32_t, double>>& shares, std::size_t entry) {
  const double held = real(sums_[0][entry]);
  for (const auto& [number, share] : shares) {
    const auto part = static_cast<std::uint64_t>(static_cast<std::int64_t>(held * share));
    if (planted_.is(Bug::share_sent_alone)) sums_[number][entry] = 0;
    sums_[number][entry] += part;
    sums_[0][entry] -= part;
  }
}

void Mass::push(const op::Push& o, std::span<float> u) {
  assert(u.size() == o.range.size);
  const double weight = real(sums_[0][weight_at(o.parcel)]) / kMassOne;
  if (o.keep_least > 0) {
    double& usual = usual_weight_[o.parcel];
    usual += (weight - usual) / kUsualRounds;
    const auto size = static_cast<float>(weight / usual);
    for (float& x : u) x *= size;
  }
  bool fits = true;
  for (std::size_t i = 0; i < u.size(); ++i)
    fits &= add(sums_[0][o.range.begin + i], std::uint64_t{0} - fixed(u[i]));
  if (!fits) overflow(o.parcel);
  double all = 0, factor = 1;
  for (const auto& [number, share] : o.shares) all += static_cast<double>(share);
  const double least = static_cast<double>(o.keep_least);
  if (least > 0 && weight * (1 - all) < least)
    factor = weight > least ? (weight - least) / (weight * all) : 0;
  std::vector<std::pair<std::uint32_t, double>> shares;
  for (const auto& [number, share] : o.shares)
    shares.emplace_back(number, static_cast<double>(share) * factor);
  for (std::size_t i = 0; i < o.range.size; ++i) move(shares, o.range.begin + i);
  move(shares, weight_at(o.parcel));
  for (const auto& [number, share] : shares) share > 0 ? told_[number - 1] = 0 : ++told_[number - 1];
}

Payload Mass::payload(std::uint32_t sum, Range range, ParcelId parcel) const {
  const std::size_t size = mass_payload_bytes(range.size);
  const ByteBlock block = take_readable_block(size);
  std::memcpy(block.bytes.data(), &sums_[sum][range.begin], range.size * sizeof(std::uint64_t));
  std::memcpy(block.bytes.data() + range.size * sizeof(std::uint64_t), &sums_[sum][weight_at(parcel)],
              sizeof(std::uint64_t));
  return {block.owner, block.bytes.first(size)};
}

/// A neighbour's sum of weights never falls, and all weights together are as many as there are peers: what
/// says otherwise was not sent by push-sum.
bool Mass::weight_may_come(const op::Absorb& o) const {
  std::uint64_t sent;
  std::memcpy(&sent, o.payload->data() + o.range.size * sizeof sent, sizeof sent);
  const auto more = static_cast<std::int64_t>(sent - sums_[o.sum][weight_at(o.parcel)]);
  return more >= 0 && static_cast<double>(more) <= kMostPeers * kMassOne;
}

void Mass::absorb(const op::Absorb& o) {
  if (o.payload->size() != mass_payload_bytes(o.range.size))
    throw std::runtime_error(fmt::format("found {} bytes of push-sum's sums, expected {}", o.payload->size(),
                                         (o.range.size + 1) * sizeof(std::uint64_t)));
  const bool whole = planted_.is(Bug::share_sent_alone) || planted_.is(Bug::sum_taken_whole);
  if (!whole && !weight_may_come(o)) return;  // nothing is lost: the next message holds what this one should
  bool fits = true;
  for (std::size_t i = 0; i <= o.range.size; ++i) {
    std::uint64_t sent;
    std::memcpy(&sent, o.payload->data() + i * sizeof sent, sizeof sent);
    const std::size_t entry = i < o.range.size ? o.range.begin + i : weight_at(o.parcel);
    fits &= add(sums_[0][entry], whole ? sent : sent - sums_[o.sum][entry]) || whole;
    sums_[o.sum][entry] = sent;
  }
  if (!fits) overflow(o.parcel);
}

void Mass::ratio(const op::Ratio& o, std::span<float> x) const {
  const double weight = real(sums_[0][weight_at(o.parcel)]);
  if (!(weight > 0)) throw std::runtime_error("push-sum holds no weight that its parameters could be over");
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(real(sums_[0][o.range.begin + i]) / weight);
}

}  // namespace gossamer::node
