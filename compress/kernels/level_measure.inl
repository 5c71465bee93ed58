// Measuring buckets and drawing random bits; included once for each instruction set, within its namespace.
using DoubleTag = hn::Repartition<double, Tag>;
using LongTag = hn::Repartition<std::uint64_t, Tag>;

HWY_INLINE hn::Vec<IntTag> Magnitude(Vector v) {
  return hn::And(hn::BitCast(IntTag(), v), hn::Set(IntTag(), 0x7fffffff));
}

/// Sums of squares in double, 32 lanes. The square of a float is exact in double, so that a fused
/// multiplication and addition rounds as the two apart do.
class Squares {
 public:
  HWY_INLINE Squares() {
    for (auto& lane : lane_) lane = hn::Zero(DoubleTag());
  }
  /// A row of 32 entries.
  HWY_INLINE void Add(const float* row) {
    const DoubleTag tag;
    const hn::Rebind<float, DoubleTag> half;
    for (std::size_t k = 0; k < kVectors; ++k) {
      const auto v = hn::PromoteTo(tag, hn::LoadU(half, row + k * kLanes));
      lane_[k] = hn::MulAdd(v, v, lane_[k]);
    }
  }
  HWY_INLINE double Total() {
    for (std::size_t width = kVectors / 2; width > 0; width /= 2) {
      for (std::size_t k = 0; k < width; ++k) lane_[k] = hn::Add(lane_[k], lane_[k + width]);
    }
    std::array<double, kLanes> rest;
    hn::StoreU(lane_[0], DoubleTag(), rest.data());
    return plain::combine_lanes(rest);
  }

 private:
  static constexpr std::size_t kLanes = hn::MaxLanes(DoubleTag());
  static constexpr std::size_t kVectors = plain::kSumLanes / kLanes;
  hn::Vec<DoubleTag> lane_[kVectors];
};

/// What is measured of whole rows of 32 entries, in two chains.
template <Measure kWhat>
struct Measuring {
  explicit HWY_INLINE Measuring(float first) {
    largest[0] = largest[1] = hn::Zero(IntTag());
    low[0] = low[1] = high[0] = high[1] = hn::Set(Tag(), first);
  }
  HWY_INLINE void Add(std::size_t k, Vector v) {
    largest[k % 2] = hn::Max(largest[k % 2], Magnitude(v));
    if constexpr (kWhat == Measure::range) {
      low[k % 2] = hn::Min(low[k % 2], v);
      high[k % 2] = hn::Max(high[k % 2], v);
    }
  }
  hn::Vec<IntTag> largest[2];
  Vector low[2], high[2];
  Squares squares;
};

template <Measure kWhat, bool kAdd, bool kPrefetch>
void MeasureAs(const float* x, const float* e, float* v, std::size_t n, Measured* measured) {
  const Tag tag;
  constexpr std::size_t kRow = plain::kSumLanes;
  Measuring<kWhat> measuring(measured->low);
  std::size_t i = 0;
  for (; i + kRow <= n; i += kRow) {
    if constexpr (kPrefetch) {
      hwy::Prefetch(plain::ahead(x, i));
      hwy::Prefetch(plain::ahead(x, i + 16));
    }
    if constexpr (kPrefetch && kAdd) {
      hwy::Prefetch(plain::ahead(e, i));
      hwy::Prefetch(plain::ahead(e, i + 16));
    }
    for (std::size_t k = 0; k < kRow / kWidth; ++k) {
      Vector entries = hn::LoadU(tag, x + i + k * kWidth);
      if constexpr (kAdd) {
        entries = hn::Add(entries, hn::LoadU(tag, e + i + k * kWidth));
        hn::StoreU(entries, tag, v + i + k * kWidth);
      }
      measuring.Add(k, entries);
    }
    if constexpr (kWhat == Measure::squares) measuring.squares.Add((kAdd ? v : x) + i);
  }
  measured->largest = std::bit_cast<float>(
      hn::GetLane(hn::MaxOfLanes(IntTag(), hn::Max(measuring.largest[0], measuring.largest[1]))));
  if constexpr (kWhat == Measure::range) {
    measured->low = hn::GetLane(hn::MinOfLanes(tag, hn::Min(measuring.low[0], measuring.low[1])));
    measured->high = hn::GetLane(hn::MaxOfLanes(tag, hn::Max(measuring.high[0], measuring.high[1])));
  }
  if (i < n) {
    float row[kRow] = {};
    for (std::size_t j = 0; i + j < n; ++j) row[j] = kAdd ? (v[i + j] = x[i + j] + e[i + j]) : x[i + j];
    plain::measure_entries(row, n - i, *measured);
    if constexpr (kWhat == Measure::squares) measuring.squares.Add(row);
  }
  if constexpr (kWhat == Measure::squares) measured->squares = measuring.squares.Total();
}

template <bool kAdd, bool kPrefetch>
void MeasureWhat(Measure what, const float* x, const float* e, float* v, std::size_t n, Measured* measured) {
  if (what == Measure::largest) return MeasureAs<Measure::largest, kAdd, kPrefetch>(x, e, v, n, measured);
  if (what == Measure::range) return MeasureAs<Measure::range, kAdd, kPrefetch>(x, e, v, n, measured);
  return MeasureAs<Measure::squares, kAdd, kPrefetch>(x, e, v, n, measured);
}

