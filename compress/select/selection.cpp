#include "gossamer/compress/selection.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cassert>
#include <cmath>

#include "select_from.h"
#include "select_sample.h"
#include "select_scan.h"
#include "select_search.h"
#include "wire.h"

namespace gossamer::compress {
namespace {

/// Of the samples for an exact search: each where the one before it misled.
constexpr std::array<double, 3> kDrawWeights = {1, 3, 9};

/// Ends with the entries that are wanted in the scan's list.
class ListingSearch : public Search<Scan> {
 public:
  using Search::Search;
  /// Selection::radix and hierarchical, which no device needs: they list what finish() chooses from.
  void radix(Threads* team);
  void hierarchical();
  /// Keeps the k largest, ties to the lowest index, unless a threshold fits. Puts what every one reached into
  /// threshold.
  Selected finish(bool exactly, float& threshold);

 private:
  /// Lists what is largest, at least k entries, or leaves low_ next to high_: then those that equal low_ are
  /// too many to list.
  void narrow();
};

/// The rank-th largest magnitude of v, from its highest bits on.
MagnitudeBits nth_by_digits(std::span<const float> v, std::size_t rank, Threads* team) {
  constexpr std::array<unsigned, 3> kWidths = {11, 10, 10};
  MagnitudeBits prefix = 0;
  unsigned shift = 31;
  for (const unsigned width : kWidths) {
    shift -= width;
    std::array<std::atomic<std::size_t>, 1u << kWidths[0]> counts{};
    for_each_piece(team, wire::ceil_div(v.size(), kSlice), [&](std::size_t p, std::size_t) {
      std::array<std::uint32_t, counts.size()> own{};
      for (const float x : v.subspan(p * kSlice, std::min(kSlice, v.size() - p * kSlice))) {
        const MagnitudeBits m = magnitude_bits(x);
        if (m >> (shift + width) == prefix) ++own[m >> shift & ((1u << width) - 1)];
      }
      for (std::size_t digit = 0; digit < own.size(); ++digit) {
        if (own[digit] != 0) counts[digit] += own[digit];
      }
    });
    std::uint32_t digit = 1u << width;
    while (counts[--digit] < rank) rank -= counts[digit];
    prefix = prefix << width | digit;
  }
  return prefix;
}

void ListingSearch::radix(Threads* team) {
  (void)scan_.count(kInfinityBits);  // forms the vector
  const MagnitudeBits kth = nth_by_digits(scan_.vector(), k_, team);
  (void)judge(kth);
  if (!scan_.lists(kth)) (void)judge(kth + 1);
}

void ListingSearch::hierarchical() {
  auto wanted = static_cast<double>(k_);
  for (std::uint64_t attempt = 0; attempt < kDrawWeights.size(); ++attempt, wanted *= 2) {
    // A hundredth of the entries is a weight of wanted/1200 (plan_sample).
    const MagnitudeBits t = scan_.sampled_threshold(wanted, false, wanted / 1200, draw_ + (attempt << 40));
    if (t == 0 || judge(t) != Verdict::few) return;
  }
}

void ListingSearch::narrow() {
  for (std::size_t attempt = 0; !scan_.lists(low_) && high_ - low_ > 1; ++attempt) {
    const MagnitudeBits t =
        attempt < kDrawWeights.size()
            ? scan_.sampled_threshold(static_cast<double>(k_), true, kDrawWeights[attempt],
                                      draw_ + (std::uint64_t{1} << (40 + attempt)))
            : low_ + (high_ - low_) / 2;
    const bool many = judge(std::clamp(t, low_ + 1, high_ - 1)) == Verdict::many && !scan_.lists(low_);
    // What was drawn may be a magnitude that many share.
    if (many && high_ - low_ > 1) (void)judge(low_ + 1);
  }
}

Selected ListingSearch::finish(bool exactly, float& threshold) {
  Cut cut{low_, scan_.size()};
  if (exactly || !fits()) {
    narrow();
    cut = scan_.lists(low_) ? scan_.cut_in_list(k_) : Cut{low_, k_ - scan_.count(high_)};
  }
  threshold = std::bit_cast<float>(cut.threshold);
  return scan_.lists(cut.threshold) ? scan_.take(cut) : scan_.take_with_ties(cut);
}

}  // namespace

std::size_t kept_entries(double density, std::size_t n) {
  if (n == 0) return 0;
  const double product = density * static_cast<double>(n);
  // A double is within 2⁻⁵³ of the decimal that it was read from, and so is the product of what it should be.
  const double k = std::ceil(product - product * 0x1p-51);
  return std::clamp<std::size_t>(static_cast<std::size_t>(k), 1, n);
}

std::span<const std::string_view> selection_names() {
  static constexpr std::array<std::string_view, 9> kNames = {
      "exact", "sampled", "trimmed", "bisect", "ldte_bs", "reuse", "ldte_bs_paper", "radix", "hierarchical"};
  return kNames;
}

std::size_t selection_max(Selection method, std::size_t k, std::size_t n) {
  return std::min(n, selects_exactly(method) ? k : k + k / 2);
}

Selected select_from(Selection method, const Source& source, std::size_t k, RandomKey key,
                     SelectionState& state, Workspace& workspace) {
  const std::size_t n = source.g.size();
  assert(k <= n && (k > 0 || n == 0) && n <= wire::kIndexedMax);
  if (k == 0) return {};
  const std::size_t sample = plan_sample(n, static_cast<double>(k), true, kDrawWeights.back()).entries();
  Scan scan(source, list_room(n, k), workspace, sample);
  ListingSearch search(scan, k, draw_of(key));
  search.run(method, state.threshold);
  if (method == Selection::radix) search.radix(workspace.threads());
  if (method == Selection::hierarchical) search.hierarchical();
  const Selected selected = search.finish(selects_exactly(method), state.threshold);
  assert(selected.indices.size() >= k && selected.indices.size() <= selection_max(method, k, n));
  return selected;
}

Selected select_largest(Selection method, std::span<const float> x, std::size_t k, RandomKey key,
                        SelectionState& state, Workspace& workspace) {
  return select_from(method, {.g = x}, k, key, state, workspace);
}

}  // namespace gossamer::compress
