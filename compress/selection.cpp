#include "gossamer/compress/selection.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>

#include "select_from.h"
#include "select_scan.h"

// A threshold is the bits of a magnitude. Every method proposes some and is told how many entries reach them
// (Scan), until the entries that are wanted stand in the scan's list.
namespace gossamer::compress {
namespace {

using Bits = MagnitudeBits;

/// Bits of the least float that is not below t ≥ 0; kInfinityBits where there is none.
Bits bits_of(double t) {
  if (!(t <= static_cast<double>(std::bit_cast<float>(kInfinityBits - 1)))) return kInfinityBits;
  const auto near = static_cast<float>(t);
  return std::bit_cast<Bits>(near) + (static_cast<double>(near) < t ? 1u : 0u);
}

constexpr double kLn2 = 0.69314718055994531;

/// Made of + − × ÷ alone, so that every machine finds the same threshold.
double natural_log(double y) {
  int exponent;
  const double m = std::frexp(y, &exponent);  // [½, 1)
  const double t = (m - 1) / (m + 1), square = t * t;
  double sum = 0, power = t;
  for (int i = 1; i < 40; i += 2, power *= square) sum += power / i;
  return 2 * sum + exponent * kLn2;
}

/// ln cosh a for a ≥ 0, by the series of cosh; beyond 4, a − ln 2 is right to 4·10⁻⁴.
double log_cosh(double a) {
  if (a > 4) return a - kLn2;
  double cosh = 1, term = 1;
  for (int i = 1; i < 30; i += 2) {
    term *= a * a / (i * (i + 1));
    cosh += term;
  }
  return natural_log(cosh);
}

/// One search for one vector. Between low_, which at least k entries reach, and high_, which fewer do, lies
/// the k-th largest magnitude.
class Search {
 public:
  Search(Scan& scan, std::size_t k, std::uint64_t draw)
      : scan_(scan), k_(k), most_(std::min(scan.size(), k + k / 2)), draw_(draw) {}

  /// Each leaves, if it can, a threshold that between k and 1.5k entries reach.
  void sampled();
  void trimmed();
  void bisect();
  void ldte_bs();
  void reuse(float last);
  /// Keeps the k largest, ties to the lowest index, unless a threshold fits. Puts what every one reached into
  /// threshold.
  Selected finish(bool exactly, float& threshold);

 private:
  enum class Verdict { few, fits, many };
  /// Counts what reaches t, unless low_ or high_ tell.
  Verdict judge(Bits t);
  /// Takes the moments, and lists somewhat more than 1.5k entries on the way, so that most thresholds can be
  /// judged without another pass.
  Moments survey();
  /// Binary search by value between low, which at least k reach, and high, which fewer than k do.
  void halve(double low, double high);
  /// Lists what is largest, at least k entries, or leaves low_ next to high_: then those that equal low_ are
  /// too many to list.
  void narrow();

