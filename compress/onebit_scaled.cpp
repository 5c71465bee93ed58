#include <algorithm>
#include <cmath>

#include "codecs.h"
#include "gossamer/compress/kernels.h"

// Payload: header, varint bucket, varint m, m bytes of modes, body.
//
// Each bucket is a tree: a segment is one leaf, or is split into two halves, the first half in front. Modes
// are a prefix code, one per segment in that order, packed from the lowest bit of each byte; the body holds,
// in the same order, what each leaf needs:
//
//   0      signs at scale λ‖v‖₂/√d                fp32 scale, ceil(d/8) bytes of signs
//   10     signs at scale ‖v‖₁/d (λ = r)          the same
//   110    d > 16: split.  d ≤ 16: dense          nothing.  d × fp32
//   1110   d ≤ 16: dense but for its zeros        16 bits, one where an entry follows; those × fp32
//   111    d > 16: zero,  1111  d ≤ 16: zero      nothing
//
// A split puts a multiple of 16 entries into its first half, so that only a bucket's last leaf has signs that
// do not fill their bytes. Each bucket thus costs one mode bit where the rule holds at once.
namespace gossamer::compress {
namespace {

constexpr std::size_t kLeaf = 16;  ///< a segment this small is not split

enum class Mode { scaled, mean, split, dense, sparse, zero };

std::size_t first_half(std::size_t d) { return wire::ceil_div(d, 2 * kLeaf) * kLeaf; }

/// Packs modes into scratch words as bytes, lowest bit first.
class ModeWriter {
 public:
  explicit ModeWriter(std::span<std::uint32_t> words) : words_(words) {}
  void put(Mode mode, std::size_t d) {
    switch (mode) {
      case Mode::scaled:
        return bits(0b0, 1);
      case Mode::mean:
        return bits(0b01, 2);
      case Mode::split:
      case Mode::dense:
        return bits(0b011, 3);
      case Mode::sparse:
        return bits(0b0111, 4);
      case Mode::zero:
        return d > kLeaf ? bits(0b111, 3) : bits(0b1111, 4);
    }
  }
  std::size_t bytes() const { return wire::ceil_div(used_, 8); }
  const void* data() const { return words_.data(); }

 private:
  void bits(std::uint32_t value, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i, ++used_) {
      assert(used_ / 32 < words_.size());
      std::uint32_t& word = words_[used_ / 32];
      if (used_ % 32 == 0) word = 0;
      word |= ((value >> i) & 1u) << (used_ % 32);
    }
  }
  std::span<std::uint32_t> words_;
  std::size_t used_ = 0;
};

class ModeReader {
 public:
  explicit ModeReader(wire::Reader in) : in_(in) {}
  Mode next(std::size_t d) {
    if (!bit()) return Mode::scaled;
    if (!bit()) return Mode::mean;
    const bool small = d <= kLeaf;
    if (!bit()) return small ? Mode::dense : Mode::split;
    return small && !bit() ? Mode::sparse : Mode::zero;
  }
  void finish() const {
    if (in_.left() != 0 || byte_ != 0) throw PayloadError("payload has modes past its last bucket");
  }

 private:
  bool bit() {
    if (left_ == 0) {
      byte_ = in_.u8();
      left_ = 8;
    }
    const bool set = (byte_ & 1u) != 0;
    byte_ = static_cast<std::uint8_t>(byte_ >> 1);
    --left_;
    return set;
  }
  wire::Reader in_;
  std::uint8_t byte_ = 0;
  int left_ = 0;
};

/// Encodes one vector; lives for one call of encode.
class SegmentEncoder {
 public:
  /// lambda 0 = auto (λ = r).
  SegmentEncoder(std::span<const float> whole, double lambda, double bound, wire::Writer& out,
                 ModeWriter& modes)
      : whole_(whole), lambda_(lambda), bound_squared_(bound * bound), out_(out), modes_(modes) {}

