#include "gossamer/compress/selection.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <functional>

#include "gossamer/compress/kernels.h"
#include "philox.h"
#include "sums.h"
#include "wire.h"

// A threshold is the bits of a magnitude, which as integers keep the order of the numbers. Every method but
// exact proposes one and looks at how many entries reach it; what none of its proposals settles, exact does.
namespace gossamer::compress {
namespace {

using Bits = std::uint32_t;
constexpr Bits kInfinity = 0x7f800000u;  ///< bits of +Inf: nothing finite reaches it

Bits magnitude_bits(float x) { return std::bit_cast<Bits>(x) & 0x7fffffffu; }

/// Bits of the least float that is not below t ≥ 0; kInfinity where there is none.
Bits bits_of(double t) {
  if (!(t <= static_cast<double>(std::bit_cast<float>(kInfinity - 1)))) return kInfinity;
  const auto near = static_cast<float>(t);
  return std::bit_cast<Bits>(near) + (static_cast<double>(near) < t ? 1u : 0u);
}

std::size_t count_reaching(std::span<const float> x, Bits threshold) {
  std::size_t count = 0;
  constexpr std::size_t kBlock = 1u << 20;
  for (std::size_t start = 0; start < x.size(); start += kBlock) {
    // 32-bit signed counts and comparisons are what compilers turn into vector code.
    std::int32_t in_block = 0;
    const auto least = static_cast<std::int32_t>(threshold);
    for (const float v : x.subspan(start, std::min(kBlock, x.size() - start)))
      in_block += static_cast<std::int32_t>(magnitude_bits(v)) >= least ? 1 : 0;
    count += static_cast<std::size_t>(in_block);
  }
  return count;
}

/// What to keep: every magnitude above `threshold`, and the first `ties` that equal it.
struct Cut {
  Bits threshold;
  std::size_t ties;
};

/// The cut at the rank-th largest of candidates, rank ≥ 1.
Cut nth_of(std::span<Bits> candidates, std::size_t rank) {
  const auto nth = candidates.begin() + static_cast<std::ptrdiff_t>(rank - 1);
  std::nth_element(candidates.begin(), nth, candidates.end(), std::greater<>());
  const auto larger = std::count_if(candidates.begin(), nth, [&](Bits m) { return m > *nth; });
  return {*nth, rank - static_cast<std::size_t>(larger)};
}

/// The k-th largest magnitude, exactly: a histogram of the leading 11 bits finds its bin, selection within
/// the bin the rest. scratch ≥ x.size() + 1.
Cut find_cut(std::span<const float> x, std::size_t k, std::span<std::uint32_t> scratch) {
  // Four histograms in turn, for neighbours often fall into the same bin.
  std::array<std::array<std::uint64_t, 2048>, 4> histogram{};
  for (std::size_t i = 0; i < x.size(); ++i) ++histogram[i % 4][magnitude_bits(x[i]) >> 20];
  std::size_t above = 0, bin = 2048;
  for (std::size_t in_bin = 0; above + in_bin < k;) {
    above += in_bin;
    --bin;
    in_bin = histogram[0][bin] + histogram[1][bin] + histogram[2][bin] + histogram[3][bin];
  }
  std::size_t count = 0;
  for (const float v : x) {
    scratch[count] = magnitude_bits(v);
    count += (scratch[count] >> 20) == bin ? 1 : 0;
  }
  return nth_of(scratch.first(count), k - above);
}

/// The same where at least k entries are known to reach `enough`: selection among those.
Cut find_cut_above(std::span<const float> x, std::size_t k, Bits enough, std::span<std::uint32_t> scratch) {
  if (enough == 0) return find_cut(x, k, scratch);
  std::size_t count = 0;
  for (const float v : x) {
    scratch[count] = magnitude_bits(v);
    count += scratch[count] >= enough ? 1 : 0;
  }
  return nth_of(scratch.first(count), k);
}

/// Ascending indices of the entries that cut keeps, into scratch; returns those used.
std::span<std::uint32_t> take_cut(std::span<const float> x, Cut cut, std::span<std::uint32_t> scratch) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Bits m = magnitude_bits(x[i]);
    if (m < cut.threshold) continue;
    if (m == cut.threshold) {
      if (cut.ties == 0) continue;
      --cut.ties;
    }
    scratch[count++] = static_cast<std::uint32_t>(i);
  }
  return scratch.first(count);
}

