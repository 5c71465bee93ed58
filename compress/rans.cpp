#include "rans.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace gossamer::compress {
namespace {

constexpr std::uint32_t kTotal = 1u << kRansBits;
static_assert(kRansRoom == 2 * kRansStates, "a word for each state before it is known whether it is sent");
/// A state is at least this between fields; it starts so and, read back, must end so.
constexpr std::uint32_t kLeast = 1u << 16;
using States = std::array<std::uint32_t, kRansStates>;

[[noreturn]] void refuse() {
  throw PayloadError("payload holds no entropy-coded levels where it claims them");
}

/// log₂ in 1/65536, rounded down: the same on every machine. number ≥ 1 and under 2³².
std::uint64_t log2_fixed(std::uint32_t number) {
  const auto whole = static_cast<unsigned>(std::bit_width(number)) - 1;
  std::uint64_t mantissa = std::uint64_t{number} << (31 - whole);  // in [2³¹, 2³²)
  std::uint64_t log = whole;
  for (int bit = 0; bit < 16; ++bit) {
    mantissa = (mantissa * mantissa) >> 31;
    const std::uint64_t doubled = mantissa >> 32;
    log = log << 1 | doubled;
    mantissa >>= doubled;
  }
  return log;
}

/// How one field moves a state x: to frequency·… as x / f·4096 + start + x mod f, by a product in place of
/// the division.
struct Step {
  std::uint64_t reciprocal = 0;  ///< ⌈2⁶⁴/f⌉, which divides any x < 2³² exactly; for f = 1 it gives x − 1
  std::uint32_t most = 0;  ///< from here on the state must first send 16 bits
  std::uint32_t bias = 0;  ///< start, and what the off-by-one of f = 1 lacks
  std::uint32_t rest = 0;  ///< 4096 − f
};

using Steps = std::array<Step, 256>;

Steps steps_of(const RansModel& model, LevelRange range) {
  Steps steps;
  std::uint32_t start = 0;
  for (unsigned field = 0; field <= range.top; ++field) {
    const std::uint32_t f = model.frequency[field];
    if (f == 0) continue;
    Step& step = steps[field];
    step.reciprocal = f == 1 ? ~std::uint64_t{0} : ~std::uint64_t{0} / f + 1;
    step.bias = f == 1 ? start + kTotal - 1 : start;
    step.rest = kTotal - f;
    // f = 4096 codes in no bits and never sends; its limit would be 2³².
    step.most = f == kTotal ? ~std::uint32_t{0} : f << (32 - kRansBits);
    start += f;
  }
  return steps;
}

std::uint32_t high_product(std::uint64_t a, std::uint32_t b) {
  // a·b >> 64 from two products of 32 bits each; b < 2³².
  const std::uint64_t low = (a & 0xffffffffu) * b;
  return static_cast<std::uint32_t>(((a >> 32) * b + (low >> 32)) >> 32);
}

/// Writes backwards from the end of a span.
class WordsBackwards {
 public:
  explicit WordsBackwards(std::span<std::byte> out) : begin_(out.data()), at_(out.data() + out.size()) {}
  bool has_room(std::size_t bytes) const { return static_cast<std::size_t>(at_ - begin_) >= bytes; }
  void put(const void* from, std::size_t bytes) { std::memcpy(at_ -= bytes, from, bytes); }
  /// Sends the low 16 bits of x where it is `most` or more. No branch: which it is nobody can foresee.
  void send(std::uint32_t& x, std::uint32_t most) {
    const auto word = static_cast<std::uint16_t>(x);
    std::memcpy(at_ - 2, &word, 2);
    const bool full = x >= most;
    at_ -= full ? 2 : 0;
    x = full ? x >> 16 : x;
  }
  std::byte* at() const { return at_; }

 private:
  std::byte *begin_, *at_;
};

void write_model(BitWriter& out, const RansModel& model, LevelRange range) {
  for (unsigned field = 0; field <= range.top; ++field) {
    const BitCode code = omega(model.frequency[field] + std::uint64_t{1});
    out.put(code.bits, code.length);
  }
}

std::size_t model_bytes(const RansModel& model, LevelRange range) {
  std::size_t bits = 0;
  for (unsigned field = 0; field <= range.top; ++field)
    bits += omega_length(model.frequency[field] + std::uint64_t{1});
  return (bits + 7) / 8;
}

/// For every value of a state's low 12 bits: the field, its frequency less one from bit 8, and the value's
/// place in that field's range from bit 20.
using Slots = std::array<std::uint32_t, kTotal>;

/// Fills the slots from the front of `in`; returns the model's bytes.
std::size_t read_model(std::span<const std::byte> in, LevelRange range, Slots& slots) {
  std::uint64_t at = 0;
  std::uint32_t start = 0;
  for (unsigned field = 0; field <= range.top; ++field) {
    const OmegaRead read = read_omega(load_bits(in, at));
    at += read.length;
    if (read.number == 0 || read.number - 1 > kTotal - start) refuse();
    const auto f = static_cast<std::uint32_t>(read.number - 1);
    for (std::uint32_t j = 0; j < f; ++j) slots[start + j] = field | (f - 1) << 8 | j << 20;
    start += f;
  }
  const std::uint64_t bytes = (at + 7) / 8;
  if (start != kTotal || bytes > in.size()) refuse();
  if (at % 8 != 0 && (static_cast<unsigned>(in[bytes - 1]) >> (at % 8)) != 0) refuse();
  return static_cast<std::size_t>(bytes);
}

/// One field off the state.
std::uint8_t step_back(std::uint32_t& x, const Slots& slots) {
  const std::uint32_t slot = slots[x & (kTotal - 1)];
  x = (((slot >> 8) & (kTotal - 1)) + 1) * (x >> kRansBits) + (slot >> 20);
  return static_cast<std::uint8_t>(slot);
}

}  // namespace