  void segment(std::span<const float> v) {
    const Sums sums = measure(v);
    if (sums.l1 == 0) return modes_.put(Mode::zero, v.size());
    const auto d = static_cast<double>(v.size());
    if (lambda_ > 0) {
      const auto scale = static_cast<float>(lambda_ * std::sqrt(sums.l2_squared / d));
      if (holds(v, sums, scale)) return signs(Mode::scaled, scale, v);
    }
    const auto mean = static_cast<float>(sums.l1 / d);
    if (holds(v, sums, mean)) return signs(lambda_ > 0 ? Mode::mean : Mode::scaled, mean, v);
    if (v.size() <= kLeaf) return values(v);
    modes_.put(Mode::split, v.size());
    segment(v.first(first_half(v.size())));
    segment(v.subspan(first_half(v.size())));
  }

 private:
  struct Sums {
    double l1, l2_squared;
    bool rough;  ///< summed in float: right to kRough
  };
  /// Float sums over one bucket are wrong by less than a hundredth of this.
  static constexpr double kRough = 1e-3;

  Sums measure(std::span<const float> v) const {
    const Norms fast = norms(v);
    // Within these limits no square overflows, and what underflows is nothing beside the sum.
    if (fast.l2_squared > 1e-25f && fast.l2_squared < 1e35f) return {fast.l1, fast.l2_squared, true};
    if (fast.l1 == 0) return {0, 0, true};
    wire::require_finite(whole_);
    Sums sums{0, 0, false};
    for (const float x : v) {
      const double a = std::fabs(static_cast<double>(x));
      sums.l1 += a;
      sums.l2_squared += a * a;
    }
    return sums;
  }

  /// Whether ‖scale·sign(v) − v‖₂ ≤ ε‖v‖₂ in the numbers that the decoder makes.
  bool holds(std::span<const float> v, const Sums& sums, float scale) const {
    if (!(scale > 0)) return false;
    const double s = scale;
    const double error = sums.l2_squared - 2 * s * sums.l1 + static_cast<double>(v.size()) * s * s;
    // Far from the bound the closed form decides; near it, entry by entry in double.
    if (sums.rough && error <= (bound_squared_ - kRough) * sums.l2_squared) return true;
    if (sums.rough && error >= (bound_squared_ + kRough) * sums.l2_squared) return false;
    double exact_error = 0, exact_norm = 0;
    for (const float x : v) {
      const double a = std::fabs(static_cast<double>(x));
      exact_error += (a - s) * (a - s);
      exact_norm += a * a;
    }
    return exact_error <= bound_squared_ * (1 - 1e-12) * exact_norm;
  }

  void signs(Mode mode, float scale, std::span<const float> v) {
    modes_.put(mode, v.size());
    out_.f32(scale);
    wire::write_signs(out_, v);
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

  std::span<const float> whole_;
  double lambda_, bound_squared_;
  wire::Writer& out_;
  ModeWriter& modes_;
};

class SegmentDecoder {
 public:
  SegmentDecoder(wire::Reader modes, wire::Reader& body, float weight)
      : modes_(modes), in_(body), weight_(weight) {}

  void segment(std::span<float> acc) {
    switch (modes_.next(acc.size())) {
      case Mode::scaled:
      case Mode::mean:
        return signs(acc);
      case Mode::split:
        segment(acc.first(first_half(acc.size())));
        return segment(acc.subspan(first_half(acc.size())));
      case Mode::dense:
        return wire::add_f32(in_.take(acc.size_bytes()), weight_, acc);
      case Mode::sparse:
        return sparse(acc);
      case Mode::zero:
        return;
    }
  }
  void finish() const { modes_.finish(); }

 private:
  void signs(std::span<float> acc) {
    const float scale = in_.f32();
    if (!(scale > 0)) throw PayloadError("payload holds a scale that is not positive");
    wire::add_packed_signs(in_.take(wire::ceil_div(acc.size(), 8)), weight_ * scale, acc);
  }

  void sparse(std::span<float> acc) {
    std::uint32_t present = in_.u8();
    present |= static_cast<std::uint32_t>(in_.u8()) << 8;
    if ((present >> acc.size()) != 0) throw PayloadError("payload marks entries past the end of a segment");
    for (; present != 0; present &= present - 1) {
      acc[static_cast<std::size_t>(std::countr_zero(present))] += weight_ * in_.f32();
    }
  }

