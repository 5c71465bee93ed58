// What methods send in a round.
#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>

#include "gossamer/topology/cost.h"

namespace gossamer::topology {
namespace {

double slice_bytes(const Part& part, std::size_t peers, const Framing& framing) {
  return framing.on_wire(part.bytes / static_cast<double>(peers));
}

}  // namespace

double Framing::on_wire(double payload) const {
  const double chunks = std::isfinite(chunk) ? std::max(1.0, std::ceil(payload / chunk)) : 1;
  return payload + chunks * header;
}

Traffic gossip_traffic(const Schedule& schedule, std::span<const Part> parts, const Framing& framing,
                       double vectors) {
  Traffic traffic(schedule.period());
  for (Round t = 0; t < schedule.period(); ++t)
    for (const Part& part : parts)
      for (PeerId i = 0; i < schedule.peers(); ++i)
        for (const PeerId j : schedule.at(t).out(i))
          traffic[t].push_back({i, j, part.ready, vectors * framing.on_wire(part.bytes), {}});
  return traffic;
}

Traffic ring_traffic(std::size_t peers, std::span<const Part> parts, const Framing& framing) {
  std::vector<Transfer> round;
  const std::size_t steps = peers < 2 ? 0 : 2 * (peers - 1);
  for (const Part& part : parts)
    for (std::size_t k = 0; k < steps; ++k)
      for (PeerId i = 0; i < peers; ++i) {
        const std::size_t previous = (i + peers - 1) % peers;  // whose message of step k − 1 comes to i
        std::vector<std::uint32_t> after;
        if (k > 0) after = {static_cast<std::uint32_t>(round.size() - i - peers + previous)};
        round.push_back({i, static_cast<PeerId>((i + 1) % peers), part.ready,
                         slice_bytes(part, peers, framing), std::move(after)});
      }
  return {round};
}

Traffic slice_traffic(std::size_t peers, std::span<const Part> parts, const Framing& framing) {
  std::vector<Transfer> round;
  for (const Part& part : parts) {
    const double bytes = slice_bytes(part, peers, framing);
    std::vector<std::vector<std::uint32_t>> came(peers);  // to each owner
    for (PeerId i = 0; i < peers; ++i)
      for (PeerId owner = 0; owner < peers; ++owner)
        if (owner != i) {
          came[owner].push_back(static_cast<std::uint32_t>(round.size()));
          round.push_back({i, owner, part.ready, bytes, {}});
        }
    for (PeerId owner = 0; owner < peers; ++owner)
      for (PeerId to = 0; to < peers; ++to)
        if (to != owner) round.push_back({owner, to, part.ready, bytes, came[owner]});
  }
  return {round};
}

Traffic tree_traffic(std::size_t peers, std::span<const Part> parts, const Framing& framing) {
  const auto children = [&](std::size_t i) {
    std::vector<std::size_t> below;
    for (std::size_t step = 1; i + step < peers && (i & step) == 0; step *= 2) below.push_back(i + step);
    return below;
  };
  std::vector<Transfer> round;
  for (const Part& part : parts) {
    const double bytes = framing.on_wire(part.bytes);
    const auto send = [&](std::size_t from, std::size_t to, std::vector<std::uint32_t> after) {
      round.push_back(
          {static_cast<PeerId>(from), static_cast<PeerId>(to), part.ready, bytes, std::move(after)});
      return static_cast<std::uint32_t>(round.size() - 1);
    };
    std::vector<std::uint32_t> up(peers), down(peers);
    const auto from_children = [&](std::size_t i) {
      std::vector<std::uint32_t> sums;
      for (const std::size_t c : children(i)) sums.push_back(up[c]);
      return sums;
    };
    for (std::size_t i = peers; i-- > 1;) up[i] = send(i, i & (i - 1), from_children(i));
    for (std::size_t i = 0; i < peers; ++i)
      for (const std::size_t c : children(i))
        down[c] = send(i, c, i == 0 ? from_children(0) : std::vector<std::uint32_t>{down[i]});
  }
  return {round};
}

Traffic butterfly_traffic(std::size_t peers, std::span<const Part> parts, const Framing& framing) {
  assert(std::has_single_bit(peers));
  std::vector<Transfer> round;
  for (const Part& part : parts) {
    std::vector<std::vector<std::uint32_t>> came(peers);
    for (std::size_t step = 1; step < peers; step *= 2) {
      const auto first = static_cast<std::uint32_t>(round.size());
      for (PeerId i = 0; i < peers; ++i)
        round.push_back({i, static_cast<PeerId>(i ^ step), part.ready, framing.on_wire(part.bytes), came[i]});
      for (PeerId i = 0; i < peers; ++i) came[i].push_back(first + static_cast<std::uint32_t>(i ^ step));
    }
  }
  return {round};
}

Traffic halving_traffic(std::size_t peers, std::span<const Part> parts, const Framing& framing) {
  const std::size_t ranks = std::bit_floor(peers), surplus = peers - ranks;
  const auto peer = [&](std::size_t rank) {
    return static_cast<PeerId>(rank < surplus ? 2 * rank : rank + surplus);
  };
  std::vector<Transfer> round;
  for (const Part& part : parts) {
    const auto send = [&](PeerId from, PeerId to, double share, std::vector<std::uint32_t> after) {
      round.push_back({from, to, part.ready, framing.on_wire(share * part.bytes), std::move(after)});
      return static_cast<std::uint32_t>(round.size() - 1);
    };
    std::vector<std::vector<std::uint32_t>> came(ranks);  // what each rank waits for at the next step
    for (std::size_t r = 0; r < surplus; ++r) came[r] = {send(peer(r) + 1, peer(r), 1, {})};
    std::vector<std::size_t> widths;  // of the blocks sent, in slices: halving, then doubling
    for (std::size_t d = ranks / 2; d > 0; d /= 2) widths.push_back(d);
    widths.insert(widths.end(), widths.rbegin(), widths.rend());
    for (const std::size_t d : widths) {
      std::vector<std::vector<std::uint32_t>> next(ranks);
      for (std::size_t r = 0; r < ranks; ++r)
        next[r ^ d] = {
            send(peer(r), peer(r ^ d), static_cast<double>(d) / static_cast<double>(ranks), came[r])};
      came = std::move(next);
    }
    for (std::size_t r = 0; r < surplus; ++r) send(peer(r), peer(r) + 1, 1, came[r]);
  }
  return {round};
}

}  // namespace gossamer::topology
