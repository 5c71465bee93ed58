#include <bit>
#include <cstring>

#include "prefix_code.h"

namespace gossamer::compress {
namespace {

[[noreturn]] void refuse_level() { throw PayloadError("payload holds a level beyond the highest"); }

constexpr unsigned kTableBits = 11;
/// As many levels as a word has room for.
constexpr unsigned kAtOnce = 6;

/// What the next kTableBits bits of a string say: bits used in the low byte, levels said in the next (0 =
/// none is whole, or it says more than there is room for), then these levels as signed bytes.
using ReadTable = std::array<std::uint64_t, std::size_t{1} << kTableBits>;

/// A read code: `zeros` levels of 0, then `level`. length 0 = not a code of these levels.
struct ReadCode {
  std::uint64_t zeros = 0;
  int level = 0;
  unsigned length = 0;
};

/// Reads one code off at least 56 bits.
constexpr ReadCode read_dense_code(std::uint64_t bits) {
  const OmegaRead size = read_omega(bits);
  if (size.number == 0 || size.number > kLevelsMax + 1) return {};
  const auto level = static_cast<int>(size.number - 1);
  if (level == 0) return {0, 0, size.length};
  return {0, ((bits >> size.length) & 1) != 0 ? -level : level, size.length + 1};
}

constexpr ReadCode read_rice_code(std::uint64_t bits, unsigned r) {
  const auto high = static_cast<unsigned>(std::countr_zero(bits));
  if (high + 1 + r > 56) return {};
  const std::uint64_t folded = (std::uint64_t{high} << r) | ((bits >> (high + 1)) & low_bits(r));
  if (folded > 2 * kLevelsMax) return {};
  const auto half = static_cast<int>((folded + 1) / 2);
  return {0, (folded & 1) != 0 ? -half : half, high + 1 + r};
}

/// Gaps past 2¹⁷ are none of a slice; with them and a level a code has at most 45 bits.
constexpr ReadCode read_sparse_code(std::uint64_t bits) {
  const OmegaRead gap = read_omega(bits);
  if (gap.number == 0 || gap.number > (std::uint64_t{1} << 17)) return {};
  bits >>= gap.length;
  const OmegaRead size = read_omega(bits >> 1);
  if (size.number == 0 || size.number > kLevelsMax) return {};
  const auto level = static_cast<int>(size.number);
  return {gap.number - 1, (bits & 1) != 0 ? -level : level, gap.length + 1 + size.length};
}

template <class Read>
constexpr ReadTable table_of(const Read& read) {
  ReadTable table{};
  for (std::uint64_t index = 0; index < table.size(); ++index) {
    std::uint64_t levels = 0;
    unsigned used = 0, count = 0;
    for (;;) {
      // A bit past the index makes any code that needs more than there is longer than there is.
      const ReadCode code = read((index | std::uint64_t{1} << kTableBits) >> used);
      if (code.length == 0 || used + code.length > kTableBits || count + code.zeros + 1 > kAtOnce) break;
      count += static_cast<unsigned>(code.zeros);
      levels |= static_cast<std::uint64_t>(static_cast<std::uint8_t>(code.level)) << (8 * count++);
      used += code.length;
    }
    table[index] = levels << 16 | count << 8 | used;
  }
  return table;
}

constexpr ReadTable kDenseTable = table_of(read_dense_code);
constexpr ReadTable kSparseTable = table_of(read_sparse_code);
template <unsigned r>
constexpr ReadTable kRiceTable = table_of([](std::uint64_t bits) { return read_rice_code(bits, r); });
constexpr std::array<const ReadTable*, 4> kRiceTables = {&kRiceTable<0>, &kRiceTable<1>, &kRiceTable<2>,
                                                         &kRiceTable<3>};

/// The levels of one code, from `at` on; returns where the next begins.
template <class Read>
std::size_t read_one(BitReader& in, const Read& read, std::span<std::uint8_t> levels, std::size_t at) {
  in.refill();
  const ReadCode code = read(in.bits());
  if (code.length == 0 || code.zeros >= levels.size() - at) refuse_level();
  in.drop(code.length);
  std::memset(levels.data() + at, 0, static_cast<std::size_t>(code.zeros));
  at += static_cast<std::size_t>(code.zeros);
  levels[at] = static_cast<std::uint8_t>(code.level);
  return at + 1;
}

/// Levels from `at` on as long as the table knows them and there is room for all that it may say; returns
/// where the next one begins.
std::size_t read_by_table(BitReader& in, const ReadTable& table, std::span<std::uint8_t> levels,
                          std::size_t at) {
  constexpr unsigned kLooks = 56 / kTableBits;
  static_assert(kLooks >= 4);
  while (levels.size() - at >= 8 * kLooks) {
    in.refill();
    for (unsigned look = 0; look < kLooks; ++look) {
      const std::uint64_t entry = table[in.bits() & (table.size() - 1)];
      const std::uint64_t said = entry >> 16;
      std::memcpy(levels.data() + at, &said, 8);
      at += (entry >> 8) & 0xff;
      in.drop(entry & 63);
      if ((entry & 0xff00) == 0) [[unlikely]]
        return at;
    }
  }
  return at;
}

/// Levels become fields; throws for those beyond s.
void to_fields(std::span<std::uint8_t> levels, unsigned s) {
  unsigned bad = 0;
  for (std::uint8_t& level : levels) {
    level = static_cast<std::uint8_t>(level + s);
    bad |= level > 2 * s ? 1u : 0u;
  }
  if (bad != 0) refuse_level();
}

template <class Read>
void read_all(std::span<const std::byte> in, const ReadTable* table, const Read& read, unsigned s,
              std::span<std::uint8_t> fields) {
  BitReader reader(in);
  std::size_t at = 0;
  while (at < fields.size()) {
    if (table != nullptr) at = read_by_table(reader, *table, fields, at);
    at = read_one(reader, read, fields, at);
  }
  reader.finish();
  to_fields(fields, s);
}

}  // namespace

void read_dense(std::span<const std::byte> in, unsigned s, std::span<std::uint8_t> fields) {
  read_all(in, &kDenseTable, read_dense_code, s, fields);
}

void read_rice(std::span<const std::byte> in, unsigned s, unsigned r, std::span<std::uint8_t> fields) {
  if (r > kLevelRiceMax) throw PayloadError("payload claims a Rice parameter that no levels need");
  const ReadTable* const table = r < kRiceTables.size() ? kRiceTables[r] : nullptr;
  read_all(
      in, table, [r](std::uint64_t bits) { return read_rice_code(bits, r); }, s, fields);
}

void read_sparse(std::span<const std::byte> in, unsigned s, std::span<std::uint8_t> fields) {
  BitReader reader(in);
  std::size_t at = 0;
  while (at < fields.size()) {
    at = read_by_table(reader, kSparseTable, fields, at);
    reader.refill();
    const OmegaRead gap = read_omega(reader.bits());
    const std::size_t left = fields.size() - at;
    if (gap.number == left + 1) {
      reader.drop(gap.length);
      std::memset(fields.data() + at, 0, left);
      at = fields.size();
    } else {
      at = read_one(reader, read_sparse_code, fields, at);
    }
  }
  reader.finish();
  to_fields(fields, s);
}

}  // namespace gossamer::compress