RansModel rans_model(const FieldCounts& counts, LevelRange range) {
  std::uint64_t total = 0;
  for (unsigned field = 0; field <= range.top; ++field) total += counts[field];
  RansModel model;
  std::uint32_t given = 0;
  unsigned largest = 0;
  for (unsigned field = 0; field <= range.top; ++field) {
    if (counts[field] == 0) continue;
    const std::uint64_t share = (std::uint64_t{counts[field]} * kTotal + total / 2) / total;
    model.frequency[field] = static_cast<std::uint16_t>(std::max<std::uint64_t>(1, share));
    given += model.frequency[field];
    if (counts[field] > counts[largest]) largest = field;
  }
  // What rounding leaves over goes to the most frequent; what it took too much comes from the largest.
  for (; given > kTotal; --given) --*std::max_element(model.frequency.begin(), model.frequency.end());
  model.frequency[largest] = static_cast<std::uint16_t>(model.frequency[largest] + (kTotal - given));
  return model;
}

std::uint64_t rans_bytes_least(const RansModel& model, const FieldCounts& counts, LevelRange range) {
  std::uint64_t bits = 0;  // in 1/65536
  for (unsigned field = 0; field <= range.top; ++field) {
    if (counts[field] == 0) continue;
    const std::uint64_t rounded_up = log2_fixed(model.frequency[field]) + 1;
    bits += counts[field] *
            ((std::uint64_t{kRansBits} << 16) - std::min(rounded_up, std::uint64_t{kRansBits} << 16));
  }
  return (bits >> 19) + model_bytes(model, range);
}

std::size_t rans_bytes_most(std::size_t fields, LevelRange range) {
  // No field takes more than 12 bits and the little that a state's rounding adds; no frequency more than 20.
  return fields + fields * 5 / 8 + 3 * (std::size_t{range.top} + 1) + 4 * kRansStates + 16;
}

std::size_t write_rans(std::span<const std::uint8_t> fields, LevelRange range, const RansModel& model,
                       std::span<std::byte> out) {
  const std::size_t front = model_bytes(model, range);
  constexpr std::size_t kStateBytes = sizeof(States);
  if (out.size() < front + kStateBytes) return 0;
  const Steps steps = steps_of(model, range);
  WordsBackwards words(out.subspan(front));
  States state;
  state.fill(kLeast);
  const auto step = [&](std::uint32_t& x, std::uint8_t field) {
    const Step& by = steps[field];
    words.send(x, by.most);
    x += by.bias + high_product(by.reciprocal, x) * by.rest;
  };
  std::size_t i = fields.size();
  while (i > 0) {
    if (!words.has_room(kStateBytes + kRansRoom)) return 0;
    if (i % kRansStates != 0) {
      --i;
      step(state[i % kRansStates], fields[i]);
      continue;
    }
    i -= kRansStates;
    for (std::size_t j = kRansStates; j-- > 0;) step(state[j], fields[i + j]);
  }
  words.put(state.data(), kStateBytes);
  BitWriter bits(out.first(front));
  write_model(bits, model, range);
  bits.finish();
  const auto bytes = static_cast<std::size_t>(out.data() + out.size() - words.at());
  std::memmove(out.data() + front, words.at(), bytes);
  return front + bytes;
}

void read_rans(std::span<const std::byte> in, LevelRange range, std::span<std::uint8_t> fields) {
  Slots slots;
  in = in.subspan(read_model(in, range, slots));
  States state;
  if (in.size() < sizeof state || in.size() % 2 != 0) refuse();
  std::memcpy(state.data(), in.data(), sizeof state);
  const std::byte *at = in.data() + sizeof state, *const end = in.data() + in.size();
  std::size_t i = 0;
  for (; i + kRansStates <= fields.size() && end - at >= static_cast<std::ptrdiff_t>(2 * kRansStates);
       i += kRansStates) {
    for (std::size_t j = 0; j < kRansStates; ++j) {
      std::uint32_t x = state[j];
      fields[i + j] = step_back(x, slots);
      std::uint16_t word;
      std::memcpy(&word, at, 2);
      const bool low = x < kLeast;
      at += low ? 2 : 0;
      state[j] = low ? x << 16 | word : x;
    }
  }
  for (; i < fields.size(); ++i) {
    std::uint32_t& x = state[i % kRansStates];
    fields[i] = step_back(x, slots);
    if (x >= kLeast) continue;
    if (end - at < 2) refuse();
    std::uint16_t word;
    std::memcpy(&word, at, 2);
    at += 2;
    x = x << 16 | word;
  }
  if (at != end || std::any_of(state.begin(), state.end(), [](std::uint32_t x) { return x != kLeast; }))
    refuse();
}

}  // namespace gossamer::compress
