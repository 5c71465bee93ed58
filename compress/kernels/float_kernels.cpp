// Compiled once for each instruction set that Highway knows, as kernels.cpp is.
#include "float_kernels.h"

#include <algorithm>

#include "float_kernels_inline.h"
#include "targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "float_kernels.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace gossamer::compress {
namespace HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_SCALAR
FloatsSent Send(FloatFormat format, const FloatScale& scale, const FloatInput& input, std::byte* out) {
  return plain::send_floats(format, scale, input, out);
}
bool Add(FloatFormat format, const FloatScale& scale, const std::byte* in, float weight, float* acc,
         std::size_t n) {
  return plain::add_floats(format, scale, in, weight, acc, n);
}
bool Sum(float factor, const float* x, const std::byte* came, std::size_t n, std::byte* out) {
  return plain::sum_floats(factor, x, came, n, out);
}
bool Finite(const std::byte* values, std::size_t n) { return plain::finite_floats(values, n); }
#else

namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::CappedTag<float, 16>;
using IntTag = hn::RebindToSigned<Tag>;
using WordTag = hn::RebindToUnsigned<Tag>;
using HalfTag = hn::Rebind<std::uint16_t, Tag>;
using Vector = hn::Vec<Tag>;
using Words = hn::Vec<WordTag>;
using Halves = hn::Vec<HalfTag>;
constexpr std::size_t kWidth = hn::MaxLanes(Tag());
constexpr std::size_t kGroup = 32;    ///< entries that are worked on together
constexpr std::size_t kAhead = 1024;  ///< entries from those worked on to those fetched
constexpr std::size_t kLine = 16;     ///< entries of a cache line
constexpr std::size_t kParts = kGroup / kWidth;

HWY_INLINE void FetchAhead(const float* x) {
  hwy::Prefetch(x + kAhead);
  hwy::Prefetch(x + kAhead + kLine);
}

/// Payloads begin at any byte.
template <class D>
HWY_INLINE hn::Vec<D> LoadBytes(D d, const std::byte* from) {
  const hn::Repartition<std::uint8_t, D> bytes;
  return hn::BitCast(d, hn::LoadU(bytes, reinterpret_cast<const std::uint8_t*>(from)));
}
template <class D>
HWY_INLINE void StoreBytes(D, hn::Vec<D> v, std::byte* to) {
  const hn::Repartition<std::uint8_t, D> bytes;
  hn::StoreU(hn::BitCast(bytes, v), bytes, reinterpret_cast<std::uint8_t*>(to));
}

HWY_INLINE Words Magnitudes(Words bits) { return hn::And(bits, hn::Set(WordTag(), plain::kMagnitude)); }
HWY_INLINE Words SignsOf(Words bits) { return hn::AndNot(hn::Set(WordTag(), plain::kMagnitude), bits); }

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
// The hardware converts as plain::to_half does.
HWY_INLINE Halves ToHalf(Vector x) {
  const hn::Rebind<hwy::float16_t, Tag> tag;
  return hn::BitCast(HalfTag(), hn::DemoteTo(tag, x));
}
HWY_INLINE Vector FromHalf(Halves halves) {
  const hn::Rebind<hwy::float16_t, Tag> tag;
  return hn::PromoteTo(Tag(), hn::BitCast(tag, halves));
}
#else
HWY_INLINE Words Word(std::uint32_t value) { return hn::Set(WordTag(), value); }

