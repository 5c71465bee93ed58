// Base graphs: exact consensus of any number of peers in finitely many rounds, each peer with at most k
// neighbours in a round (Takezawa et al. 2023, "Beyond exponential graph: communication-efficient topologies
// for decentralized learning via finite-time convergence").
//
// Members n = n_1·n_2·…·n_L with every n_l ≤ k+1 are averaged in L rounds: write a member's place in the
// mixed radix n_1, n_2, …; in round l those that differ in digit l alone form a group of n_l, which takes its
// mean (the hyper-hypercube).
//
// Any other n is written in base k+1: n = a_1·b_1 + … + a_L·b_L, every b_l a power of k+1, b_1 > b_2 > …, a_l
// ≤ k. Block set V_l is a_l blocks of b_l members; what lies behind it, R_l, has r_l < b_l members.
//   1  every V_l reaches its own mean, side by side: a hyper-hypercube of radices k+1, …, k+1, a_l.
//   2  in turn for l = 1, 2, …: one round in which member j of R_l is joined with member j of every block of
//      V_l, with weight w = b_l/(a_l·b_l + r_l). V_l, all of one value m, gives each member x of R_l the
//      value x + a_l·w·(m − x), so that R_l has the mean of V_l ∪ R_l and each of its V's still one value;
//      and a block of V_l now holds b_l·m + w·Σ(x − m), which is b_l times that mean.
//   3  each block of V_l takes its mean, as a hyper-hypercube of radices k+1, …, k+1.
// Where n = s·q with s the product of factors ≤ k+1, q members first do so in each of s parts and then a
// hyper-hypercube joins the parts; of the two ways the shorter one is taken.
#include <algorithm>
#include <numeric>
#include <string>

#include "graph.h"

namespace gossamer::topology {
namespace {

using Members = std::vector<PeerId>;
using Rounds = std::vector<Graph>;
using Radices = std::vector<std::size_t>;

void require_rounds(Rounds& rounds, std::size_t count, std::size_t peers) {
  while (rounds.size() < count) rounds.emplace_back(peers);
}

/// Prime factors ≤ k+1, joined greedily to larger ones that are still ≤ k+1; what remains of n is `rough`.
struct Smooth {
  Radices radices;
  std::size_t rough;
};
Smooth smooth_part(std::size_t n, std::size_t k) {
  Radices primes;
  for (std::size_t d = 2; d <= k + 1; ++d)
    for (; n % d == 0; n /= d) primes.push_back(d);
  std::sort(primes.rbegin(), primes.rend());
  Radices radices;
  for (const std::size_t prime : primes) {
    const auto room =
        std::find_if(radices.begin(), radices.end(), [&](std::size_t r) { return r * prime <= k + 1; });
    if (room == radices.end())
      radices.push_back(prime);
    else
      *room *= prime;
  }
  return {radices, n};
}

class BaseGraph {
 public:
  BaseGraph(std::size_t peers, std::size_t k) : peers_(peers), k_(k) {}

  Rounds average(const Members& members) const {
    Rounds rounds;
    averaged(rounds, 0, members);
    return rounds;
  }

 private:
  /// Adds to the rounds from `at` on what brings members to their mean; returns the round after the last.
  std::size_t averaged(Rounds& rounds, std::size_t at, const Members& members) const {
    const Smooth smooth = smooth_part(members.size(), k_);
    if (smooth.rough == 1) return hyper_hypercube(rounds, at, members, smooth.radices, 1);
    if (smooth.radices.empty()) return by_digits(rounds, at, members);
    if (digits_rounds(members.size()) <= digits_rounds(smooth.rough) + smooth.radices.size())
      return by_digits(rounds, at, members);
    std::size_t end = at;
    for (std::size_t first = 0; first < members.size(); first += smooth.rough)
      end = by_digits(rounds, at, part(members, first, smooth.rough));
    return hyper_hypercube(rounds, end, members, smooth.radices, smooth.rough);
  }

  /// Rounds that by_digits takes for n members.
  std::size_t digits_rounds(std::size_t n) const {
    Rounds rounds;
    Members members(n);
    std::iota(members.begin(), members.end(), PeerId{0});
    return BaseGraph(n, k_).by_digits(rounds, 0, members);
  }