template <bool kPrefetch>
Measured MeasureFrom(Measure what, const float* x, const float* e, float* v, std::size_t n) {
  Measured measured;
  if (n > 0) measured.low = measured.high = e == nullptr ? x[0] : x[0] + e[0];
  if (e != nullptr) {
    MeasureWhat<true, kPrefetch>(what, x, e, v, n, &measured);
  } else {
    MeasureWhat<false, kPrefetch>(what, x, nullptr, nullptr, n, &measured);
  }
  measured.low += 0.0f;
  measured.high += 0.0f;
  return measured;
}

/// Philox on counters in 64-bit lanes: a product's low half is the next counter word as it stands, and what
/// is in the high halves of counter words is never looked at. Even and odd blocks apart, so that their words
/// then interleave.
template <class Between>
void DrawPhilox(const EntryBits& random, std::size_t group, Draws* draws, const Between& between) {
  const LongTag tag;
  const WordTag word_tag;
  using Long = hn::Vec<LongTag>;
  constexpr std::size_t kSets = kWidth == 16 ? 4 : 2, kLanes = kWidth / 2;
  const Long multiplier0 = hn::Set(tag, EntryBits::kMultiplier0);
  const Long multiplier1 = hn::Set(tag, EntryBits::kMultiplier1);
  const auto product = [&](Long a, Long b) {
    return hn::MulEven(hn::BitCast(word_tag, a), hn::BitCast(word_tag, b));
  };
  const Long twice = hn::Iota(tag, 0);
  std::uint64_t keys[EntryBits::kRounds][2];
  for (unsigned round = 0; round < EntryBits::kRounds; ++round) {
    keys[round][0] = random.key()[0] + round * EntryBits::kWeyl0;
    keys[round][1] = random.key()[1] + round * EntryBits::kWeyl1;
  }
  for (std::size_t b = 0; b < EntryBits::kBlocks; b += kSets * kLanes) {
    Long c0[kSets], c1[kSets], c2[kSets], c3[kSets];
    for (std::size_t s = 0; s < kSets; ++s) {
      const std::size_t first = group * EntryBits::kBlocks + b + s / 2 * kWidth + s % 2;
      c0[s] = hn::Add(hn::Set(tag, first), hn::Add(twice, twice));
      c1[s] = hn::Set(tag, random.counter()[0]);
      c2[s] = hn::Set(tag, random.counter()[1]);
      c3[s] = hn::Set(tag, random.counter()[2]);
    }
    between(b, kSets * kLanes);
    for (const auto& key : keys) {
      const Long key0 = hn::Set(tag, key[0]), key1 = hn::Set(tag, key[1]);
      for (std::size_t s = 0; s < kSets; ++s) {
        const Long p0 = product(multiplier0, c0[s]), p1 = product(multiplier1, c2[s]);
        c0[s] = hn::Xor3(hn::ShiftRight<32>(p1), c1[s], key0);
        c2[s] = hn::Xor3(hn::ShiftRight<32>(p0), c3[s], key1);
        c1[s] = p1;
        c3[s] = p0;
      }
    }
    const auto store = [&](Long even, Long odd, std::uint32_t* to) {
      hn::StoreU(hn::OddEven(hn::BitCast(word_tag, hn::ShiftLeft<32>(odd)), hn::BitCast(word_tag, even)),
                 word_tag, to);
    };
    for (std::size_t s = 0; s < kSets; s += 2) {
      std::uint32_t* const to = draws->words + b + s / 2 * kWidth;
      store(c0[s], c0[s + 1], to);
      store(c1[s], c1[s + 1], to + Draws::kRow);
      store(c2[s], c2[s + 1], to + 2 * Draws::kRow);
      store(c3[s], c3[s + 1], to + 3 * Draws::kRow);
    }
  }
}

/// EntryBits' hash, a register of words at a time.
template <class Between>
void DrawHash(const EntryBits& random, std::size_t group, Draws* draws, const Between& between) {
  const WordTag tag;
  const auto key = random.hash_key(group);
  const Words first_key = hn::Set(tag, key[0]), second_key = hn::Set(tag, key[1]);
  const Words multiplier0 = hn::Set(tag, EntryBits::kHash0), multiplier1 = hn::Set(tag, EntryBits::kHash1);
  const auto start = static_cast<std::uint32_t>(group * (EntryBits::kGroup / 2));
  Words counter = hn::Add(hn::Iota(tag, start), first_key);
  const Words step = hn::Set(tag, static_cast<std::uint32_t>(kWidth));
  for (std::size_t i = 0; i < EntryBits::kGroup / 2; i += kWidth) {
    if (i % 64 == 0) between(i / 4, 16);
    Words x = hn::Mul(hn::Xor(counter, hn::ShiftRight<16>(counter)), multiplier0);
    x = hn::Xor3(x, hn::ShiftRight<15>(x), second_key);
    x = hn::Mul(x, multiplier1);
    hn::StoreU(hn::Xor(x, hn::ShiftRight<15>(x)), tag, draws->words + i);
    counter = hn::Add(counter, step);
  }
}

/// Calls between(first, count) for ranges that make up 0 … 64, with arithmetic in between.
template <class Between>
void DrawWith(const EntryBits& random, std::size_t group, Draws* draws, const Between& between) {
  if (random.source() == Random::hash) return DrawHash(random, group, draws, between);
  DrawPhilox(random, group, draws, between);
}