/// As plain::to_half.
HWY_INLINE Halves ToHalf(Vector x) {
  const Tag tag;
  const WordTag words;
  const Words bits = hn::BitCast(words, x), magnitude = Magnitudes(bits);
  const Vector shifted = hn::Add(hn::BitCast(tag, magnitude), hn::Set(tag, 0.5f));
  const Words subnormal = hn::Sub(hn::BitCast(words, shifted), Word(0x3f000000u));
  const Words odd = hn::And(hn::ShiftRight<13>(magnitude), Word(1));
  const Words normal = hn::ShiftRight<13>(hn::Add(hn::Add(magnitude, Word(0xfffu - 0x38000000u)), odd));
  const auto small = hn::RebindMask(words, hn::Lt(hn::BitCast(tag, magnitude), hn::Set(tag, 0x1p-14f)));
  const Words half = hn::IfThenElse(small, subnormal, normal);
  return hn::TruncateTo(HalfTag(), hn::Or(hn::ShiftRight<16>(SignsOf(bits)), half));
}
/// As plain::from_half.
HWY_INLINE Vector FromHalf(Halves halves) {
  const Tag tag;
  const WordTag words;
  const Words bits = hn::PromoteTo(words, halves);
  const Words shifted = hn::ShiftLeft<13>(hn::And(bits, Word(0x7fffu)));
  const Vector value = hn::Mul(hn::BitCast(tag, shifted), hn::Set(tag, 0x1p112f));
  const auto special = hn::Ge(value, hn::Set(tag, 65536.0f));
  const Words magnitude = hn::BitCast(words, hn::IfThenElse(special, hn::Inf(tag), value));
  return hn::BitCast(tag, hn::Or(magnitude, hn::ShiftLeft<16>(hn::And(bits, Word(0x8000u)))));
}
#endif

/// As plain::to_bf16.
HWY_INLINE Halves ToBf16(Vector x) {
  const WordTag words;
  const Words bits = hn::BitCast(words, x), magnitude = Magnitudes(bits);
  const Words odd = hn::And(hn::ShiftRight<16>(magnitude), hn::Set(words, 1));
  const Words rounded = hn::ShiftRight<16>(hn::Add(hn::Add(magnitude, hn::Set(words, 0x7fff)), odd));
  const Words held = hn::Min(rounded, hn::Set(words, plain::kMostBf16));
  return hn::TruncateTo(HalfTag(), hn::Or(hn::ShiftRight<16>(SignsOf(bits)), held));
}

/// Values there and back.
template <FloatFormat kFormat>
class Converter {
 public:
  explicit HWY_INLINE Converter(const FloatScale& scale)
      : down_{hn::Set(Tag(), scale.down[0]), hn::Set(Tag(), scale.down[1])},
        up_{hn::Set(Tag(), scale.up[0]), hn::Set(Tag(), scale.up[1])},
        most_(hn::Set(Tag(), scale.largest)) {}

  HWY_INLINE Vector Read(const std::byte* from) const {
    if constexpr (kFormat == FloatFormat::fp32) return LoadBytes(Tag(), from);
    if constexpr (kFormat != FloatFormat::fp32) return Value(LoadBytes(HalfTag(), from));
  }
  /// Returns what then stands there.
  HWY_INLINE Vector Write(Vector v, std::byte* to) const {
    if constexpr (kFormat == FloatFormat::fp32) {
      StoreBytes(Tag(), v, to);
      return v;
    } else {
      const Halves halves = Rounded(v);
      StoreBytes(HalfTag(), halves, to);
      return Value(halves);
    }
  }

 private:
  HWY_INLINE Halves Rounded(Vector v) const {
    if constexpr (kFormat == FloatFormat::bf16) return ToBf16(v);
    const Vector scaled = hn::Mul(hn::Mul(v, down_[0]), down_[1]);
    return ToHalf(hn::Max(hn::Neg(most_), hn::Min(scaled, most_)));
  }
  HWY_INLINE Vector Value(Halves halves) const {
    if constexpr (kFormat == FloatFormat::bf16)
      return hn::BitCast(Tag(), hn::ShiftLeft<16>(hn::PromoteTo(WordTag(), halves)));
    return hn::Mul(hn::Mul(FromHalf(halves), up_[0]), up_[1]);
  }
  Vector down_[2], up_[2], most_;
};

HWY_INLINE hn::Vec<IntTag> IntMagnitudes(Vector v) {
  return hn::BitCast(IntTag(), Magnitudes(hn::BitCast(WordTag(), v)));
}

