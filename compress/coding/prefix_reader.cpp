#include <bit>
#include <cstring>

#include "prefix_read.h"

namespace gossamer::compress {
namespace {

[[noreturn]] void refuse_level() { throw PayloadError("payload holds a level beyond the highest"); }

constexpr unsigned kTableBits = 11;
/// As many levels as a word has room for.
constexpr unsigned kAtOnce = 6;

/// What the next kTableBits bits of a string say: bits used in the low byte, levels said in the next (0 =
/// none is whole, or it says more than there is room for), then these levels as signed bytes.
using ReadTable = std::array<std::uint64_t, std::size_t{1} << kTableBits>;

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

constexpr ReadTable kDenseTable = table_of([](std::uint64_t bits) { return read_dense_code(bits); });
constexpr ReadTable kSparseTable = table_of([](std::uint64_t bits) { return read_sparse_code(bits); });
template <unsigned r>
constexpr ReadTable kRiceTable = table_of([](std::uint64_t bits) { return read_rice_code(bits, r); });
constexpr std::array<const ReadTable*, 4> kRiceTables = {&kRiceTable<0>, &kRiceTable<1>, &kRiceTable<2>,
                                                         &kRiceTable<3>};

/// Where reading stands in a string.
struct Cursor {
  std::uint64_t bit = 0;  ///< of all strings together
  std::size_t at = 0;     ///< the next level
  std::size_t end = 0;    ///< past its last level
};
using Cursors = std::array<Cursor, kStrings>;

/// Reads codes off strings that stand behind each other. What lies past the end of a string may be taken for
/// part of it; finish() tells.
template <class Read>
class StringsReader {
 public:
  StringsReader(const StringEnds& in, const ReadTable* table, const Read& read,
                std::span<std::uint8_t> levels)
      : in_(in), table_(table), read_(read), levels_(levels) {}

  void read() {
    Cursors cursors;
    for (std::size_t k = 0; k < in_.strings; ++k) {
      const auto part = part_of(levels_, in_.strings, k);
      const auto at = static_cast<std::size_t>(part.data() - levels_.data());
      cursors[k] = {8 * start(k), at, at + part.size()};
    }
    if (table_ != nullptr && in_.strings == kStrings) read_in_turn(cursors);
    for (std::size_t k = 0; k < in_.strings; ++k) {
      read_rest(cursors[k]);
      finish(cursors[k].bit, in_.end[k]);
    }
  }

 private:
  static constexpr unsigned kLooks = 56 / kTableBits;
  static constexpr std::size_t kLooksLevels = kAtOnce * kLooks;

  std::size_t start(std::size_t k) const { return k == 0 ? 0 : in_.end[k - 1]; }

  /// Rounds of kLooks looks that neither pass the end of the bytes nor that of a part.
  std::size_t safe_rounds(const Cursors& cursors) const {
    std::size_t rounds = ~std::size_t{0};
    for (const Cursor& c : cursors) {
      const std::size_t left = c.end - c.at, byte = static_cast<std::size_t>(c.bit >> 3);
      if (left < kLooksLevels + 8 || byte + 16 > in_.in.size()) return 0;
      rounds = std::min({rounds, (left - 8) / kLooksLevels, (in_.in.size() - byte - 8) / 8});
    }
    return rounds;
  }

  void read_in_turn(Cursors& cursors) {
    while (const std::size_t rounds = safe_rounds(cursors)) {
      const unsigned stuck = read_rounds(cursors, rounds);
      for (std::size_t k = 0; k < kStrings; ++k) {
        if ((stuck >> k & 1) != 0) read_one(cursors[k]);
      }
    }
  }