  ModeReader modes_;
  wire::Reader& in_;
  float weight_;
};

/// Per bucket C[v] = λ·(‖v‖₂/√d)·sign(v), sign(0) = +1, subject to ‖C[v]−v‖₂ ≤ ε‖v‖₂ (parameter `bound`).
/// The error at λ is ‖v‖²(1 − 2λr + λ²) with r = ‖v‖₁/(√d‖v‖₂): least at λ = r, where the scale is ‖v‖₁/d and
/// the rule is `onebit`; above ‖v‖² for λ > 2r. A bucket that breaks ε at the given λ tries λ = r, then is
/// halved until each part holds; parts of ≤ 16 entries that still break it go as they are; a part of zeros
/// costs its mode only. Contractive with δ = 1 − ε², guaranteed for every finite v, denormal and huge ones
/// included.
class OneBitScaled final : public Codec {
 public:
  OneBitScaled(double lambda, double bound, std::size_t bucket)
      : lambda_(lambda), bound_(bound), bucket_(bucket) {}

  std::string spec() const override {
    return "onebit_scaled:lambda=" + (lambda_ > 0 ? to_text(lambda_) : "auto") + ",bound=" + to_text(bound_) +
           ",bucket=" + std::to_string(bucket_);
  }
  std::string_view name() const override { return "onebit_scaled"; }
  Traits traits() const override { return {.contractive = true}; }

  /// No leaf is larger than its values, but for one of a single entry (5 bytes), of which a vector has at
  /// most one.
  std::size_t max_bytes(std::size_t n) const override { return front_max(n) + n * sizeof(float) + 1; }

  std::size_t encode(std::span<const float> x, RandomKey, Workspace& workspace,
                     std::span<std::byte> out) const override {
    wire::require_room(out, max_bytes(x.size()));
    ModeWriter modes(workspace.words(mode_words(x.size())));
    // The modes' size is known at the end: the body is made behind room for the longest front, then moved up.
    const auto room = out.subspan(front_max(x.size()));
    wire::Writer body(room);
    SegmentEncoder encoder(x, lambda_, bound_, body, modes);
    for (std::size_t i = 0; i < x.size(); i += bucket_) {
      encoder.segment(x.subspan(i, std::min(bucket_, x.size() - i)));
    }
    wire::Writer front(out);
    front.header(wire::CodecId::onebit_scaled, x.size());
    front.varint(bucket_);
    front.varint(modes.bytes());
    front.bytes(modes.data(), modes.bytes());
    std::memmove(out.data() + front.size(), room.data(), body.size());
    return front.size() + body.size();
  }

 private:
  static std::size_t front_max(std::size_t n) {
    return wire::kHeaderMax + 2 * wire::kVarintMax + mode_words(n) * sizeof(std::uint32_t);
  }
  /// A tree of m leaves has m − 1 splits: at most 4m + 3(m − 1) bits, m = ceil(d/16).
  static std::size_t mode_words(std::size_t n) { return wire::ceil_div(7 * wire::ceil_div(n, kLeaf), 32); }

  double lambda_, bound_;
  std::size_t bucket_;
};

}  // namespace

std::unique_ptr<const Codec> make_onebit_scaled(Parameters& parameters) {
  const std::string_view given = parameters.text("lambda");
  double lambda = 0;
  if (given != "auto") {
    lambda = parameters.real("lambda", 1, "a number above 0 and at most 1, or auto",
                             [](double v) { return v > 0 && v <= 1; });
  }
  const double bound =
      parameters.real("bound", 0.9, "a number above 0 and below 1", [](double v) { return v > 0 && v < 1; });
  return std::make_unique<OneBitScaled>(lambda, bound, bucket_parameter(parameters));
}

void decode_onebit_scaled(wire::Reader& in, float weight, std::span<float> acc, Threads*) {
  const std::size_t bucket = wire::read_bucket(in);
  const std::uint64_t mode_bytes = in.varint();
  if (mode_bytes > in.left()) throw PayloadError("payload truncated: fewer bytes of modes than it claims");
  const wire::Reader modes(in.take(static_cast<std::size_t>(mode_bytes)));
  SegmentDecoder decoder(modes, in, weight);
  while (!acc.empty()) {
    const auto part = acc.first(std::min(bucket, acc.size()));
    decoder.segment(part);
    acc = acc.subspan(part.size());
  }
  decoder.finish();
}

}  // namespace gossamer::compress