template <FloatFormat kFormat, bool kInput, bool kFeedback>
FloatsSent SendKind(const FloatScale& scale, const FloatInput& input, std::byte* HWY_RESTRICT out) {
  const Tag tag;
  const IntTag ints;
  const Converter<kFormat> converter(scale);
  // As integers magnitudes keep their order, with NaN at the end.
  const auto most = hn::Set(ints, std::bit_cast<std::int32_t>(plain::sendable(kFormat, scale)));
  auto largest = hn::Zero(ints);
  const auto magnitude = [&] { return std::bit_cast<float>(hn::GetLane(hn::MaxOfLanes(ints, largest))); };
  const float* HWY_RESTRICT g = input.g;
  float* HWY_RESTRICT e = input.e;
  std::size_t i = 0;
  for (; i + kGroup <= input.n; i += kGroup) {
    if constexpr (kInput) FetchAhead(g + i);
    if constexpr (kFeedback) FetchAhead(e + i);
    Vector v[kParts];
    auto group = hn::Zero(ints);
    for (std::size_t k = 0; k < kParts; ++k) {
      if constexpr (kInput) v[k] = hn::LoadU(tag, g + i + k * kWidth);
      if constexpr (kFeedback) {
        const Vector kept = hn::LoadU(tag, e + i + k * kWidth);
        v[k] = kInput ? hn::Add(v[k], kept) : kept;
      }
      group = hn::Max(group, IntMagnitudes(v[k]));
    }
    if (HWY_UNLIKELY(!hn::AllFalse(ints, hn::Gt(group, most)))) return {i, magnitude()};
    largest = hn::Max(largest, group);
    for (std::size_t k = 0; k < kParts; ++k) {
      const std::size_t at = i + k * kWidth;
      const Vector sent = converter.Write(v[k], out + at * bytes_of(kFormat));
      if constexpr (kFeedback) hn::StoreU(hn::Sub(v[k], sent), tag, e + at);
    }
  }
  const FloatInput rest{kInput ? g + i : nullptr, kFeedback ? e + i : nullptr, input.n - i};
  const FloatsSent tail = plain::send_floats(kFormat, scale, rest, out + i * bytes_of(kFormat));
  return {i + tail.n, std::max(magnitude(), tail.magnitude)};
}

template <FloatFormat kFormat>
FloatsSent SendFormat(const FloatScale& scale, const FloatInput& input, std::byte* out) {
  if (input.e == nullptr) return SendKind<kFormat, true, false>(scale, input, out);
  if (input.g == nullptr) return SendKind<kFormat, false, true>(scale, input, out);
  return SendKind<kFormat, true, true>(scale, input, out);
}

FloatsSent Send(FloatFormat format, const FloatScale& scale, const FloatInput& input, std::byte* out) {
  switch (format) {
    case FloatFormat::fp32:
      return SendFormat<FloatFormat::fp32>(scale, input, out);
    case FloatFormat::fp16:
      return SendFormat<FloatFormat::fp16>(scale, input, out);
    case FloatFormat::bf16:
      break;
  }
  return SendFormat<FloatFormat::bf16>(scale, input, out);
}

template <FloatFormat kFormat>
bool AddFormat(const FloatScale& scale, const std::byte* HWY_RESTRICT in, float weight,
               float* HWY_RESTRICT acc, std::size_t n) {
  const Tag tag;
  const Converter<kFormat> converter(scale);
  const Vector factor = hn::Set(tag, weight);
  auto largest = hn::Zero(IntTag());
  std::size_t i = 0;
  for (; i + kGroup <= n; i += kGroup) {
    FetchAhead(acc + i);
    hwy::Prefetch(in + (i + kAhead) * bytes_of(kFormat));
    for (std::size_t k = 0; k < kParts; ++k) {
      const std::size_t at = i + k * kWidth;
      const Vector value = converter.Read(in + at * bytes_of(kFormat));
      largest = hn::Max(largest, IntMagnitudes(value));
      hn::StoreU(hn::Add(hn::LoadU(tag, acc + at), hn::Mul(factor, value)), tag, acc + at);
    }
  }
  const bool tail = plain::add_floats(kFormat, scale, in + i * bytes_of(kFormat), weight, acc + i, n - i);
  return tail && std::isfinite(std::bit_cast<float>(hn::GetLane(hn::MaxOfLanes(IntTag(), largest))));
}

