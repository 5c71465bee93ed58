// Levels in registers; included once for each instruction set, within its namespace.
namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::CappedTag<float, 16>;
using IntTag = hn::RebindToSigned<Tag>;
using WordTag = hn::RebindToUnsigned<Tag>;
using ByteTag = hn::Rebind<std::uint8_t, Tag>;           // as many bytes as Tag has floats
using AllBytesTag = hn::Repartition<std::uint8_t, Tag>;  // as many bytes as a register has
using PairTag = hn::Repartition<std::uint16_t, Tag>;
using HalfBytesTag = hn::Half<AllBytesTag>;
using Vector = hn::Vec<Tag>;
using Words = hn::Vec<WordTag>;
constexpr std::size_t kWidth = hn::MaxLanes(Tag());
constexpr std::size_t kBytes = 4 * kWidth;

/// The constants of Levels in registers.
template <bool kRange>
class LevelVectors {
 public:
  /// base: what Value's argument exceeds the field by; small enough that integers about it are exact.
  HWY_INLINE explicit LevelVectors(const Levels& levels, float base = 0)
      : zero_(Of(base + levels.zero)),
        step_(Of(levels.step)),
        unit_(Of(levels.unit)),
        low_(Of(levels.low)),
        high_(Of(levels.high)),
        base_(Of(base)),
        top_(Of(base + static_cast<float>(levels.top))),
        middle_(Of(base + static_cast<float>(levels.top) * 0.5f)) {}
  /// plain::value of base + field.
  HWY_INLINE Vector Value(Vector field) const {
    if constexpr (!kRange) return hn::Mul(hn::Mul(hn::Sub(field, zero_), step_), unit_);
    const auto upper = hn::Gt(field, middle_);
    const Vector steps = hn::Sub(field, hn::IfThenElse(upper, top_, base_));
    return hn::Add(hn::IfThenElse(upper, high_, low_), hn::Mul(hn::Mul(steps, step_), unit_));
  }

 private:
  static HWY_INLINE Vector Of(float x) { return hn::Set(Tag(), x); }
  Vector zero_, step_, unit_, low_, high_, base_, top_, middle_;
};
