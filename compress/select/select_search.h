#pragma once
// The search for a threshold that between k and 1.5k entries reach, for the CPU and for CUDA devices. A
// threshold is the bits of a magnitude. Every method proposes some and is told how many entries reach them.
#include <bit>
#include <cmath>
#include <cstdint>

#include "select_scan.h"

namespace gossamer::compress {

/// Bits of the least float that is not below t ≥ 0; kInfinityBits where there is none.
constexpr MagnitudeBits bits_reaching(double t) {
  if (!(t <= static_cast<double>(std::bit_cast<float>(kInfinityBits - 1)))) return kInfinityBits;
  const auto near = static_cast<float>(t);
  return std::bit_cast<MagnitudeBits>(near) + (static_cast<double>(near) < t ? 1u : 0u);
}

/// What a search wants of its sample: see plan_sample.
struct SampleWish {
  double wanted, weight;
};
/// Somewhat more than 1.5k entries, that most thresholds can be judged by without another pass.
constexpr SampleWish surveyed(std::size_t k) { return {1.9 * static_cast<double>(k), 2}; }
constexpr SampleWish aimed(std::size_t k) { return {1.22 * static_cast<double>(k), 4}; }

/// One search for one vector. Between low_, which at least k entries reach, and high_, which fewer do, lies
/// the k-th largest magnitude.
///
/// Passes answer as Scan does (select_scan.h); its count may be any number that lies on the same side of k
/// and of ⌊1.5k⌋ as the right one.
template <class Passes>
class Search {
 public:
  constexpr Search(Passes& scan, std::size_t k, std::uint64_t draw)
      : scan_(scan), k_(k), most_(k + k / 2 < scan.size() ? k + k / 2 : scan.size()), draw_(draw) {}

  /// Each leaves, if it can, a threshold that between k and 1.5k entries reach.
  constexpr void run(Selection method, float last) {
    switch (method) {
      case Selection::exact:
      case Selection::radix:
      case Selection::hierarchical:
        return;
      case Selection::sampled:
        return sampled();
      case Selection::trimmed:
        return trimmed();
      case Selection::bisect:
        return bisect();
      case Selection::ldte_bs:
        return ldte_bs();
      case Selection::reuse:
        return reuse(last);
      case Selection::ldte_bs_paper:
        return ldte_bs_paper();
    }
  }
  /// Whether low() is the answer.
  constexpr bool fits() const { return fits_; }
  constexpr MagnitudeBits low() const { return low_; }

