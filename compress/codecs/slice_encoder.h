#pragma once
// How onebit_scaled encodes: slices of a vector, a bucket after the other, in the segments of segments.h.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "gossamer/compress/codec.h"
#include "gossamer/compress/kernels.h"
#include "segments.h"
#include "sign_buckets.h"

namespace gossamer::compress {

struct SplitRule {
  double lambda;  ///< 0 = auto (λ = r)
  double bound;
  bool constant;  ///< of a bucket's error itself, not of its share of the norm
  std::size_t bucket;
};

/// Bytes of the body where each of the buckets of n entries is one leaf of signs.
inline std::size_t whole_body(std::size_t n, std::size_t bucket) {
  return wire::ceil_div(n, bucket) * sizeof(float) + wire::ceil_div(n, 8);
}

/// Entries that are scanned before their buckets are looked at: they stay in the cache, as they may be needed
/// again. Of a difference more: the fewer the stretches, the less often memory is waited for at their
/// beginnings.
inline constexpr std::size_t kScanned = 4096, kDifferenceScanned = 16384;
inline std::size_t entries_scanned(std::size_t bucket, std::size_t most) {
  return std::max(most / bucket, std::size_t{1}) * bucket;
}

/// What decodes of a vector are added to, leaf by leaf, many leaves of signs at a time; the vector's
/// difference to it is what is encoded (Codec::encode_difference).
class Estimate {
 public:
  /// all: as long as the vector; scratch: entries_scanned of a difference.
  Estimate(std::span<float> all, std::span<float> scratch) : all_(all), scratch_(scratch) {}
  void fetch(std::size_t start, std::size_t n) const {
    constexpr std::size_t kLine = 64 / sizeof(float);
    for (std::size_t i = 0; i < n; i += kLine) __builtin_prefetch(all_.data() + start + i, 1, 2);
    asm volatile("");  // an effect: GCC drops calls of what only prefetches, unless it is inlined early
  }
  /// Leaves follow from entry `start` on. Its difference of x, entries from there on; until the next call.
  std::span<const float> begin(std::size_t start, std::span<const float> x) {
    first_ = at_ = all_.data() + start;
    subtract(x.data(), first_, scratch_.data(), x.size());
    return scratch_.first(x.size());
  }
  /// The signs stay where they are until flush.
  void add(const std::byte* signs, float scale, std::size_t n) {
    leaves_[count_++] = {signs, n, {scale, -scale}};
    at_ += n;
    if (count_ == leaves_.size()) flush();
  }
  /// Zeros among them too, unless only others are sent.
  void add(std::span<const float> values, bool sparse) {
    flush();
    for (const float v : values) {
      if (v != 0 || !sparse) *at_ += v;
      ++at_;
    }
    first_ = at_;
  }
  void skip(std::size_t n) {
    flush();
    first_ = at_ += n;
  }
  void flush() {
    add_leaves(std::span(leaves_).first(count_), first_);
    count_ = 0;
    first_ = at_;
  }

 private:
  std::span<float> all_, scratch_;
  std::array<SignLeaf, 32> leaves_;  ///< from first_ on
  std::size_t count_ = 0;
  float *first_ = nullptr, *at_ = nullptr;
};

/// Encodes a slice of v: its buckets one after the other. The body is laid out as if every bucket were one
/// leaf, in `near`, where it belongs if that is so in the slices before; from the first bucket on that is
/// none it goes on in `far`, which has room for any.
class SliceEncoder {
 public:
  /// estimate: whose difference is encoded; null: none. make: as of encode_difference; null: v stands.
  SliceEncoder(SignInput& input, Estimate* estimate, const Codec::Make* make, const SplitRule& rule,
               std::span<std::byte> near, std::span<std::byte> far, ModeWriter modes)
      : input_(input),
        estimate_(estimate),
        make_(make),
        rule_(rule),
        bound_squared_(rule.bound * rule.bound),
        never_scaled_(never_scaled(rule)),
        never_mean_(rule.constant ? 0 : std::max(0.0, 1 - bound_squared_ - kRough)),
        near_(near),
        far_(far),
        out_(near),
        modes_(modes) {}

  void encode(std::size_t start, std::size_t n) {
    const std::size_t run =
        entries_scanned(rule_.bucket, estimate_ != nullptr ? kDifferenceScanned : kScanned);
    for (std::size_t i = 0; i < n; i += run) scan(start + i, std::min(run, n - i));
  }
  bool is_far() const { return is_far_; }
  std::size_t bytes() const { return out_.size(); }
  const ModeWriter& modes() const { return modes_; }

