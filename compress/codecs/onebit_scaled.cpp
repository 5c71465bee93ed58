#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "codecs.h"
#include "fused_codec.h"
#include "gossamer/compress/kernels.h"
#include "segments.h"
#include "sign_buckets.h"

// Payload: header, varint bucket, varint m, m bytes of modes, body; see segments.h.
namespace gossamer::compress {
namespace {

struct SplitRule {
  double lambda;  ///< 0 = auto (λ = r)
  double bound;
  bool constant;  ///< of a bucket's error itself, not of its share of the norm
  std::size_t bucket;
};

/// Bytes of the body where each of the buckets of n entries is one leaf of signs.
std::size_t whole_body(std::size_t n, std::size_t bucket) {
  return wire::ceil_div(n, bucket) * sizeof(float) + wire::ceil_div(n, 8);
}

/// Encodes a slice of v: its buckets one after the other. The body is laid out as if every bucket were one
/// leaf, in `near`, where it belongs if that is so in the slices before; from the first bucket on that is
/// none it goes on in `far`, which has room for any.
class SliceEncoder {
 public:
  SliceEncoder(SignInput& input, const SplitRule& rule, std::span<std::byte> near, std::span<std::byte> far,
               ModeWriter modes)
      : input_(input),
        rule_(rule),
        bound_squared_(rule.bound * rule.bound),
        never_scaled_(never_scaled(rule)),
        never_mean_(rule.constant ? 0 : std::max(0.0, 1 - bound_squared_ - kRough)),
        near_(near),
        far_(far),
        out_(near),
        modes_(modes) {}