/// Ascending indices of all that reach threshold, at most scratch.size() − 1, without a branch per entry.
std::span<std::uint32_t> take_reaching(std::span<const float> x, Bits threshold,
                                       std::span<std::uint32_t> scratch) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    scratch[count] = static_cast<std::uint32_t>(i);
    count += magnitude_bits(x[i]) >= threshold ? 1 : 0;
  }
  return scratch.first(count);
}

struct Moments {
  double mean, mean_magnitude, mean_square;
  Bits largest;
};

Moments moments_of(std::span<const float> x) {
  const auto n = static_cast<double>(x.size());
  const double mean = sum_in_lanes(x, [](double v) { return v; }) / n;
  const Bits largest = magnitude_bits(wire::largest_magnitude(x));
  const Norms fast = norms(x);
  // Within these limits no square overflows, and what underflows is nothing beside the sum.
  if (fast.l2_squared > 1e-25f && fast.l2_squared < 1e35f)
    return {mean, fast.l1 / n, fast.l2_squared / n, largest};
  return {mean, sum_in_lanes(x, [](double v) { return std::fabs(v); }) / n, sum_of_squares(x) / n, largest};
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

/// One search for one vector.
class Search {
 public:
  Search(std::span<const float> x, std::size_t k) : x_(x), k_(k), most_(std::min(x.size(), k + k / 2)) {}

  /// Each gives a threshold above 0 that between k and 1.5k entries reach, or 0 where it found none; it is
  /// then exact's turn, among those that reach enough().
  Bits sampled(RandomKey key, std::span<std::uint32_t> scratch);
  Bits trimmed();
  Bits bisect();
  Bits ldte_bs();
  Bits reuse(float last);
  /// The highest threshold seen that at least k entries reach.
  Bits enough() const { return enough_; }

 private:
  enum class Verdict { few, fits, many };
  Verdict judge(Bits t) {
    const std::size_t count = count_reaching(x_, t);
    if (count < k_) return Verdict::few;
    if (t > enough_) enough_ = t;
    return count <= most_ ? Verdict::fits : Verdict::many;
  }
  /// Binary search by value between low, which at least k reach, and high, which fewer than k do.
  Bits halve(double low, double high);

  static constexpr int kSteps = 20;
  std::span<const float> x_;
  std::size_t k_, most_;
  Bits enough_ = 0;
};

Bits Search::halve(double low, double high) {
  for (int step = 0; step < kSteps; ++step) {
    const double middle = low + (high - low) / 2;
    const Bits t = bits_of(middle);
    // Between neighbouring floats there is nothing left to try: entries are equal.
    if (t == 0 || t <= bits_of(low) || t >= bits_of(high)) return 0;
    switch (judge(t)) {
      case Verdict::fits:
        return t;
      case Verdict::few:
        high = middle;
        break;
      case Verdict::many:
        low = middle;
        break;
    }
  }
  return 0;
}

Bits Search::sampled(RandomKey key, std::span<std::uint32_t> scratch) {
  const std::size_t n = x_.size(), size = std::min(n, std::max<std::size_t>(512, n / 100));
  const EntryBits random(key);
  EntryBits::Group draws;
  constexpr std::size_t kPerGroup = EntryBits::kGroup / 2;
  for (std::size_t j = 0; j < size; ++j) {
    if (j % kPerGroup == 0) random.group(j / kPerGroup, draws);
    const std::size_t at = j % kPerGroup;
    const std::uint64_t draw = draws[at] | static_cast<std::uint64_t>(draws[at + kPerGroup]) << 16;
    scratch[j] = magnitude_bits(x_[static_cast<std::size_t>((draw * n) >> 32)]);
  }
  const auto sample = scratch.first(size);
  std::sort(sample.begin(), sample.end(), std::greater<>());
  // The aim lies between k and 1.5k; while too few pass, the threshold sinks.
  double rank = 1.25 * static_cast<double>(k_) * static_cast<double>(size) / static_cast<double>(n);
  for (;; rank = 1.5 * rank + 1) {
    if (rank >= static_cast<double>(size)) return 0;
    const Bits t = sample[static_cast<std::size_t>(rank)];
    if (t == 0) return 0;
    const Verdict verdict = judge(t);
    if (verdict == Verdict::fits) return t;
    if (verdict == Verdict::many) return 0;
  }
}

Bits Search::trimmed() {
  const Moments m = moments_of(x_);
  const double span = static_cast<double>(std::bit_cast<float>(m.largest)) - m.mean_magnitude;
  for (double r = 0.5; r > 0.01; r /= 2) {
    if (judge(bits_of(m.mean_magnitude + r * span)) != Verdict::few) return 0;
  }
  (void)judge(bits_of(m.mean_magnitude));
  return 0;
}

Bits Search::bisect() {
  const Moments m = moments_of(x_);
  switch (judge(bits_of(m.mean_magnitude))) {
    case Verdict::fits:
      return bits_of(m.mean_magnitude);
    case Verdict::few:
      return halve(0, m.mean_magnitude);
    case Verdict::many:
      break;
  }
  switch (judge(m.largest)) {
    case Verdict::fits:
      return m.largest;
    case Verdict::few:
      return halve(m.mean_magnitude, std::bit_cast<float>(m.largest));
    case Verdict::many:
      break;
  }
  return 0;
}

Bits Search::ldte_bs() {
  const Moments m = moments_of(x_);
  const double variance = std::max(0.0, m.mean_square - m.mean * m.mean);
  const double b = std::sqrt(variance / 2), largest = std::bit_cast<float>(m.largest);
  if (!(b > 0)) return 0;  // all entries equal
  const double density = static_cast<double>(k_) / static_cast<double>(x_.size());
  // Both tails beyond ±p hold e^(−p/b)·cosh(μ/b) of the entries.
  const double p = b * (log_cosh(std::fabs(m.mean) / b) - natural_log(density));
  if (p >= largest || bits_of(p) == 0) return halve(0, largest);
  switch (judge(bits_of(p))) {
    case Verdict::fits:
      return bits_of(p);
    case Verdict::few:
      return halve(0, p);
    case Verdict::many:
      return halve(p, largest);
  }
  return 0;
}

Bits Search::reuse(float last) {
  if (last > 0 && std::isfinite(last)) {
    const Bits t = std::bit_cast<Bits>(last);
    if (judge(t) == Verdict::fits) return t;
  }
  return ldte_bs();
}

Bits propose(Search& search, Selection method, RandomKey key, const SelectionState& state,
             std::span<std::uint32_t> scratch) {
  switch (method) {
    case Selection::exact:
      return 0;
    case Selection::sampled:
      return search.sampled(key, scratch);
    case Selection::trimmed:
      return search.trimmed();
    case Selection::bisect:
      return search.bisect();
    case Selection::ldte_bs:
      return search.ldte_bs();
    case Selection::reuse:
      return search.reuse(state.threshold);
  }
  return 0;
}

}  // namespace