 private:
  struct Sums {
    double l1, l2_squared;
    bool rough;  ///< summed in float: right to kRough
  };
  struct Leaf {
    Mode mode;
    float scale;  ///< 0: these entries are no leaf
  };
  /// More than float sums over one bucket can be wrong: 256 additions in a lane and at most 12 in the trees
  /// are right to 2e-5, and of the error there are three terms.
  static constexpr double kRough = 1e-4;

  static double never_scaled(const SplitRule& rule) {
    if (rule.lambda == 0 || rule.constant) return 0;
    const double least =
        (1 + rule.lambda * rule.lambda - rule.bound * rule.bound - kRough) / (2 * rule.lambda);
    return least > 0 ? least * least : 0;
  }

  /// While memory is waited for there, the estimate comes near as well.
  void make(std::size_t start, std::size_t n) {
    constexpr std::size_t kStretch = 1024;
    for (std::size_t i = 0; i < n; i += kStretch) {
      const std::size_t d = std::min(kStretch, n - i);
      if (estimate_ != nullptr) estimate_->fetch(start + i, d);
      (*make_)(start + i, d);
    }
  }

  std::byte* room() const { return (is_far_ ? far_ : near_).data() + out_.size(); }

  void scan(std::size_t start, std::size_t n) {
    if (make_ != nullptr) make(start, n);
    std::array<BucketSums, kDifferenceScanned / 32> sums;
    const std::size_t bucket = rule_.bucket;
    const SignScan wanted{
        nullptr, n, bucket, sums.data(), room() + sizeof(float), sizeof(float) + bucket / 8};
    std::span<const float> difference;
    if (estimate_ == nullptr)
      input_.scan(compress::Sums::norms, start, wanted);
    else
      difference = scan_difference(start, wanted);
    bool laid = true;
    for (std::size_t i = 0; i < n; i += bucket) {
      const std::size_t d = std::min(bucket, n - i), b = (start + i) / bucket;
      const std::span<const float> v =
          estimate_ == nullptr ? input_.v(start + i, d) : difference.subspan(i, d);
      const Norms fast{sums[i / bucket].first, sums[i / bucket].second};
      if (!std::isfinite(fast.l1) || !std::isfinite(fast.l2_squared)) require_finite(v, start + i);
      const Sums measured = measure(v, fast);
      bucket_size_ = static_cast<double>(d);
      const Leaf leaf = leaf_of(v, measured);
      input_.sent(b, {leaf.scale, -leaf.scale});
      if (leaf.scale > 0 && laid) {
        put(leaf, d);
        continue;
      }
      laid = false;
      if (!is_far_) spill();
      if (leaf.scale > 0) (void)lay_signs(v);
      segment(v, measured, leaf);
    }
    if (estimate_ != nullptr) estimate_->flush();
  }

  std::span<const float> scan_difference(std::size_t start, SignScan wanted) {
    const std::span<const float> difference = estimate_->begin(start, input_.v(start, wanted.n));
    wanted.g = difference.data();
    scan_signs(compress::Sums::norms, wanted);
    return difference;
  }

  void require_finite(std::span<const float> v, std::size_t start) const {
    if (estimate_ == nullptr) return input_.require_finite(start, v.size());
    if (const std::size_t at = wire::first_not_finite(v); at != v.size())
      wire::refuse_entry(start + at, input_.size(), v[at]);
  }

  void spill() {
    is_far_ = true;
    wire::Writer out(far_);
    out.bytes(near_.data(), out_.size());
    out_ = out;
  }

  /// The signs of v where they belong if it is a leaf, and its sums from the same pass.
  Norms lay_signs(std::span<const float> v) {
    BucketSums sums;
    const std::size_t bucket = wire::ceil_div(v.size(), 32) * 32;
    std::byte* const signs = far_.data() + out_.size() + sizeof(float);
    scan_signs(compress::Sums::norms, {v.data(), v.size(), bucket, &sums, signs, 0});
    return {sums.first, sums.second};
  }

  /// A leaf's signs are laid already.
  void segment(std::span<const float> v, const Sums& sums, Leaf leaf) {
    if (sums.l1 == 0) {
      if (estimate_ != nullptr) estimate_->skip(v.size());
      return modes_.put(Mode::zero, v.size());
    }
    if (leaf.scale > 0) return put(leaf, v.size());
    if (v.size() <= kLeaf) return values(v);
    modes_.put(Mode::split, v.size());
    for (const auto half : {v.first(first_half(v.size())), v.subspan(first_half(v.size()))}) {
      const Sums measured = measure(half, lay_signs(half));
      segment(half, measured, leaf_of(half, measured));
    }
  }

