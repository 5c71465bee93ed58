#include <algorithm>
#include <bit>

#include "prefix_code.h"

namespace gossamer::compress {
namespace {

using CodeTable = std::array<BitCode, 256>;

/// Codes of the fields 0 … 2s.
template <class Code>
CodeTable table_of(unsigned s, const Code& code) {
  CodeTable table;
  for (unsigned field = 0; field <= 2 * s; ++field)
    table[field] = code(static_cast<int>(field) - static_cast<int>(s));
  return table;
}

BitCode join(const BitCode& a, const BitCode& b) {
  return {a.bits | b.bits << a.length, a.length + b.length};
}

/// kAtOnce fields per put.
template <unsigned kAtOnce>
void write_fields(BitWriter& out, std::span<const std::uint8_t> fields, const CodeTable& table) {
  std::size_t i = 0;
  for (; i + kAtOnce <= fields.size(); i += kAtOnce) {
    BitCode code = table[fields[i]];
    for (unsigned j = 1; j < kAtOnce; ++j) code = join(code, table[fields[i + j]]);
    out.put(code.bits, code.length);
  }
  for (; i < fields.size(); ++i) out.put(table[fields[i]].bits, table[fields[i]].length);
}

/// For fields under 16: two of them make one code, and two such codes one put.
void write_pairs(BitWriter& out, std::span<const std::uint8_t> fields, unsigned s, const CodeTable& table) {
  CodeTable pairs;
  for (unsigned b = 0; b <= 2 * s; ++b) {
    for (unsigned a = 0; a <= 2 * s; ++a) pairs[a | b << 4] = join(table[a], table[b]);
  }
  std::size_t i = 0;
  for (; i + 8 <= fields.size(); i += 8) {
    std::uint64_t word;
    std::memcpy(&word, fields.data() + i, 8);
    word |= word >> 4;
    const BitCode first = join(pairs[word & 0xff], pairs[(word >> 16) & 0xff]);
    const BitCode second = join(pairs[(word >> 32) & 0xff], pairs[(word >> 48) & 0xff]);
    out.put(first.bits, first.length);
    out.put(second.bits, second.length);
  }
  write_fields<1>(out, fields.subspan(i), table);
}

void write_codes(BitWriter& out, std::span<const std::uint8_t> fields, unsigned s, const CodeTable& table) {
  unsigned longest = 0;
  for (unsigned field = 0; field <= 2 * s; ++field) longest = std::max(longest, table[field].length);
  if (longest <= 14 && 2 * s < 16) return write_pairs(out, fields, s, table);
  if (longest <= 14) return write_fields<4>(out, fields, table);
  if (longest <= 18) return write_fields<3>(out, fields, table);
  if (longest <= 28) return write_fields<2>(out, fields, table);
  write_fields<1>(out, fields, table);
}

/// Calls work(positions) for the fields that are not s, in order, a few at a time.
template <class Work>
void for_levels(std::span<const std::uint8_t> fields, unsigned s, const Work& work) {
  constexpr std::size_t kBlock = 512;
  std::array<std::uint32_t, kBlock + 1> found;
  for (std::size_t start = 0; start < fields.size(); start += kBlock) {
    const std::size_t end = std::min(fields.size(), start + kBlock);
    std::size_t count = 0;
    for (std::size_t i = start; i < end; ++i) {
      found[count] = static_cast<std::uint32_t>(i);
      count += fields[i] != s ? 1u : 0u;
    }
    work(std::span<const std::uint32_t>(found).first(count));
  }
}

/// Shorter gaps have codes of at most 12 bits, so that two with their levels make one put.
constexpr std::size_t kGaps = 64;
constexpr auto kGapCodes = [] {
  std::array<BitCode, kGaps> all{};
  for (std::size_t gap = 1; gap < kGaps; ++gap) all[gap] = omega(gap);
  return all;
}();

template <class Code>
std::uint64_t bits_of(const FieldCounts& counts, unsigned s, const Code& code) {
  std::uint64_t bits = 0;
  for (unsigned field = 0; field <= 2 * s; ++field) {
    if (counts[field] != 0)
      bits += std::uint64_t{counts[field]} * code(static_cast<int>(field) - static_cast<int>(s)).length;
  }
  return bits;
}

}  // namespace

FieldCounts count_fields(std::span<const std::uint8_t> fields) {
  // Four tables, as equal neighbours would wait for each other in one.
  std::array<FieldCounts, 4> part{};
  std::size_t i = 0;
  for (; i + 4 <= fields.size(); i += 4) {
    for (std::size_t j = 0; j < 4; ++j) ++part[j][fields[i + j]];
  }
  for (; i < fields.size(); ++i) ++part[0][fields[i]];
  for (std::size_t field = 0; field < 256; ++field)
    part[0][field] += part[1][field] + part[2][field] + part[3][field];
  return part[0];
}

std::uint64_t dense_bits(const FieldCounts& counts, unsigned s) { return bits_of(counts, s, dense_code); }

std::uint64_t rice_bits(const FieldCounts& counts, unsigned s, unsigned r) {
  return bits_of(counts, s, [r](int level) { return rice_code(level, r); });
}

std::uint64_t sparse_bits_but_gaps(const FieldCounts& counts, unsigned s) {
  return bits_of(counts, s, [](int level) { return level == 0 ? BitCode{} : sparse_code(level); });
}

std::uint64_t gap_bits(std::span<const std::uint8_t> fields, unsigned s) {
  std::uint64_t bits = 0;
  std::size_t next = 0;
  for_levels(fields, s, [&](std::span<const std::uint32_t> found) {
    for (const std::size_t i : found) {
      bits += omega_length(i - next + 1);
      next = i + 1;
    }
  });
  return bits + (next < fields.size() ? omega_length(fields.size() - next + 1) : 0);
}

void write_dense(BitWriter& out, std::span<const std::uint8_t> fields, unsigned s) {
  write_codes(out, fields, s, table_of(s, dense_code));
}

void write_rice(BitWriter& out, std::span<const std::uint8_t> fields, unsigned s, unsigned r) {
  write_codes(out, fields, s, table_of(s, [r](int level) { return rice_code(level, r); }));
}

void write_sparse(BitWriter& out, std::span<const std::uint8_t> fields, unsigned s) {
  const CodeTable table = table_of(s, [](int level) { return level == 0 ? BitCode{} : sparse_code(level); });
  std::size_t next = 0;
  const auto put = [&](std::size_t i) {
    const std::size_t gap = i - next + 1;
    const BitCode code = join(gap < kGaps ? kGapCodes[gap] : omega(gap), table[fields[i]]);
    out.put(code.bits, code.length);
    next = i + 1;
  };
  for_levels(fields, s, [&](std::span<const std::uint32_t> found) {
    std::size_t j = 0;
    for (; j + 2 <= found.size(); j += 2) {
      const std::size_t a = found[j], b = found[j + 1];
      if (a - next + 1 >= kGaps || b - a >= kGaps) {
        put(a);
        put(b);
        continue;
      }
      const BitCode first = join(kGapCodes[a - next + 1], table[fields[a]]);
      const BitCode both = join(first, join(kGapCodes[b - a], table[fields[b]]));
      out.put(both.bits, both.length);
      next = b + 1;
    }
    if (j < found.size()) put(found[j]);
  });
  if (next < fields.size()) {
    const BitCode code = omega(fields.size() - next + 1);
    out.put(code.bits, code.length);
  }
}

}  // namespace gossamer::compress
