#include "rans.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace gossamer::compress {
namespace {

static_assert(kRansRoom == 2 * kRansStates, "a word for each state before it is known whether it is sent");
using States = std::array<std::uint32_t, kRansStates>;

[[noreturn]] void refuse() {
  throw PayloadError("payload holds no entropy-coded levels where it claims them");
}

using Steps = std::array<RansStep, 256>;

Steps steps_of(const RansModel& model, LevelRange range) {
  Steps steps{};
  std::uint32_t start = 0;
  for (unsigned field = 0; field <= range.top; ++field) {
    const std::uint32_t f = model.frequency[field];
    if (f > 0) steps[field] = rans_step(f, start);
    start += f;
  }
  return steps;
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

/// For every value of a state's low 12 bits (rans_slot).
using Slots = std::array<std::uint32_t, kRansTotal>;

/// Fills the slots from the front of `in`; returns the model's bytes.
std::size_t read_model(std::span<const std::byte> in, LevelRange range, Slots& slots) {
  std::uint64_t at = 0;
  std::uint32_t start = 0;
  for (unsigned field = 0; field <= range.top; ++field) {
    const OmegaRead read = read_omega(load_bits(in, at));
    at += read.length;
    if (read.number == 0 || read.number - 1 > kRansTotal - start) refuse();
    const auto f = static_cast<std::uint32_t>(read.number - 1);
    for (std::uint32_t j = 0; j < f; ++j) slots[start + j] = rans_slot(field, f, j);
    start += f;
  }
  const std::uint64_t bytes = (at + 7) / 8;
  if (start != kRansTotal || bytes > in.size()) refuse();
  if (at % 8 != 0 && (static_cast<unsigned>(in[bytes - 1]) >> (at % 8)) != 0) refuse();
  return static_cast<std::size_t>(bytes);
}

}  // namespace

std::size_t write_rans(std::span<const std::uint8_t> fields, LevelRange range, const RansModel& model,
                       std::span<std::byte> out) {
  const std::size_t front = model_bytes(model, range);
  constexpr std::size_t kStateBytes = sizeof(States);
  if (out.size() < front + kStateBytes) return 0;
  const Steps steps = steps_of(model, range);
  WordsBackwards words(out.subspan(front));
  States state;
  state.fill(kRansLeast);
  const auto step = [&](std::uint32_t& x, std::uint8_t field) {
    const RansStep& by = steps[field];
    words.send(x, by.most);
    x = by.moved(x);
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
      fields[i + j] = step_back(x, slots[x & (kRansTotal - 1)]);
      std::uint16_t word;
      std::memcpy(&word, at, 2);
      const bool low = x < kRansLeast;
      at += low ? 2 : 0;
      state[j] = low ? x << 16 | word : x;
    }
  }
  for (; i < fields.size(); ++i) {
    std::uint32_t& x = state[i % kRansStates];
    fields[i] = step_back(x, slots[x & (kRansTotal - 1)]);
    if (x >= kRansLeast) continue;
    if (end - at < 2) refuse();
    std::uint16_t word;
    std::memcpy(&word, at, 2);
    at += 2;
    x = x << 16 | word;
  }
  if (at != end || std::any_of(state.begin(), state.end(), [](std::uint32_t x) { return x != kRansLeast; }))
    refuse();
}

}  // namespace gossamer::compress