  static Sums measure(std::span<const float> v, Norms fast) {
    // Within these limits no square overflows, and what underflows is nothing beside the sum.
    if (fast.l2_squared > 1e-25f && fast.l2_squared < 1e35f) return {fast.l1, fast.l2_squared, true};
    if (fast.l1 == 0) return {0, 0, true};
    Sums sums{0, 0, false};
    for (const float x : v) {
      const double a = std::fabs(static_cast<double>(x));
      sums.l1 += a;
      sums.l2_squared += a * a;
    }
    return sums;
  }

  Leaf leaf_of(std::span<const float> v, const Sums& sums) const {
    if (sums.l1 == 0) return {Mode::zero, 0};
    const auto d = static_cast<double>(v.size());
    const double full = d * sums.l2_squared, l1_squared = sums.l1 * sums.l1;
    if (rule_.lambda > 0 && !(sums.rough && l1_squared < never_scaled_ * full)) {
      const auto scale = static_cast<float>(rule_.lambda * std::sqrt(sums.l2_squared / d));
      if (holds(v, sums, scale)) return {Mode::scaled, scale};
    }
    if (sums.rough && l1_squared < never_mean_ * full) return {Mode::split, 0};
    const auto mean = static_cast<float>(sums.l1 / d);
    if (holds(v, sums, mean)) return {rule_.lambda > 0 ? Mode::mean : Mode::scaled, mean};
    return {Mode::split, 0};
  }

  /// The most that ‖C[v] − v‖₂² may be for d entries of the bucket at hand under this bound squared.
  double limit(double bound_squared, double l2_squared, std::size_t d) const {
    return bound_squared * (rule_.constant ? static_cast<double>(d) / bucket_size_ : l2_squared);
  }

  /// Whether ‖scale·sign(v) − v‖₂ is within the bound in the numbers that the decoder makes.
  bool holds(std::span<const float> v, const Sums& sums, float scale) const {
    if (!(scale > 0)) return false;
    const double s = scale;
    const double error = sums.l2_squared - 2 * s * sums.l1 + static_cast<double>(v.size()) * s * s;
    // Far from the bound the closed form decides; near it, entry by entry in double.
    const double most = limit(bound_squared_, sums.l2_squared, v.size()), unsure = kRough * sums.l2_squared;
    if (sums.rough && error <= most - unsure) return true;
    if (sums.rough && error >= most + unsure) return false;
    double exact_error = 0, exact_norm = 0;
    for (const float x : v) {
      const double a = std::fabs(static_cast<double>(x));
      exact_error += (a - s) * (a - s);
      exact_norm += a * a;
    }
    return exact_error <= limit(bound_squared_ * (1 - 1e-12), exact_norm, v.size());
  }

  void put(Leaf leaf, std::size_t d) {
    if (estimate_ != nullptr) estimate_->add(room() + sizeof(float), leaf.scale, d);
    modes_.put(leaf.mode, d);
    out_.f32(leaf.scale);
    (void)out_.skip(wire::ceil_div(d, 8));
  }

  void values(std::span<const float> v) {
    std::uint16_t present = 0;
    for (std::size_t i = 0; i < v.size(); ++i) {
      if (v[i] != 0) present = static_cast<std::uint16_t>(present | (1u << i));
    }
    const auto count = static_cast<std::size_t>(std::popcount(present));
    const bool sparse = sizeof present + count * sizeof(float) < v.size_bytes();
    if (estimate_ != nullptr) estimate_->add(v, sparse);
    if (!sparse) {
      modes_.put(Mode::dense, v.size());
      return out_.bytes(v.data(), v.size_bytes());
    }
    modes_.put(Mode::sparse, v.size());
    out_.bytes(&present, sizeof present);
    for (const float x : v) {
      if (x != 0) out_.f32(x);
    }
  }

  SignInput& input_;
  Estimate* estimate_;
  const Codec::Make* make_;
  const SplitRule& rule_;
  double bound_squared_;
  double bucket_size_ = 0;            ///< of the bucket at hand
  double never_scaled_, never_mean_;  ///< r² below which λ, or λ = r, surely breaks the bound
  std::span<std::byte> near_, far_;
  wire::Writer out_;
  ModeWriter modes_;
  bool is_far_ = false;
};

}  // namespace gossamer::compress