bool Add(FloatFormat format, const FloatScale& scale, const std::byte* in, float weight, float* acc,
         std::size_t n) {
  switch (format) {
    case FloatFormat::fp32:
      return AddFormat<FloatFormat::fp32>(scale, in, weight, acc, n);
    case FloatFormat::fp16:
      return AddFormat<FloatFormat::fp16>(scale, in, weight, acc, n);
    case FloatFormat::bf16:
      break;
  }
  return AddFormat<FloatFormat::bf16>(scale, in, weight, acc, n);
}

template <bool kOwn, bool kCame>
bool SumKind(float factor, const float* HWY_RESTRICT x, const std::byte* HWY_RESTRICT came, std::size_t n,
             std::byte* HWY_RESTRICT out) {
  const Tag tag;
  const Vector by = hn::Set(tag, factor), zero = hn::Zero(tag);
  auto largest = hn::Zero(IntTag());
  std::size_t i = 0;
  for (; i + kGroup <= n; i += kGroup) {
    if constexpr (kOwn) FetchAhead(x + i);
    for (std::size_t line = 0; kCame && line < kGroup; line += kLine)
      hwy::Prefetch(came + (i + kAhead + line) * sizeof(float));
    for (std::size_t k = 0; k < kParts; ++k) {
      const std::size_t at = i + k * kWidth;
      Vector sum = kOwn ? hn::Add(hn::Mul(by, hn::LoadU(tag, x + at)), zero) : zero;
      if constexpr (kCame) sum = hn::Add(sum, LoadBytes(tag, came + at * sizeof(float)));
      largest = hn::Max(largest, IntMagnitudes(sum));
      StoreBytes(tag, sum, out + at * sizeof(float));
    }
  }
  const bool tail =
      plain::sum_floats(factor, kOwn ? x + i : nullptr, kCame ? came + i * sizeof(float) : nullptr, n - i,
                        out + i * sizeof(float));
  return tail && std::isfinite(std::bit_cast<float>(hn::GetLane(hn::MaxOfLanes(IntTag(), largest))));
}

bool Sum(float factor, const float* x, const std::byte* came, std::size_t n, std::byte* out) {
  if (x == nullptr) return SumKind<false, true>(factor, x, came, n, out);
  if (came == nullptr) return SumKind<true, false>(factor, x, came, n, out);
  return SumKind<true, true>(factor, x, came, n, out);
}

bool Finite(const std::byte* values, std::size_t n) {
  const Tag tag;
  hn::Vec<IntTag> largest[kParts];
  for (auto& part : largest) part = hn::Zero(IntTag());
  std::size_t i = 0;
  for (; i + kGroup <= n; i += kGroup)
    for (std::size_t k = 0; k < kParts; ++k) {
      const Vector value = LoadBytes(tag, values + (i + k * kWidth) * sizeof(float));
      largest[k] = hn::Max(largest[k], IntMagnitudes(value));
    }
  for (std::size_t k = 1; k < kParts; ++k) largest[0] = hn::Max(largest[0], largest[k]);
  return plain::finite_floats(values + i * sizeof(float), n - i) &&
         std::isfinite(std::bit_cast<float>(hn::GetLane(hn::MaxOfLanes(IntTag(), largest[0]))));
}
#endif

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gossamer::compress
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gossamer::compress {
namespace {

HWY_EXPORT(Send);
HWY_EXPORT(Add);
HWY_EXPORT(Sum);
HWY_EXPORT(Finite);

}  // namespace

FloatsSent send_floats(FloatFormat format, const FloatScale& scale, const FloatInput& input, std::byte* out) {
  return HWY_DYNAMIC_DISPATCH(Send)(format, scale, input, out);
}

bool add_floats(FloatFormat format, const FloatScale& scale, const std::byte* in, float weight, float* acc,
                std::size_t n) {
  return HWY_DYNAMIC_DISPATCH(Add)(format, scale, in, weight, acc, n);
}

bool sum_floats(float factor, const float* x, const std::byte* came, std::size_t n, std::byte* out) {
  return HWY_DYNAMIC_DISPATCH(Sum)(factor, x, came, n, out);
}

bool finite_floats(const std::byte* values, std::size_t n) { return HWY_DYNAMIC_DISPATCH(Finite)(values, n); }

}  // namespace gossamer::compress
#endif  // HWY_ONCE
