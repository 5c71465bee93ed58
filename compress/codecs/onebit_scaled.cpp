#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>

#include "codecs.h"
#include "fused_codec.h"
#include "slice_encoder.h"

// Payload: header, varint bucket, varint m, m bytes of modes, body; see segments.h.
namespace gossamer::compress {
namespace {

/// A tree of m leaves has m − 1 splits: at most 4m + 3(m − 1) bits, m = ceil(d/16).
std::size_t mode_words(std::size_t n) { return wire::ceil_div(7 * wire::ceil_div(n, kLeaf), 32); }
std::size_t front_max(std::size_t n) {
  return wire::kHeaderMax + 2 * wire::kVarintMax + mode_words(n) * sizeof(std::uint32_t);
}

/// One call of encode or encode_feedback. Each slice first goes to a place of its own.
class Encoding {
 public:
  Encoding(const SplitRule& rule, std::span<const float> g, FeedbackState* state, Workspace& workspace,
           std::span<std::byte> out, std::span<float> estimate = {}, const Codec::Make* make = nullptr)
      : rule_(rule),
        n_(g.size()),
        slice_(wire::slice_of(rule.bucket)),
        slices_(wire::ceil_div(n_, slice_)),
        input_(g, state, rule.bucket),
        state_(state),
        threads_(workspace.threads()),
        out_(out),
        estimate_(estimate),
        make_(make != nullptr && *make ? make : nullptr),
        workspace_(workspace) {
    const std::size_t each = mode_words(slice_);
    words_ = workspace.words(slices_ * (each + kNoteWords) + mode_words(n_));
    front_ = front_of(wire::ceil_div(wire::ceil_div(n_, rule.bucket), 8));
  }

  std::size_t run() {
    for_each_piece(threads_, slices_, [&](std::size_t s, std::size_t thread) {
      std::optional<Estimate> estimate;
      if (!estimate_.empty())
        estimate.emplace(estimate_,
                         workspace_.of(thread).floats(entries_scanned(rule_.bucket, kDifferenceScanned)));
      SliceEncoder encoder(input_, estimate ? &*estimate : nullptr, make_, rule_, near(s), far(s),
                           ModeWriter(modes(s)));
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
  std::span<float> estimate_;  ///< empty: none
  const Codec::Make* make_;    ///< null: g stands
  Workspace& workspace_;
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
    return {.contractive = true, .delta = std::max(even, promised), .promised = promised};
  }

  /// No leaf is larger than its values, but for one of a single entry (5 bytes), of which a vector has at
  /// most one. As much again as signs take is for the making.
  std::size_t max_bytes(std::size_t n) const override {
    return front_max(n) + whole_body(n, rule_.bucket) + n * sizeof(float) + 1;
  }
  /// In one pass.
  std::size_t encode_difference(std::span<const float> x, std::span<float> estimate, RandomKey,
                                Workspace& workspace, std::span<std::byte> out,
                                const Make& make) const override {
    wire::require_room(out, max_bytes(x.size()));
    return Encoding(rule_, x, nullptr, workspace, out, estimate, &make).run();
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