  /// Until a table knows no more; returns a bit for each string that is to be read by other means.
  unsigned read_rounds(Cursors& cursors, std::size_t rounds) {
    const std::byte* const in = in_.in.data();
    std::uint8_t* const levels = levels_.data();
    const std::uint64_t* const table = table_->data();
    const auto look = [table, levels](Cursor& c, std::uint64_t& word) {
      const std::uint64_t entry = table[word & ((1u << kTableBits) - 1)];
      const std::uint64_t said = entry >> 16;
      std::memcpy(levels + c.at, &said, 8);
      c.at += (entry >> 8) & 0xff;
      c.bit += entry & 0xff;
      word >>= entry & 63;
      return entry & 0xff;
    };
    // A look that says nothing stays where it is, so that the last one tells.
    const auto read_two = [in, &look](Cursor& a, Cursor& b) {
      std::uint64_t of_a, of_b, used_a = 0, used_b = 0;
      std::memcpy(&of_a, in + (a.bit >> 3), 8);
      std::memcpy(&of_b, in + (b.bit >> 3), 8);
      of_a >>= a.bit & 7;
      of_b >>= b.bit & 7;
      for (unsigned i = 0; i < kLooks; ++i) {
        used_a = look(a, of_a);
        used_b = look(b, of_b);
      }
      return (used_a == 0 ? 1u : 0u) | (used_b == 0 ? 2u : 0u);
    };
    static_assert(kStrings == 4);
    Cursor a = cursors[0], b = cursors[1], c = cursors[2], d = cursors[3];
    unsigned stuck = 0;
    for (; rounds > 0 && stuck == 0; --rounds) {
      stuck = read_two(a, b);
      stuck |= read_two(c, d) << 2;
    }
    cursors = {a, b, c, d};
    return stuck;
  }

  void read_rest(Cursor& c) {
    while (c.at < c.end) {
      const std::uint64_t entry =
          table_ != nullptr && c.end - c.at >= 8
              ? (*table_)[static_cast<std::size_t>(load_bits(in_.in, c.bit) & (table_->size() - 1))]
              : 0;
      if ((entry & 0xff) == 0) {
        read_one(c);
        continue;
      }
      const std::uint64_t said = entry >> 16;
      std::memcpy(levels_.data() + c.at, &said, 8);
      c.at += (entry >> 8) & 0xff;
      c.bit += entry & 0xff;
    }
  }

  void read_one(Cursor& c) {
    const std::size_t left = c.end - c.at;
    const ReadCode code = read_(load_bits(in_.in, c.bit), left);
    if (code.length == 0 || code.zeros + (code.last ? 0 : 1) > left) refuse_level();
    std::memset(levels_.data() + c.at, 0, static_cast<std::size_t>(code.zeros));
    c.at += static_cast<std::size_t>(code.zeros);
    if (!code.last) levels_[c.at++] = static_cast<std::uint8_t>(code.level);
    c.bit += code.length;
  }

  /// Throws unless the string ends here but for zeros up to a byte.
  void finish(std::uint64_t bit, std::size_t end) const {
    if (bit > 8 * end) throw PayloadError("payload truncated: its codes end early");
    const std::uint64_t left = 8 * end - bit;
    if (left >= 8 || (load_bits(in_.in, bit) & low_bits(static_cast<unsigned>(left))) != 0)
      throw PayloadError("payload holds bits after its last code");
  }

  const StringEnds& in_;
  const ReadTable* const table_;
  const Read& read_;
  const std::span<std::uint8_t> levels_;
};

/// Levels become fields; throws for those out of range.
void to_fields(std::span<std::uint8_t> levels, LevelRange range) {
  const auto shift = static_cast<std::uint8_t>(range.zero), top = static_cast<std::uint8_t>(range.top);
  std::uint8_t bad = 0;
  for (std::uint8_t& level : levels) {
    level = static_cast<std::uint8_t>(level + shift);
    bad = static_cast<std::uint8_t>(bad | (level > top));
  }
  if (bad != 0) refuse_level();
}

template <class Read>
void read_all(const StringEnds& in, const ReadTable* table, const Read& read, LevelRange range,
              std::span<std::uint8_t> fields) {
  StringsReader<Read>(in, table, read, fields).read();
  to_fields(fields, range);
}

}  // namespace

void read_dense(const StringEnds& in, LevelRange range, std::span<std::uint8_t> fields) {
  const auto read = [](std::uint64_t bits, std::size_t) { return read_dense_code(bits); };
  read_all(in, &kDenseTable, read, range, fields);
}

void read_rice(const StringEnds& in, LevelRange range, unsigned r, std::span<std::uint8_t> fields) {
  if (r > kLevelRiceMax) throw PayloadError("payload claims a Rice parameter that no levels need");
  const ReadTable* const table = r < kRiceTables.size() ? kRiceTables[r] : nullptr;
  const auto read = [r](std::uint64_t bits, std::size_t) { return read_rice_code(bits, r); };
  read_all(in, table, read, range, fields);
}

void read_sparse(const StringEnds& in, LevelRange range, std::span<std::uint8_t> fields) {
  const auto read = [](std::uint64_t bits, std::size_t left) { return read_sparse_or_end(bits, left); };
  read_all(in, &kSparseTable, read, range, fields);
}

}  // namespace gossamer::compress
