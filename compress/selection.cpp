#include "gossamer/compress/selection.h"

#include <algorithm>
#include <array>
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
  /// Keeps the k largest, ties to the lowest index, unless a threshold fits. Puts what every one reached into
  /// threshold.
  Selected finish(bool exactly, float& threshold);

 private:
  /// Lists what is largest, at least k entries, or leaves low_ next to high_: then those that equal low_ are
  /// too many to list.
  void narrow();
};

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

bool is_exact(Selection method) { return method == Selection::exact || method == Selection::trimmed; }

}  // namespace

std::size_t kept_entries(double density, std::size_t n) {
  if (n == 0) return 0;
  const double product = density * static_cast<double>(n);
  // A double is within 2⁻⁵³ of the decimal that it was read from, and so is the product of what it should be.
  const double k = std::ceil(product - product * 0x1p-51);
  return std::clamp<std::size_t>(static_cast<std::size_t>(k), 1, n);
}

std::span<const std::string_view> selection_names() {
  static constexpr std::array<std::string_view, 6> kNames = {"exact",  "sampled", "trimmed",
                                                             "bisect", "ldte_bs", "reuse"};
  return kNames;
}

std::size_t selection_max(Selection method, std::size_t k, std::size_t n) {
  return std::min(n, is_exact(method) ? k : k + k / 2);
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
  const Selected selected = search.finish(is_exact(method), state.threshold);
  assert(selected.indices.size() >= k && selected.indices.size() <= selection_max(method, k, n));
  return selected;
}

Selected select_largest(Selection method, std::span<const float> x, std::size_t k, RandomKey key,
                        SelectionState& state, Workspace& workspace) {
  return select_from(method, {.g = x}, k, key, state, workspace);
}

}  // namespace gossamer::compress
