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

/// A label as most are written: 1 or 0, with a sign or none; returns what follows it, null where there is
/// none. Which of them it is cannot be foreseen, so that nothing branches by it.
inline const char* scan_digit_label(const char* p, float& label) {
  const char* const digit = p + ((*p == '+') | (*p == '-'));
  const bool one = *digit == '1';
  label = static_cast<float>(one & (*p != '-'));
  return (one | (*digit == '0')) ? digit + 1 : nullptr;
}

/// Labels of clicks: 1, 0 and −1, which is 0 too. Null where there is none.
inline const char* scan_label(const char* p, const char* end, float& label) {
  const char* const as_most = scan_digit_label(p, label);
  if (as_most && (as_most == end || *as_most == ' ')) return as_most;
  float value = 0;
  const char* after = scan_value(p, end, value);
  if (!after || (value != 1 && value != 0 && value != -1)) return nullptr;
  label = value > 0 ? 1.0f : 0.0f;
  return after;
}

/// The lines of one piece of text while they are read.
class LineReading {
 public:
  LineReading(const TextPiece& piece, const SampleShare& share, SampleBlock& block)
      : out(block),
        piece_(piece),
        share_(share),
        line_(piece.first_line + count_of(piece.view().substr(0, piece.skip), '\n')) {}
  const char* begin() const { return piece_.bytes.get() + piece_.skip; }
  const char* end() const { return piece_.bytes.get() + piece_.size; }

  /// Reads the line at p; returns what follows it. parser(begin, end, writer, label, fault) → Parsed, for
  /// each line that is not empty.
  template <class Parser>
  const char* read(const char* p, const Parser& parser) {
    const auto* found = static_cast<const char*>(std::memchr(p, '\n', static_cast<std::size_t>(end() - p)));
    const char* const next = found ? found + 1 : end();
    const char* const last = trimmed(p, found ? found : end());
    if (p != last) read(p, last, parser);
    ++line_;
    return next;
  }
  /// Takes a sample from the line [p, end) that somebody else has read, if it is this peer's.
  void add(const char* p, const char* end, const SampleBlock::Writer& writer, float label) {
    const Place place = place_of(p, trimmed(p, end));
    if (share_.mine(place.hash, place.position, label))
      out.end_row(writer, label, place.hash, place.position);
  }
  /// The end of the line [p, end) without the return that may be a part of its break.
  static const char* trimmed(const char* p, const char* end) { return end - (end > p && end[-1] == '\r'); }
  /// Somebody else has read so many lines.
  void pass(std::size_t lines) { line_ += lines; }

  SampleBlock& out;

 private:
  struct Place {
    std::uint64_t hash, position;
  };
  Place place_of(const char* p, const char* end) const {
    return {XXH3_64bits(p, static_cast<std::size_t>(end - p)),
            piece_.position + static_cast<std::uint64_t>(p - piece_.bytes.get())};
  }
  template <class Parser>
  void read(const char* p, const char* end, const Parser& parser) {
    const auto [hash, position] = place_of(p, end);
    if (!share_.by_label() && !share_.mine(hash, position)) return;
    SampleBlock::Writer writer(out);
    float label = 0;
    const Parsed parsed = parser(p, end, writer, label, fault_);
    if (parsed == Parsed::sample && (!share_.by_label() || share_.mine(hash, position, label)))
      out.end_row(writer, label, hash, position);
    if (parsed != Parsed::bad || !share_.mine(hash, position)) return;
    ++out.bad_lines;
    if (out.bad.size() < kMostBadShown)
      out.bad.push_back(piece_.name + ":" + std::to_string(line_) + ":" + std::to_string(fault_.at - p + 1) +
                        ": " + fault_.what);
  }

  const TextPiece& piece_;
  const SampleShare& share_;
  std::uint64_t line_;  ///< number of the next one
  LineFault fault_;
};

template <class Parser>
void parse_lines(const TextPiece& piece, const SampleShare& share, SampleBlock& out, const Parser& parser) {
  LineReading lines(piece, share, out);
  for (const char* p = lines.begin(); p < lines.end();) p = lines.read(p, parser);
}

}  // namespace gossamer::optim
