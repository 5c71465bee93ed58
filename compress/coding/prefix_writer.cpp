#include <algorithm>
#include <bit>

#include "prefix_code.h"

namespace gossamer::compress {
namespace {

/// Levels up to this go two at a time.
constexpr unsigned kPairedLevels = 7;

using CodeTable = std::array<BitCode, 256>;

/// Codes of the fields 0 … top.
template <class Code>
CodeTable table_of(LevelRange range, const Code& code) {
  CodeTable table;
  for (unsigned field = 0; field <= range.top; ++field)
    table[field] = code(static_cast<int>(field) - static_cast<int>(range.zero));
  return table;
}

BitCode join(const BitCode& a, const BitCode& b) {
  return {a.bits | b.bits << a.length, a.length + b.length};
}

using Writers = std::array<OpenBitWriter, kStrings>;

Writers writers_to(const StringPlaces& places) {
  Writers all;
  for (std::size_t k = 0; k < places.strings; ++k) all[k] = OpenBitWriter(places.at[k]);
  return all;
}

void finish(Writers& writers, StringPlaces& places) {
  for (std::size_t k = 0; k < places.strings; ++k) places.bytes[k] = writers[k].finish();
}

/// Calls put(writer, fields + i) for each string in turn, kStep fields at a time; returns up to which field
/// of each.
template <std::size_t kStep, class Put>
std::size_t write_in_turn(Writers& writers, std::size_t strings, std::span<const std::uint8_t> fields,
                          const Put& put) {
  const std::size_t whole = fields.size() / strings / kStep * kStep;
  const std::uint8_t* const from = fields.data();
  if (strings == 1) {
    OpenBitWriter writer = writers[0];
    for (std::size_t i = 0; i < whole; i += kStep) put(writer, from + i);
    writers[0] = writer;
    return whole;
  }
  // Two at a time, as many as registers hold.
  const std::size_t part = fields.size() / kStrings;
  for (std::size_t k = 0; k < kStrings; k += 2) {
    OpenBitWriter a = writers[k], b = writers[k + 1];
    const std::uint8_t *const of_a = from + k * part, *const of_b = of_a + part;
    for (std::size_t i = 0; i < whole; i += kStep) {
      put(a, of_a + i);
      put(b, of_b + i);
    }
    writers[k] = a;
    writers[k + 1] = b;
  }
  return whole;
}

/// kAtOnce fields per put.
template <unsigned kAtOnce>
std::size_t write_fields(Writers& writers, std::size_t strings, std::span<const std::uint8_t> fields,
                         const CodeTable& table) {
  return write_in_turn<kAtOnce>(writers, strings, fields,
                                [&table](OpenBitWriter& out, const std::uint8_t* from) {
                                  BitCode code = table[from[0]];
                                  for (unsigned j = 1; j < kAtOnce; ++j) code = join(code, table[from[j]]);
                                  out.put(code.bits, code.length);
                                });
}

/// Eight fields under 16 as four bytes of two each, in bytes 0, 2, 4 and 6.
std::uint64_t pairs_at(const std::uint8_t* fields) {
  std::uint64_t word;
  std::memcpy(&word, fields, 8);
  return word | word >> 4;
}

/// For fields under 16: two of them make one code, and two such codes one put.
std::size_t write_pairs(Writers& writers, std::size_t strings, std::span<const std::uint8_t> fields,
                        LevelRange range, const CodeTable& table) {
  CodeTable pairs;
  for (unsigned b = 0; b <= range.top; ++b) {
    for (unsigned a = 0; a <= range.top; ++a) pairs[a | b << 4] = join(table[a], table[b]);
  }
  return write_in_turn<8>(writers, strings, fields, [&pairs](OpenBitWriter& out, const std::uint8_t* from) {
    const std::uint64_t word = pairs_at(from);
    const BitCode first = join(pairs[word & 0xff], pairs[(word >> 16) & 0xff]);
    const BitCode second = join(pairs[(word >> 32) & 0xff], pairs[(word >> 48) & 0xff]);
    out.put(first.bits, first.length);
    out.put(second.bits, second.length);
  });
}

std::size_t write_most(Writers& writers, std::size_t strings, std::span<const std::uint8_t> fields,
                       LevelRange range, const CodeTable& table) {
  unsigned longest = 0;
  for (unsigned field = 0; field <= range.top; ++field) longest = std::max(longest, table[field].length);
  if (longest <= 14 && range.top < 16) return write_pairs(writers, strings, fields, range, table);
  if (longest <= 14) return write_fields<4>(writers, strings, fields, table);
  if (longest <= 18) return write_fields<3>(writers, strings, fields, table);
  if (longest <= 28) return write_fields<2>(writers, strings, fields, table);
  return write_fields<1>(writers, strings, fields, table);
}

void write_codes(StringPlaces& places, std::span<const std::uint8_t> fields, LevelRange range,
                 const CodeTable& table) {
  Writers writers = writers_to(places);
  const std::size_t done = write_most(writers, places.strings, fields, range, table);
  for (std::size_t k = 0; k < places.strings; ++k) {
    for (const std::uint8_t field : part_of(fields, places.strings, k).subspan(done))
      writers[k].put(table[field].bits, table[field].length);
  }
  finish(writers, places);
}

/// Calls work(positions) for the fields that are not level 0, in order, a few at a time.
template <class Work>
void for_levels(std::span<const std::uint8_t> fields, LevelRange range, const Work& work) {
  constexpr std::size_t kBlock = 512;
  std::array<std::uint32_t, kBlock + 1> found;
  for (std::size_t start = 0; start < fields.size(); start += kBlock) {
    const std::size_t end = std::min(fields.size(), start + kBlock);
    std::size_t count = 0;
    for (std::size_t i = start; i < end; ++i) {
      found[count] = static_cast<std::uint32_t>(i);
      count += fields[i] != range.zero ? 1u : 0u;
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

/// Gaps longer than the rows of the table know.
constexpr std::size_t kLongRun = 15;

/// What is written for two fields after `run` zeros: bits in the low half, their number in the next byte, the
/// zeros that then stand at the end in the next. kSlow where the run before or after is kLongRun or more. Row
/// kLongRun + 1 is for two fields whose gap is written already.
class SparsePairs {
 public:
  static constexpr std::uint64_t kSlow = std::uint64_t{1} << 63;

  SparsePairs() {
    for (std::size_t run = 0; run <= kLongRun + 1; ++run) {
      for (std::size_t pair = 0; pair < 256; ++pair) entries_[run << 8 | pair] = entry(run, pair);
    }
  }
  /// row = run << 8.
  std::uint64_t operator()(std::uint64_t row, std::uint64_t pair) const { return entries_[row | pair]; }
  static BitCode code(std::uint64_t entry) {
    return {entry & 0xffffffff, static_cast<unsigned>((entry >> 32) & 0xff)};
  }
  static std::uint64_t next_row(std::uint64_t entry) { return (entry >> 32) & 0xff00; }

 private:
  static std::uint64_t entry(std::size_t run, std::size_t pair) {
    const int level[2] = {static_cast<int>(pair & 15) - 7, static_cast<int>(pair >> 4) - 7};
    const bool gap_written = run > kLongRun;
    if (run == kLongRun) return kSlow;
    if (level[0] > 7 || level[1] > 7 || (gap_written && level[0] == 0 && level[1] == 0)) return 0;
    BitCode code;
    bool first = gap_written;
    for (const int l : level) {
      ++run;
      if (l == 0) continue;
      if (!first) code = join(code, omega(run));
      code = join(code, sparse_code(l));
      first = false;
      run = 0;
    }
    if (run >= kLongRun && code.length == 0) return kSlow;
    return code.bits | std::uint64_t{code.length} << 32 | std::uint64_t{run} << 40;
  }

  std::array<std::uint64_t, (kLongRun + 2) << 8> entries_;
};

/// One string of the sparse form, written two fields at a time. Fields are l + 7.
class SparseString {
 public:
  SparseString(const SparsePairs& table, std::byte* out) : table_(&table), out_(out) {}

  void put_eight(std::uint64_t pairs) {
    put_four(pairs & 0xffff'ffff);
    put_four(pairs >> 32);
  }
  void put_field(unsigned field) {
    const std::size_t run = run_now();
    set_run(run + 1);
    if (field == kPairedLevels) return;
    put(omega(run + 1));
    put(sparse_code(static_cast<int>(field) - static_cast<int>(kPairedLevels)));
    row_ = 0;
  }
  std::size_t finish() {
    if (const std::size_t run = run_now(); run > 0) put(omega(run + 1));
    return out_.finish();
  }

 private:
  void put(const BitCode& code) { out_.put(code.bits, code.length); }
  void put_four(std::uint64_t pairs) {
    const std::uint64_t first = (*table_)(row_, pairs & 0xff), row = SparsePairs::next_row(first);
    const std::uint64_t second = (*table_)(row, (pairs >> 16) & 0xff);
    // By value, so that what is written otherwise may stay in registers.
    if (((first | second) & SparsePairs::kSlow) != 0) [[unlikely]] {
      *this = with_four(*this, pairs);
      return;
    }
    put(join(SparsePairs::code(first), SparsePairs::code(second)));
    row_ = SparsePairs::next_row(second);
  }
  [[gnu::noinline]] static SparseString with_four(SparseString string, std::uint64_t pairs) {
    for (const std::uint64_t pair : {pairs & 0xff, (pairs >> 16) & 0xff}) {
      string.put_field(pair & 15);
      string.put_field(static_cast<unsigned>(pair >> 4));
    }
    return string;
  }
  std::size_t run_now() const { return row_ == kLongRun << 8 ? long_run_ : row_ >> 8; }
  void set_run(std::size_t run) {
    long_run_ = run;
    row_ = std::min(run, kLongRun) << 8;
  }

  const SparsePairs* table_;
  OpenBitWriter out_;
  std::uint64_t row_ = 0;
  std::size_t long_run_ = 0;  ///< where row_ is that of kLongRun
};

std::size_t finish_sparse(SparseString string, std::span<const std::uint8_t> rest, std::uint8_t shift) {
  for (const std::uint8_t field : rest) string.put_field(static_cast<std::uint8_t>(field + shift));
  return string.finish();
}

/// For levels of at most kPairedLevels.
void write_sparse_pairs(StringPlaces& places, std::span<const std::uint8_t> fields, LevelRange range) {
  static const SparsePairs table;
  const auto shift = static_cast<std::uint8_t>(kPairedLevels - range.zero);
  const std::size_t part = fields.size() / kStrings, whole = part / 8 * 8;
  const auto eight = [from = fields.data(), shift](std::size_t at) {
    std::array<std::uint8_t, 8> shifted;
    for (std::size_t j = 0; j < 8; ++j) shifted[j] = static_cast<std::uint8_t>(from[at + j] + shift);
    return pairs_at(shifted.data());
  };
  for (std::size_t k = 0; k < kStrings; k += 2) {
    SparseString a(table, places.at[k]), b(table, places.at[k + 1]);
    for (std::size_t i = k * part; i < k * part + whole; i += 8) {
      a.put_eight(eight(i));
      b.put_eight(eight(i + part));
    }
    places.bytes[k] = finish_sparse(a, part_of(fields, kStrings, k).subspan(whole), shift);
    places.bytes[k + 1] = finish_sparse(b, part_of(fields, kStrings, k + 1).subspan(whole), shift);
  }
}

std::size_t write_sparse_string(std::byte* to, std::span<const std::uint8_t> fields, LevelRange range) {
  OpenBitWriter out(to);
  const CodeTable table =
      table_of(range, [](int level) { return level == 0 ? BitCode{} : sparse_code(level); });
  std::size_t next = 0;
  const auto put = [&](std::size_t i) {
    const std::size_t gap = i - next + 1;
    const BitCode code = join(gap < kGaps ? kGapCodes[gap] : omega(gap), table[fields[i]]);
    out.put(code.bits, code.length);
    next = i + 1;
  };
  for_levels(fields, range, [&](std::span<const std::uint32_t> found) {
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
  return out.finish();
}

}  // namespace

LevelShape shape_of(std::span<const std::uint8_t> fields, LevelRange range) {
  // In bytes, a block of which overflows none, so that vectors hold many.
  constexpr std::size_t kBlock = 128;
  const auto zero = static_cast<std::uint8_t>(range.zero),
             shift = static_cast<std::uint8_t>(kPairedLevels - range.zero);
  LevelShape shape;
  std::uint8_t wide = 0;
  for (std::size_t start = 0; start < fields.size(); start += kBlock) {
    std::uint8_t levels = 0;
    for (const std::uint8_t field : fields.subspan(start, std::min(kBlock, fields.size() - start))) {
      levels = static_cast<std::uint8_t>(levels + (field != zero));
      wide = static_cast<std::uint8_t>(wide | (static_cast<std::uint8_t>(field + shift) > 2 * kPairedLevels));
    }
    shape.levels += levels;
  }
  shape.small = wide == 0;
  return shape;
}

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

std::uint64_t gap_bits(std::span<const std::uint8_t> fields, LevelRange range) {
  std::uint64_t bits = 0;
  std::size_t next = 0;
  for_levels(fields, range, [&](std::span<const std::uint32_t> found) {
    for (const std::size_t i : found) {
      bits += omega_length(i - next + 1);
      next = i + 1;
    }
  });
  return bits + (next < fields.size() ? omega_length(fields.size() - next + 1) : 0);
}

void write_dense(StringPlaces& out, std::span<const std::uint8_t> fields, LevelRange range) {
  write_codes(out, fields, range, table_of(range, dense_code));
}

void write_rice(StringPlaces& out, std::span<const std::uint8_t> fields, LevelRange range, unsigned r) {
  write_codes(out, fields, range, table_of(range, [r](int level) { return rice_code(level, r); }));
}

void write_sparse(StringPlaces& out, std::span<const std::uint8_t> fields, LevelRange range) {
  if (out.strings > 1 && shape_of(fields, range).small) return write_sparse_pairs(out, fields, range);
  for (std::size_t k = 0; k < out.strings; ++k)
    out.bytes[k] = write_sparse_string(out.at[k], part_of(fields, out.strings, k), range);
}

}  // namespace gossamer::compress