std::span<const std::string_view> selection_names() {
  static constexpr std::array<std::string_view, 6> kNames = {"exact",  "sampled", "trimmed",
                                                             "bisect", "ldte_bs", "reuse"};
  return kNames;
}

std::size_t selection_max(Selection method, std::size_t k, std::size_t n) {
  const bool exactly = method == Selection::exact || method == Selection::trimmed;
  return std::min(n, exactly ? k : k + k / 2);
}

Selected select_largest(Selection method, std::span<const float> x, std::size_t k, RandomKey key,
                        SelectionState& state, Workspace& workspace) {
  assert(k <= x.size() && (k > 0 || x.empty()) && x.size() <= 0xffffffffu);
  if (k == 0) return {};
  const auto scratch = workspace.words(x.size() + 1);
  Search search(x, k);
  const Bits threshold = propose(search, method, key, state, scratch);
  const Cut cut = threshold > 0 ? Cut{threshold, 0} : find_cut_above(x, k, search.enough(), scratch);
  const auto indices = threshold > 0 ? take_reaching(x, threshold, scratch) : take_cut(x, cut, scratch);
  assert(indices.size() >= k && indices.size() <= selection_max(method, k, x.size()));
  const auto values = workspace.more_floats(indices.size());
  for (std::size_t j = 0; j < indices.size(); ++j) values[j] = x[indices[j]];
  state.threshold = std::bit_cast<float>(cut.threshold);
  return {indices, values};
}

}  // namespace gossamer::compress