 protected:
  enum class Verdict { few, fits, many };
  /// Counts what reaches t, unless low_ or high_ tell.
  constexpr Verdict judge(MagnitudeBits t) {
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

  Passes& scan_;
  std::size_t k_, most_;
  std::uint64_t draw_;
  MagnitudeBits low_ = 0, high_ = kInfinityBits;

 private:
  /// A search that goes on for longer is not worth it: Scan's own exact search takes about two passes.
  static constexpr int kSteps = 24, kPasses = 4;

  /// Takes the moments, and lists somewhat more than 1.5k entries on the way.
  constexpr Moments survey() {
    const SampleWish wish = surveyed(k_);
    const MagnitudeBits guess = scan_.sampled_threshold(wish.wanted, false, wish.weight, draw_);
    const MagnitudeBits t = guess < 1 ? 1 : guess < kInfinityBits ? guess : kInfinityBits - 1;
    const Moments m = scan_.moments(t);
    // What cannot be listed is more than is wanted.
    (scan_.lists(t) && scan_.count(t) < k_ ? high_ : low_) = t;
    const MagnitudeBits above_all = bits_reaching(m.largest) + 1;
    high_ = above_all < high_ ? above_all : high_;
    return m;
  }

  /// Binary search by value between low, which at least k reach, and high, which fewer than k do.
  constexpr void halve(double low, double high) {
    for (int step = 0; step < kSteps && scan_.passes() < kPasses; ++step) {
      const double middle = low + (high - low) / 2;
      const MagnitudeBits t = bits_reaching(middle);
      // Between neighbouring floats there is nothing left to try: entries are equal.
      if (t == 0 || t <= bits_reaching(low) || t >= bits_reaching(high)) return;
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

  constexpr void sampled() {
    const SampleWish wish = aimed(k_);
    const MagnitudeBits t = scan_.sampled_threshold(wish.wanted, false, wish.weight, draw_);
    if (t == 0 || judge(t) != Verdict::many || !scan_.lists(low_)) return;
    (void)judge(scan_.cut_in_list(k_ + k_ / 4).threshold);
  }

  constexpr void trimmed() {
    const Moments m = survey();
    const double mean = m.mean_magnitude, span = m.largest - mean;
    for (double r = 0.5; r > 0.01; r /= 2) {
      if (judge(bits_reaching(mean + r * span)) != Verdict::few) return;
    }
    (void)judge(bits_reaching(mean));
  }

  constexpr void bisect() {
    const Moments m = survey();
    const Verdict verdict = judge(bits_reaching(m.mean_magnitude));
    if (verdict == Verdict::few) halve(0, m.mean_magnitude);
    if (verdict == Verdict::many) halve(m.mean_magnitude, m.largest);
  }

  /// The magnitude beyond which `wanted` entries lie of a Laplace distribution with this b: both tails beyond
  /// ±p hold e^(−p/b)·cosh(μ/b) of the entries.
  constexpr double fitted(double mean, double b, double wanted) const {
    return b * (log_cosh(std::fabs(mean) / b) - natural_log(wanted / static_cast<double>(scan_.size())));
  }

  constexpr void ldte_bs() {
    const Moments m = survey();
    const double b = std::sqrt(m.variance / 2);
    if (!(b > 0)) return;  // all entries equal
    // Aimed at the middle of what fits.
    const double p = fitted(m.mean, b, 1.22 * static_cast<double>(k_));
    const Verdict verdict = judge(bits_reaching(p));
    const double largest = m.largest;
    if (verdict == Verdict::few) halve(0, p < largest ? p : largest);
    if (verdict == Verdict::many) halve(p > 0 ? p : 0, largest);
  }

  /// No sample, and no list that tells a count.
  constexpr void ldte_bs_paper() {
    const Moments m = scan_.moments(kInfinityBits);
    const double b = std::sqrt(m.variance / 2), largest = m.largest;
    if (!(b > 0)) return;
    double low = 0, high = largest, at = fitted(m.mean, b, static_cast<double>(k_));
    at = at < largest ? at : largest;
    const double delta = largest * 0x1p-20;
    for (;; at = low + (high - low) / 2) {
      scan_.forget();
      const Verdict verdict = judge(bits_reaching(at));
      if (verdict == Verdict::fits) return;
      (verdict == Verdict::few ? high : low) = at;
      if (high - low < delta) return;
    }
  }

  constexpr void reuse(float last) {
    if (!(last > 0) || !(last < std::bit_cast<float>(kInfinityBits))) return sampled();
    const Verdict verdict = judge(std::bit_cast<MagnitudeBits>(last));
    if (verdict == Verdict::fits) return;
    if (verdict == Verdict::few || !scan_.lists(low_)) return sampled();
    (void)judge(scan_.cut_in_list(k_ + k_ / 4).threshold);
  }

  /// Made of + − × ÷ alone, so that every machine finds the same threshold.
  static constexpr double natural_log(double y) {
    constexpr double kLn2 = 0.69314718055994531;
    int exponent = 0;
    const double m = std::frexp(y, &exponent);  // [½, 1)
    const double t = (m - 1) / (m + 1), square = t * t;
    double sum = 0, power = t;
    for (int i = 1; i < 40; i += 2, power *= square) sum += power / i;
    return 2 * sum + exponent * kLn2;
  }

  /// ln cosh a for a ≥ 0, by the series of cosh; beyond 4, a − ln 2 is right to 4·10⁻⁴.
  static constexpr double log_cosh(double a) {
    constexpr double kLn2 = 0.69314718055994531;
    if (a > 4) return a - kLn2;
    double cosh = 1, term = 1;
    for (int i = 1; i < 30; i += 2) {
      term *= a * a / (i * (i + 1));
      cosh += term;
    }
    return natural_log(cosh);
  }

  bool fits_ = false;  ///< low_ is the answer
};

}  // namespace gossamer::compress