  /// A search that goes on for longer is not worth it: narrow() takes about two passes.
  static constexpr int kSteps = 24, kPasses = 4;
  Scan& scan_;
  std::size_t k_, most_;
  std::uint64_t draw_;
  Bits low_ = 0, high_ = kInfinityBits;
  bool fits_ = false;  ///< low_ is the answer
};

Search::Verdict Search::judge(Bits t) {
  if (t >= high_) return Verdict::few;
  if (t <= low_) return Verdict::many;
  const std::size_t count = scan_.count(t);
  if (count < k_) {
    high_ = t;
    return Verdict::few;
  }
  low_ = t;
  fits_ = count <= most_ && scan_.lists(t);
  return fits_ ? Verdict::fits : Verdict::many;
}

Moments Search::survey() {
  const Bits guess = scan_.sampled_threshold(1.9 * static_cast<double>(k_), false, 2, draw_);
  const Bits t = std::clamp(guess, Bits{1}, kInfinityBits - 1);
  const Moments m = scan_.moments(t);
  // What cannot be listed is more than is wanted.
  (scan_.lists(t) && scan_.count(t) < k_ ? high_ : low_) = t;
  high_ = std::min(high_, bits_of(m.largest) + 1);  // which nothing reaches
  return m;
}

void Search::halve(double low, double high) {
  for (int step = 0; step < kSteps && scan_.passes() < kPasses; ++step) {
    const double middle = low + (high - low) / 2;
    const Bits t = bits_of(middle);
    // Between neighbouring floats there is nothing left to try: entries are equal.
    if (t == 0 || t <= bits_of(low) || t >= bits_of(high)) return;
    switch (judge(t)) {
      case Verdict::fits:
        return;
      case Verdict::few:
        high = middle;
        break;
      case Verdict::many:
        low = middle;
        break;
    }
  }
}

void Search::sampled() {
  const Bits t = scan_.sampled_threshold(1.22 * static_cast<double>(k_), false, 4, draw_);
  if (t == 0 || judge(t) != Verdict::many || !scan_.lists(low_)) return;
  (void)judge(scan_.cut_in_list(k_ + k_ / 4).threshold);
}

void Search::trimmed() {
  const Moments m = survey();
  const double mean = m.mean_magnitude, span = m.largest - mean;
  for (double r = 0.5; r > 0.01; r /= 2) {
    if (judge(bits_of(mean + r * span)) != Verdict::few) return;
  }
  (void)judge(bits_of(mean));
}

void Search::bisect() {
  const Moments m = survey();
  switch (judge(bits_of(m.mean_magnitude))) {
    case Verdict::fits:
      return;
    case Verdict::few:
      return halve(0, m.mean_magnitude);
    case Verdict::many:
      return halve(m.mean_magnitude, m.largest);
  }
}

void Search::ldte_bs() {
  const Moments m = survey();
  const double b = std::sqrt(m.variance / 2);
  if (!(b > 0)) return;  // all entries equal
  // Aimed at the middle of what fits.
  const double density = 1.22 * static_cast<double>(k_) / static_cast<double>(scan_.size());
  // Both tails beyond ±p hold e^(−p/b)·cosh(μ/b) of the entries.
  const double p = b * (log_cosh(std::fabs(m.mean) / b) - natural_log(density));
  switch (judge(bits_of(p))) {
    case Verdict::fits:
      return;
    case Verdict::few:
      return halve(0, std::min<double>(p, m.largest));
    case Verdict::many:
      return halve(std::max(p, 0.0), m.largest);
  }
}

void Search::reuse(float last) {
  if (!(last > 0) || !std::isfinite(last)) return sampled();
  switch (judge(std::bit_cast<Bits>(last))) {
    case Verdict::fits:
      return;
    case Verdict::few:
      return sampled();
    case Verdict::many:
      if (!scan_.lists(low_)) return sampled();
      (void)judge(scan_.cut_in_list(k_ + k_ / 4).threshold);
  }
}

void Search::narrow() {
  constexpr int kDraws = 3;
  double weight = 1;
  for (int attempt = 0; !scan_.lists(low_) && high_ - low_ > 1; ++attempt, weight *= 3) {
    const Bits t = attempt < kDraws ? scan_.sampled_threshold(static_cast<double>(k_), true, weight,
                                                              draw_ + (std::uint64_t{1} << (40 + attempt)))
                                    : low_ + (high_ - low_) / 2;
    const bool many = judge(std::clamp(t, low_ + 1, high_ - 1)) == Verdict::many && !scan_.lists(low_);
    // What was drawn may be a magnitude that many share.
    if (many && high_ - low_ > 1) (void)judge(low_ + 1);
  }
}

Selected Search::finish(bool exactly, float& threshold) {
  Cut cut{low_, scan_.size()};
  if (exactly || !fits_) {
    narrow();
    cut = scan_.lists(low_) ? scan_.cut_in_list(k_) : Cut{low_, k_ - scan_.count(high_)};
  }
  threshold = std::bit_cast<float>(cut.threshold);
  return scan_.lists(cut.threshold) ? scan_.take(cut) : scan_.take_with_ties(cut);
}

bool is_exact(Selection method) { return method == Selection::exact || method == Selection::trimmed; }

/// Where the sample's lines are taken.
std::uint64_t draw_of(const RandomKey& key) {
  std::uint64_t draw = key.seed;
  for (const std::uint64_t part : {std::uint64_t{key.peer}, std::uint64_t{key.layer}, key.round})
    draw = draw * 0xd1342543de82ef95u + part + 1;
  return draw << 20;
}

}  // namespace

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
  assert(k <= n && (k > 0 || n == 0) && n <= 0xffffffffu);
  if (k == 0) return {};
  // A threshold is rarely so far off that more than this reach it.
  constexpr std::size_t kSpare = 1024;
  Scan scan(source, k < n / 4 ? 3 * k + kSpare : n, workspace);
  Search search(scan, k, draw_of(key));
  switch (method) {
    case Selection::exact:
      break;
    case Selection::sampled:
      search.sampled();
      break;
    case Selection::trimmed:
      search.trimmed();
      break;
    case Selection::bisect:
      search.bisect();
      break;
    case Selection::ldte_bs:
      search.ldte_bs();
      break;
    case Selection::reuse:
      search.reuse(state.threshold);
      break;
  }
  const Selected selected = search.finish(is_exact(method), state.threshold);
  assert(selected.indices.size() >= k && selected.indices.size() <= selection_max(method, k, n));
  return selected;
}

Selected select_largest(Selection method, std::span<const float> x, std::size_t k, RandomKey key,
                        SelectionState& state, Workspace& workspace) {
  return select_from(method, {.g = x}, k, key, state, workspace);
}

}  // namespace gossamer::compress
