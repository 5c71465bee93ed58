#include "floats.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>

#include "feedback_state.h"
#include "float_kernels_inline.h"
#include "half.h"
#include "sign_kernels_inline.h"

namespace gossamer::compress {
namespace {

/// One call of encode_floats.
class FloatEncoding {
 public:
  FloatEncoding(FloatFormat format, std::span<const float> g, FeedbackState* state, Workspace& workspace,
                std::byte* values)
      : format_(format),
        g_(g),
        state_(state),
        threads_(workspace.threads()),
        slices_(wire::ceil_div(g.size(), kSlice)),
        notes_(workspace.words(2 * slices_)),
        values_(values) {}

  /// Writes the values; returns k.
  int run() {
    const bool sent = send(FloatScale(), g_.data());
    int k = 0;
    if (sent) k = format_ == FloatFormat::fp16 ? half_exponent(largest()) : 0;
    if (sent && k == 0) return 0;
    if (state_ != nullptr) {
      take_back();
    } else if (!sent) {
      wire::require_finite(g_);
    }
    // All are finite, so this is fp16.
    if (!sent) k = half_exponent(wire::largest_magnitude(v()));
    (void)send(FloatScale(k), state_ == nullptr ? g_.data() : nullptr);
    return k;
  }

 private:
  std::uint32_t& sent_of(std::size_t s) const { return notes_[2 * s]; }
  std::uint32_t& largest_of(std::size_t s) const { return notes_[2 * s + 1]; }
  std::size_t entries(std::size_t s) const { return std::min(kSlice, g_.size() - s * kSlice); }
  std::byte* values(std::size_t s) const { return values_ + s * kSlice * bytes_of(format_); }
  float* residual(std::size_t s) const {
    return state_ == nullptr ? nullptr : state_->residual.data() + s * kSlice;
  }
  std::span<const float> v() const {
    return state_ == nullptr ? g_ : std::span<const float>(state_->residual);
  }

  /// False where not all could be sent.
  bool send(const FloatScale& scale, const float* g) {
    for_each_piece(threads_, slices_, [&](std::size_t s, std::size_t) {
      const FloatInput input{g == nullptr ? nullptr : g + s * kSlice, residual(s), entries(s)};
      const FloatsSent sent = send_floats(format_, scale, input, values(s));
      sent_of(s) = static_cast<std::uint32_t>(sent.n);
      largest_of(s) = std::bit_cast<std::uint32_t>(sent.magnitude);
    });
    for (std::size_t s = 0; s < slices_; ++s) {
      if (sent_of(s) != entries(s)) return false;
    }
    return true;
  }

  float largest() const {
    float largest = 0;
    for (std::size_t s = 0; s < slices_; ++s)
      largest = std::max(largest, std::bit_cast<float>(largest_of(s)));
    return largest;
  }

  /// After the first send: makes the residual v again. Throws where an entry is not finite.
  void take_back() {
    std::atomic<std::size_t> bad = g_.size();
    for_each_piece(threads_, slices_, [&](std::size_t s, std::size_t) {
      float* const e = residual(s);
      const std::size_t sent = sent_of(s);
      for (std::size_t i = 0; i < sent; ++i) {
        // What rounding leaves is exact, so that the sum is; only the sign of a zero is lost in it.
        const float value = plain::read_float(format_, FloatScale(), values(s), i);
        e[i] = std::copysign(value + e[i], value);
      }
      const std::size_t rest = entries(s) - sent;
      const std::size_t found = plain::take_in(g_.data() + s * kSlice + sent, e + sent, rest);
      if (found == rest) return;
      const std::size_t at = s * kSlice + sent + found;
      for (std::size_t first = bad.load(); at < first && !bad.compare_exchange_weak(first, at);) {
      }
    });
    const std::size_t i = bad.load();
    if (i != g_.size()) wire::refuse_entry(i, g_.size(), g_[i] + state_->residual[i]);
  }

  FloatFormat format_;
  std::span<const float> g_;
  FeedbackState* state_;
  Threads* threads_;
  std::size_t slices_;
  std::span<std::uint32_t> notes_;  ///< per slice how many are sent, bits of the largest magnitude of these
  std::byte* values_;
};

}  // namespace

std::size_t encode_floats(FloatFormat format, wire::CodecId id, std::span<const float> g,
                          FeedbackState* state, Workspace& workspace, std::span<std::byte> out) {
  wire::require_room(out, float_bytes(format, g.size()));
  if (state != nullptr) make_eager(*state, g.size());
  wire::Writer writer(out);
  writer.header(id, g.size());
  std::byte* const exponent = writer.skip(format == FloatFormat::fp16 ? 2 : 0);
  FloatEncoding encoding(format, g, state, workspace, writer.skip(bytes_of(format) * g.size()));
  const auto k = static_cast<std::int16_t>(encoding.run());
  if (format == FloatFormat::fp16) std::memcpy(exponent, &k, sizeof k);
  return writer.size();
}

void decode_floats(FloatFormat format, wire::Reader& in, float weight, std::span<float> acc,
                   Threads* threads) {
  const std::size_t n = acc.size(), bytes = bytes_of(format);
  in.expect_left((format == FloatFormat::fp16 ? 2 : 0) + bytes * n);
  const FloatScale scale = format == FloatFormat::fp16 ? read_half_scale(in) : FloatScale();
  const std::byte* const values = in.take(bytes * n).data();
  for_each_piece(threads, wire::ceil_div(n, kSlice), [&](std::size_t s, std::size_t) {
    const std::size_t start = s * kSlice, count = std::min(kSlice, n - start);
    if (!add_floats(format, scale, values + start * bytes, weight, acc.data() + start, count))
      refuse_values();
  });
}

}  // namespace gossamer::compress
