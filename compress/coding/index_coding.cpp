#include "index_coding.h"

#include <algorithm>
#include <array>
#include <bit>

#include "bits.h"
#include "elias.h"

namespace gossamer::compress {
namespace {

constexpr std::array<std::string_view, kIndexForms + 1> kNames = {"auto",  "rice", "fixed", "packed",
                                                                  "elias", "runs", "bitmap"};
constexpr std::uint64_t kRunMax = 0xffff;  ///< a run that goes on

std::uint64_t bytes_of(std::uint64_t bits) { return bits / 8 + (bits % 8 != 0 ? 1 : 0); }

/// Calls work(gap) for every index.
template <class Work>
void for_each_gap(std::span<const std::uint32_t> indices, const Work& work) {
  if (indices.empty()) return;
  work(indices[0]);
  for (std::size_t j = 1; j < indices.size(); ++j) work(indices[j] - indices[j - 1] - 1);
}

/// Parameter and size of Rice code. The size as a function of r first falls, then rises: without rounding
/// k·(r + 1) + Σgap/2^r is convex.
struct Rice {
  unsigned r = 0;
  std::uint64_t bits = ~std::uint64_t{0};
};

/// The best of r, r + 1, r + 2, r + 3.
Rice best_of_four(std::span<const std::uint32_t> indices, unsigned r) {
  std::array<std::uint64_t, 4> sum{};
  for_each_gap(indices, [&](std::uint32_t gap) {
    const std::uint32_t high = gap >> r;
    sum[0] += high;
    sum[1] += high >> 1;
    sum[2] += high >> 2;
    sum[3] += high >> 3;
  });
  Rice best;
  for (unsigned j = 0; j < sum.size(); ++j) {
    const std::uint64_t bits = sum[j] + indices.size() * (r + j + std::uint64_t{1});
    if (bits < best.bits) best = {r + j, bits};
  }
  return best;
}

/// For random indices r is near log₂(n/k); it is smaller where they stand together, and never larger.
Rice best_rice(std::span<const std::uint32_t> indices, std::size_t n) {
  const auto middle = static_cast<unsigned>(std::bit_width(n / indices.size())) - 1;
  unsigned first = middle > 2 ? middle - 2 : 0;
  Rice best = best_of_four(indices, first);
  while (best.r == first && first > 0) {
    first = first > 4 ? first - 4 : 0;
    const Rice lower = best_of_four(indices, first);
    if (lower.bits < best.bits) best = lower;
  }
  return best;
}

unsigned widest(std::span<const std::uint32_t> indices) {
  std::uint32_t all = 0;
  for_each_gap(indices, [&](std::uint32_t gap) { all |= gap; });
  return static_cast<unsigned>(std::bit_width(all));
}

std::uint64_t elias_bits(std::span<const std::uint32_t> indices) {
  std::uint64_t bits = 0;
  for_each_gap(indices, [&](std::uint32_t gap) { bits += omega_length(std::uint64_t{gap} + 1); });
  return bits;
}

std::uint64_t run_words(std::span<const std::uint32_t> indices) {
  std::uint64_t words = indices.size();
  for_each_gap(indices, [&](std::uint32_t gap) { words += gap / kRunMax; });
  return words;
}

IndexPlan plan_one(IndexForm form, std::span<const std::uint32_t> indices, std::size_t n) {
  const std::uint64_t k = indices.size();
  IndexPlan plan{form, 0, 0};
  switch (form) {
    case IndexForm::rice: {
      const Rice rice = best_rice(indices, n);
      plan.parameter = static_cast<std::uint8_t>(rice.r);
      plan.bytes = 1 + bytes_of(rice.bits);
      break;
    }
    case IndexForm::fixed:
      plan.bytes = 4 * k;
      break;
    case IndexForm::packed:
      plan.parameter = static_cast<std::uint8_t>(widest(indices));
      plan.bytes = 1 + bytes_of(k * plan.parameter);
      break;
    case IndexForm::elias:
      plan.bytes = bytes_of(elias_bits(indices));
      break;
    case IndexForm::runs:
      plan.bytes = 2 * run_words(indices);
      break;
    case IndexForm::bitmap:
      plan.bytes = bytes_of(n);
      break;
  }
  return plan;
}

/// Several to a put, each of which waits for the one before it.
void write_rice(BitWriter& out, std::span<const std::uint32_t> indices, unsigned r) {
  constexpr unsigned kPut = BitWriter::kPutMax;
  std::uint64_t word = 0;
  unsigned used = 0;
  for_each_gap(indices, [&](std::uint32_t gap) {
    if (used + r > kPut) {
      out.put(word, used);
      word = used = 0;
    }
    word |= (gap & low_bits(r)) << used;
    used += r;
  });
  out.put(word, used);
  word = used = 0;
  for_each_gap(indices, [&](std::uint32_t gap) {
    std::uint64_t zeros = used + std::uint64_t{gap >> r};
    for (; zeros >= kPut; zeros -= kPut) {
      out.put(word, kPut);
      word = 0;
    }
    word |= std::uint64_t{1} << zeros;
    used = static_cast<unsigned>(zeros) + 1;
  });
  out.put(word, used);
}

void write_runs(BitWriter& out, std::span<const std::uint32_t> indices) {
  for_each_gap(indices, [&](std::uint32_t gap) {
    for (; gap >= kRunMax; gap -= static_cast<std::uint32_t>(kRunMax)) out.put(kRunMax, 16);
    out.put(gap, 16);
  });
}

void write_bitmap(std::span<std::byte> out, std::span<const std::uint32_t> indices) {
  std::fill(out.begin(), out.end(), std::byte{0});
  for (const std::uint32_t i : indices) out[i / 8] |= static_cast<std::byte>(1u << i % 8);
}

}  // namespace

IndexCoding index_coding_parameter(Parameters& parameters) {
  const std::size_t choice = parameters.choice("coding", kNames);
  if (choice == 0) return std::nullopt;
  return static_cast<IndexForm>(choice - 1);
}

std::string_view index_coding_name(IndexCoding coding) {
  return kNames[coding ? static_cast<std::size_t>(*coding) + 1 : 0];
}

IndexPlan plan_indices(IndexCoding coding, std::span<const std::uint32_t> indices, std::size_t n) {
  if (indices.empty()) return {};
  if (coding) return plan_one(*coding, indices, n);
  IndexPlan best = plan_one(IndexForm::rice, indices, n);
  for (std::size_t form = 1; form < kIndexForms; ++form) {
    const IndexPlan other = plan_one(static_cast<IndexForm>(form), indices, n);
    if (other.bytes < best.bytes) best = other;
  }
  return best;
}

void write_indices(wire::Writer& out, const IndexPlan& plan, std::span<const std::uint32_t> indices,
                   std::size_t n) {
  if (indices.empty()) return;
  const bool parameter = plan.form == IndexForm::rice || plan.form == IndexForm::packed;
  if (parameter) out.u8(plan.parameter);
  const auto bytes = static_cast<std::size_t>(plan.bytes) - (parameter ? 1 : 0);
  const std::span<std::byte> room(out.skip(bytes), bytes);
  BitWriter bits(room);
  switch (plan.form) {
    case IndexForm::rice:
      write_rice(bits, indices, plan.parameter);
      break;
    case IndexForm::fixed:
      std::memcpy(room.data(), indices.data(), room.size());
      return;
    case IndexForm::packed:
      for_each_gap(indices, [&](std::uint32_t gap) { bits.put(gap, plan.parameter); });
      break;
    case IndexForm::elias:
      for_each_gap(indices, [&](std::uint32_t gap) {
        const BitCode code = omega(std::uint64_t{gap} + 1);
        bits.put(code.bits, code.length);
      });
      break;
    case IndexForm::runs:
      write_runs(bits, indices);
      break;
    case IndexForm::bitmap:
      assert(room.size() == bytes_of(n));
      write_bitmap(room, indices);
      return;
  }
  bits.finish();
}

std::size_t indices_max_bytes(IndexCoding coding, std::size_t most, std::size_t n) {
  if (most == 0) return 0;
  // Σ log₂(gap + 1) ≤ k·log₂(n/k), as the logarithm is concave; log₂(n/k) < the width of n/k; and
  // k·(log₂(n/k) + 3) grows with k up to n. Rice code takes at most log₂(n/k) + 3 bits per index with r at
  // that middle, omega at most twice a number's width and 3.
  const auto middle = static_cast<std::size_t>(std::bit_width(n / most));
  const std::size_t rice = 1 + wire::ceil_div(most * (middle + 3), 8);
  if (!coding) return std::min(rice, wire::ceil_div(n, 8));
  switch (*coding) {
    case IndexForm::rice:
      return rice;
    case IndexForm::fixed:
      return 4 * most;
    case IndexForm::packed:
      return 1 + wire::ceil_div(most * static_cast<std::size_t>(std::bit_width(n)), 8);
    case IndexForm::elias:
      return wire::ceil_div(most * (2 * middle + 5), 8);
    case IndexForm::runs:
      return 2 * (most + n / kRunMax);
    case IndexForm::bitmap:
      return wire::ceil_div(n, 8);
  }
  return 0;
}

}  // namespace gossamer::compress