  void encode(std::size_t start, std::size_t n) {
    const std::size_t run = std::max(kScanned / rule_.bucket, std::size_t{1}) * rule_.bucket;
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
  /// Entries that are scanned before their buckets are looked at: they stay in the cache, as they may be
  /// needed again.
  static constexpr std::size_t kScanned = 4096;

  static double never_scaled(const SplitRule& rule) {
    if (rule.lambda == 0 || rule.constant) return 0;
    const double least =
        (1 + rule.lambda * rule.lambda - rule.bound * rule.bound - kRough) / (2 * rule.lambda);
    return least > 0 ? least * least : 0;
  }

  void scan(std::size_t start, std::size_t n) {
    std::array<BucketSums, kScanned / 32> sums;
    const std::size_t bucket = rule_.bucket;
    std::byte* const room = (is_far_ ? far_ : near_).data() + out_.size();
    input_.scan(compress::Sums::norms, start,
                {nullptr, n, bucket, sums.data(), room + sizeof(float), sizeof(float) + bucket / 8});
    bool laid = true;
    for (std::size_t i = 0; i < n; i += bucket) {
      const std::size_t d = std::min(bucket, n - i), b = (start + i) / bucket;
      const std::span<const float> v = input_.v(start + i, d);
      const Norms fast{sums[i / bucket].first, sums[i / bucket].second};
      if (!std::isfinite(fast.l1) || !std::isfinite(fast.l2_squared)) input_.require_finite(start + i, d);
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
    if (sums.l1 == 0) return modes_.put(Mode::zero, v.size());
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
    if (sizeof present + count * sizeof(float) >= v.size_bytes()) {
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
  const SplitRule& rule_;
  double bound_squared_;
  double bucket_size_ = 0;            ///< of the bucket at hand
  double never_scaled_, never_mean_;  ///< r² below which λ, or λ = r, surely breaks the bound
  std::span<std::byte> near_, far_;
  wire::Writer out_;
  ModeWriter modes_;
  bool is_far_ = false;
};

/// A tree of m leaves has m − 1 splits: at most 4m + 3(m − 1) bits, m = ceil(d/16).
std::size_t mode_words(std::size_t n) { return wire::ceil_div(7 * wire::ceil_div(n, kLeaf), 32); }
std::size_t front_max(std::size_t n) {
  return wire::kHeaderMax + 2 * wire::kVarintMax + mode_words(n) * sizeof(std::uint32_t);
}

/// One call of encode or encode_feedback. Each slice first goes to a place of its own.
class Encoding {
 public:
  Encoding(const SplitRule& rule, std::span<const float> g, FeedbackState* state, Workspace& workspace,
           std::span<std::byte> out)
      : rule_(rule),
        n_(g.size()),
        slice_(wire::slice_of(rule.bucket)),
        slices_(wire::ceil_div(n_, slice_)),
        input_(g, state, rule.bucket),
        state_(state),
        threads_(workspace.threads()),
        out_(out) {
    const std::size_t each = mode_words(slice_);
    words_ = workspace.words(slices_ * (each + kNoteWords) + mode_words(n_));
    front_ = front_of(wire::ceil_div(wire::ceil_div(n_, rule.bucket), 8));
  }

  std::size_t run() {
    for_each_piece(threads_, slices_, [&](std::size_t s, std::size_t) {
      SliceEncoder encoder(input_, rule_, near(s), far(s), ModeWriter(modes(s)));
      encoder.encode(s * slice_, entries(s));
      note(s)[0] = static_cast<std::uint32_t>(encoder.bytes());
      note(s)[1] = static_cast<std::uint32_t>(encoder.modes().used());
      note(s)[2] = encoder.is_far() ? 1 : 0;
    });
    input_.finish();
    if (state_ != nullptr) settle();
    return put_together();
  }

 private:
  static constexpr std::size_t kNoteWords = 3;  ///< bytes of the body, bits of modes, 1 where it is far

  std::size_t entries(std::size_t s) const { return std::min(slice_, n_ - s * slice_); }
  std::span<std::uint32_t> modes(std::size_t s) const {
    return words_.subspan(s * mode_words(slice_), mode_words(slice_));
  }
  std::span<std::uint32_t> note(std::size_t s) const {
    return words_.subspan(slices_ * mode_words(slice_) + s * kNoteWords, kNoteWords);
  }
  std::span<std::byte> near(std::size_t s) const {
    return out_.subspan(front_ + s * whole_body(slice_, rule_.bucket), whole_body(entries(s), rule_.bucket));
  }
  std::span<std::byte> far(std::size_t s) const {
    const std::size_t start = front_max(n_) + whole_body(n_, rule_.bucket) + s * slice_ * sizeof(float);
    return out_.subspan(start, entries(s) * sizeof(float) + (s + 1 == slices_ ? 1 : 0));
  }
  std::span<std::byte> body(std::size_t s) const {
    return (note(s)[2] != 0 ? far(s) : near(s)).first(note(s)[0]);
  }
  /// Bytes in front of the body.
  std::size_t front_of(std::size_t mode_bytes) const {
    std::array<std::byte, wire::kHeaderMax + 2 * wire::kVarintMax> scratch;
    return write_front(wire::Writer(scratch), mode_bytes) + mode_bytes;
  }
  std::size_t write_front(wire::Writer front, std::size_t mode_bytes) const {
    front.header(wire::CodecId::onebit_scaled, n_);
    front.varint(rule_.bucket);
    front.varint(mode_bytes);
    return front.size();
  }

  /// Of buckets that are more than one leaf the state holds e.
  void settle() {
    for_each_piece(threads_, slices_, [&](std::size_t s, std::size_t) {
      if (note(s)[2] == 0) return;
      const auto bytes = std::as_bytes(modes(s)).first(wire::ceil_div(note(s)[1], 8));
      SegmentDecoder decoder(wire::Reader(bytes), wire::Reader(body(s)), -1);
      for (std::size_t i = s * slice_; i < s * slice_ + entries(s); i += rule_.bucket) {
        const std::size_t d = std::min(rule_.bucket, n_ - i);
        if (state_->pending[i / rule_.bucket].plus > 0) {
          decoder.skip(d);
        } else {
          decoder.add({input_.residual(i), d}, rule_.bucket);
        }
      }
    });
  }

  std::size_t put_together() {
    std::size_t s = 0, body_bytes = 0;
    for (; s < slices_ && note(s)[2] == 0; ++s) body_bytes += note(s)[0];
    // The first that is far may end where others begin.
    for (std::size_t t = s; t < slices_; ++t) {
      if (note(t)[2] == 0) std::memcpy(far(t).data(), near(t).data(), note(t)[0]);
    }
    for (; s < slices_; ++s) {
      std::memmove(out_.data() + front_ + body_bytes, far(s).data(), note(s)[0]);
      body_bytes += note(s)[0];
    }
    ModeWriter all(words_.last(mode_words(n_)));
    for (s = 0; s < slices_; ++s) all.append(ModeWriter(modes(s), note(s)[1]));
    const std::size_t front = front_of(all.bytes());
    if (front != front_) std::memmove(out_.data() + front, out_.data() + front_, body_bytes);
    const std::size_t at = write_front(wire::Writer(out_), all.bytes());
    if (all.bytes() > 0) std::memcpy(out_.data() + at, all.data(), all.bytes());
    return front + body_bytes;
  }

  SplitRule rule_;
  std::size_t n_, slice_, slices_;
  SignInput input_;
  FeedbackState* state_;
  Threads* threads_;
  std::span<std::byte> out_;
  std::span<std::uint32_t> words_;
  std::size_t front_ = 0;  ///< bytes in front of the body if every bucket is one leaf of the first mode
};

/// Per bucket C[v] = λ·(‖v‖₂/√d)·sign(v), sign(0) = +1, subject to ‖C[v]−v‖₂ ≤ ε‖v‖₂ (parameter `bound`).
/// The error at λ is ‖v‖²(1 − 2λr + λ²) with r = ‖v‖₁/(√d‖v‖₂): least at λ = r, where the scale is ‖v‖₁/d and
/// the rule is `onebit`; above ‖v‖² for λ > 2r. A bucket that breaks ε at the given λ tries λ = r, then is
/// halved until each part holds; parts of ≤ 16 entries that still break it go as they are; a part of zeros
/// costs its mode only. Contractive with δ = 1 − ε², guaranteed for every finite v, denormal and huge ones
/// included.
///
/// Parameter bound_abs in its place: ‖C[v]−v‖₂ ≤ c on every bucket, whatever its norm; a part of d' of the
/// bucket's d entries keeps to c²·d'/d. Not contractive, since a bucket with a norm under c may come back
/// wrong by more than it holds; every entry's error is at most c, so that residuals stay bounded.
class OneBitScaled final : public FusedCodec {
 public:
  explicit OneBitScaled(const SplitRule& rule) : rule_(rule) {}

  std::string spec() const override {
    return "onebit_scaled:lambda=" + (rule_.lambda > 0 ? to_text(rule_.lambda) : "auto") +
           (rule_.constant ? ",bound_abs=" : ",bound=") + to_text(rule_.bound) +
           ",bucket=" + std::to_string(rule_.bucket);
  }
  std::string_view name() const override { return "onebit_scaled"; }
  Traits traits() const override {
    if (rule_.constant) return {.bounded = true};
    const double lambda = rule_.lambda > 0 ? rule_.lambda : kEvenRatio;
    const double even = lambda * (2 * kEvenRatio - lambda), promised = 1 - rule_.bound * rule_.bound;
    return {.contractive = true, .delta = std::max(even, promised)};
  }

  /// No leaf is larger than its values, but for one of a single entry (5 bytes), of which a vector has at
  /// most one. As much again as signs take is for the making.
  std::size_t max_bytes(std::size_t n) const override {
    return front_max(n) + whole_body(n, rule_.bucket) + n * sizeof(float) + 1;
  }

 private:
  std::size_t write(std::span<const float> g, FeedbackState* state, RandomKey, Workspace& workspace,
                    std::span<std::byte> out) const override {
    wire::require_room(out, max_bytes(g.size()));
    return Encoding(rule_, g, state, workspace, out).run();
  }

  SplitRule rule_;
};

}  // namespace

std::unique_ptr<const Codec> make_onebit_scaled(Parameters& parameters) {
  const std::string_view given = parameters.text("lambda");
  double lambda = 0;
  if (given != "auto") {
    lambda = parameters.real("lambda", 1, "a number above 0 and at most 1, or auto",
                             [](double v) { return v > 0 && v <= 1; });
  }
  const std::string_view constant = parameters.text("bound_abs");
  if (!constant.empty() && !parameters.text("bound").empty())
    parameters.refuse("bound_abs", constant, "none beside bound, which it takes the place of: give one");
  const double bound = constant.empty() ? parameters.real("bound", 0.9, "a number above 0 and below 1",
                                                          [](double v) { return v > 0 && v < 1; })
                                        : parameters.real("bound_abs", 1, "a number above 0",
                                                          [](double v) { return v > 0 && std::isfinite(v); });
  return std::make_unique<OneBitScaled>(
      SplitRule{lambda, bound, !constant.empty(), bucket_parameter(parameters)});
}

}  // namespace gossamer::compress