  std::size_t by_digits(Rounds& rounds, std::size_t at, const Members& members) const {
    const std::size_t n = members.size();
    const std::vector<Block> blocks = digits(n);
    std::size_t joining = at;  // the round after all of step 1
    for (const Block& v : blocks) {
      Radices whole(v.power, k_ + 1);
      if (v.count > 1) whole.push_back(v.count);
      const Members all = part(members, v.first, v.count * v.size);
      joining = std::max(joining, hyper_hypercube(rounds, at, all, whole, 1));
    }
    std::size_t last = joining;
    for (const Block& v : blocks) {
      if (v.first + v.count * v.size == n) break;
      join(rounds, joining, members, v);
      last = std::max(last, ++joining);
      for (std::size_t c = 0; c < v.count; ++c) {
        const Members block = part(members, v.first + c * v.size, v.size);
        last = std::max(last, hyper_hypercube(rounds, joining, block, Radices(v.power, k_ + 1), 1));
      }
    }
    return last;
  }

  /// a_l·b_l of n in base k+1: `count` blocks of `size` = (k+1)^power members, from place `first` on.
  struct Block {
    std::size_t first, count, size, power;
  };
  std::vector<Block> digits(std::size_t n) const {
    std::vector<Block> blocks;
    for (std::size_t size = 1, power = 0, left = n; left > 0; size *= k_ + 1, ++power) {
      const std::size_t digit = left % (k_ + 1);
      left /= k_ + 1;
      if (digit > 0) blocks.push_back({0, digit, size, power});
    }
    std::reverse(blocks.begin(), blocks.end());
    std::size_t first = 0;
    for (Block& block : blocks) {
      block.first = first;
      first += block.count * block.size;
    }
    return blocks;
  }

  /// Step 2 of block set v.
  void join(Rounds& rounds, std::size_t at, const Members& members, const Block& v) const {
    require_rounds(rounds, at + 1, peers_);
    const std::size_t behind = v.first + v.count * v.size;
    const float weight = static_cast<float>(v.size) / static_cast<float>(members.size() - v.first);
    for (std::size_t j = 0; behind + j < members.size(); ++j)
      for (std::size_t c = 0; c < v.count; ++c)
        rounds[at].edge(members[behind + j], members[v.first + c * v.size + j], weight);
  }

  /// Members whose places agree in all but one digit, digits counted in units of `step` places, take their
  /// mean.
  std::size_t hyper_hypercube(Rounds& rounds, std::size_t at, const Members& members, const Radices& radices,
                              std::size_t step) const {
    for (const std::size_t radix : radices) {
      require_rounds(rounds, at + 1, peers_);
      const float weight = 1.0F / static_cast<float>(radix);
      for (std::size_t i = 0; i < members.size(); ++i)
        for (std::size_t digit = i / step % radix + 1; digit < radix; ++digit)
          rounds[at].edge(members[i], members[i + (digit - i / step % radix) * step], weight);
      step *= radix;
      ++at;
    }
    return at;
  }

  static Members part(const Members& members, std::size_t first, std::size_t count) {
    const auto begin = members.begin() + static_cast<std::ptrdiff_t>(first);
    return {begin, begin + static_cast<std::ptrdiff_t>(count)};
  }

  std::size_t peers_, k_;
};

std::vector<Graph> base(const GraphSpec& spec) {
  if (spec.peers == 1) return {Graph(1)};
  if (spec.degree == 0)
    throw GraphError("base: degree 0 joins nobody; expected the most neighbours in a round, at least 1");
  Members all(spec.peers);
  std::iota(all.begin(), all.end(), PeerId{0});
  return BaseGraph(spec.peers, spec.degree).average(all);
}

}  // namespace

constinit const GraphRow kBase{
    .listed =
        {"base",
         "exact consensus in finitely many rounds for any P, at most degree neighbours a round (degree)",
         "degree",
         {.time_varying = true}},
    .make = base,
    .weights = GraphRow::Weights::of_its_own,
    .candidates = of_degrees<1, 2, 3>};

}  // namespace gossamer::topology
