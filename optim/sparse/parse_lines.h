#pragma once
// What all line formats do alike: lines are cut, hashed and dealt to peers; bad ones become messages.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "csv_reader.h"
#include "line_format.h"
#include "scan.h"

namespace gossamer::optim {

/// What a parser of one line says.
enum class Parsed { sample, nothing, bad };

/// Where it found what it did not expect.
struct LineFault {
  const char* at = nullptr;
  std::string what;
};

constexpr std::size_t kMostBadShown = 5;

/// The word at p, for messages.
inline std::string shown_word(const char* p, const char* end) {
  const char* last = p;
  while (last != end && !is_blank(*last)) ++last;
  return last == p ? "the end of the line" : shown({p, static_cast<std::size_t>(last - p)});
}

inline Parsed bad_line(LineFault& fault, const char* at, std::string what) {
  fault = {at, std::move(what)};
  return Parsed::bad;
}

/// Labels of clicks: 1, 0 and −1, which is 0 too. Null where there is none.
inline const char* scan_label(const char* p, const char* end, float& label) {
  // as most are written; which of them it is cannot be foreseen, so that nothing branches by it
  const char* const digit = p + ((*p == '+') | (*p == '-'));
  const bool one = *digit == '1';
  if ((one | (*digit == '0')) && (digit + 1 == end || digit[1] == ' ')) {
    label = static_cast<float>(one & (*p != '-'));
    return digit + 1;
  }
  float value = 0;
  const char* after = scan_value(p, end, value);
  if (!after || (value != 1 && value != 0 && value != -1)) return nullptr;
  label = value > 0 ? 1.0f : 0.0f;
  return after;
}

/// parser(begin, end, writer, label, fault) → Parsed, for each line that is not empty.
template <class Parser>
void parse_lines(const TextPiece& piece, const SampleShare& share, SampleBlock& out, const Parser& parser) {
  const char *p = piece.bytes.get() + piece.skip, *last = piece.bytes.get() + piece.size;
  std::uint64_t line = piece.first_line + count_of(piece.view().substr(0, piece.skip), '\n');
  LineFault fault;
  for (const char* next = p; p < last; p = next, ++line) {
    const auto* found = static_cast<const char*>(std::memchr(p, '\n', static_cast<std::size_t>(last - p)));
    const char* end = found ? found : last;
    next = end + 1;
    if (end > p && end[-1] == '\r') --end;
    if (p == end) continue;
    const std::uint64_t hash = XXH3_64bits(p, static_cast<std::size_t>(end - p));
    const std::uint64_t position = piece.position + static_cast<std::uint64_t>(p - piece.bytes.get());
    if (!share.by_label() && !share.mine(hash, position)) continue;
    SampleBlock::Writer writer(out);
    float label = 0;
    const Parsed parsed = parser(p, end, writer, label, fault);
    if (parsed == Parsed::sample && (!share.by_label() || share.mine(hash, position, label)))
      out.end_row(writer, label, hash, position);
    if (parsed != Parsed::bad || !share.mine(hash, position)) continue;
    ++out.bad_lines;
    if (out.bad.size() < kMostBadShown)
      out.bad.push_back(piece.name + ":" + std::to_string(line) + ":" + std::to_string(fault.at - p + 1) +
                        ": " + fault.what);
  }
}

}  // namespace gossamer::optim
