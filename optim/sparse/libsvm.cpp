// libsvm:  label index:value index:value …        (Chang, Lin: LIBSVM: A Library for Support Vector Machines)
// libffm:  label field:index:value …              (Juan et al.: LIBFFM)
// Indices are the keys, 0 to 2^64 − 2, in any order; a # begins a comment.
#include <array>
#include <cstring>
#include <string>

#include "index_values.h"
#include "names.h"
#include "parse_lines.h"

namespace gossamer::optim {
namespace {

constexpr std::uint64_t kMostField = 1U << 24;
static_assert(LineKernels::kAhead <= kTextPadding);

template <bool fields>
constexpr const char* kExpectedEntry = fields ? "expected field:index:value" : "expected index:value";

/// What is wrong with the entry at p; told apart only once something is.
template <bool fields>
Parsed bad_entry(LineFault& fault, const char* p, const char* end, std::uint64_t most_field) {
  std::uint64_t number = 0;
  for (int colons = 0; colons < (fields ? 2 : 1); ++colons) {
    const char* after = scan_digits(p, number);
    const bool is_field = fields && colons == 0;
    if (!after || (is_field && number > most_field) || number == kBiasKey)
      return bad_line(fault, p,
                      "found " + shown_word(p, end) + ", expected " + (is_field ? "a field" : "an index") +
                          " of at most " + std::to_string(is_field ? most_field : kBiasKey - 1) +
                          (is_field && most_field < kMostField ? " (data.fields)" : ""));
    if (after == p || *after != ':')
      return bad_line(fault, after == p ? p : after,
                      "found " + shown_word(after == p ? p : after, end) + ", " + kExpectedEntry<fields>);
    p = after + 1;
  }
  return bad_line(fault, p, "found " + shown_word(p, end) + ", expected a finite number");
}

template <bool fields>
struct IndexValueLine {
  IndexValues* index_values;  ///< not of libffm
  std::uint64_t most_field = kMostField;
  Parsed operator()(const char* p, const char* end, SampleBlock::Writer& out, float& label,
                    LineFault& fault) const {
    const char* const begin = p;
    while (is_blank(*p)) ++p;
    if (p >= end || *p == '#') return Parsed::nothing;
    const char* after = scan_label(p, end, label);
    if (!after || (after != end && !is_blank(*after)))
      return bad_line(fault, p, "found " + shown_word(p, end) + ", expected a label: 1, 0 or -1");
    if constexpr (!fields) {
      if (after == end || *after == ' ')
        after = std::max(after, index_values->read_line(begin, end, out));
      else
        index_values->finish();  // what follows is written where another peer's line may have left digits
      while (is_blank(*after)) ++after;
      after = ones(after, out);
    }
    for (p = after;;) {
      while (is_blank(*p)) ++p;
      if (p >= end || *p == '#') return Parsed::sample;
      after = entry(p, end, out);
      if (!after || (after < end && !is_blank(*after))) return bad_entry<fields>(fault, p, end, most_field);
      p = after;
    }
  }

  /// Entries of value 1, with one comparison for what follows the digits. What ends the line is none of these
  /// bytes.
  static const char* ones(const char* p, SampleBlock::Writer& out) {
    constexpr std::ptrdiff_t kAlwaysFit = 19;
    for (;;) {
      std::uint64_t index = 0;
      const char* after = p;
      for (; is_digit(*after); ++after) index = index * 10 + static_cast<std::uint64_t>(*after - '0');
      if (after == p || after - p > kAlwaysFit || std::memcmp(after, ":1 ", 3) != 0) return p;
      out.add(index, 1);
      p = after + 3;
    }
  }

  const char* entry(const char* p, const char* end, SampleBlock::Writer& out) const {
    std::uint64_t field = 0, index = 0;
    if constexpr (fields) {
      const char* after = scan_digits(p, field);
      if (!after || after == p || *after != ':' || field > most_field) return nullptr;
      p = after + 1;
    }
    const char* after = scan_digits(p, index);
    if (!after || after == p || *after != ':' || index == kBiasKey) return nullptr;
    float value = 0;
    after = scan_value(after + 1, end, value);
    if (!after) return nullptr;
    if constexpr (fields)
      out.add(index, value, static_cast<std::uint32_t>(field));
    else
      out.add(index, value);
    return after;
  }
};

template <bool fields>
class IndexValueFormat final : public LineFormat {
 public:
  explicit IndexValueFormat(std::size_t most_fields)
      : most_field_(most_fields > 0 ? std::min<std::uint64_t>(most_fields - 1, kMostField) : kMostField) {}
  bool has_fields() const override { return fields; }
  std::size_t most_entries(const TextPiece& piece) const override {
    return count_of(piece.view(), ':') / (fields ? 2 : 1);
  }
  [[gnu::flatten]] void parse(const TextPiece& piece, const SampleShare& share,
                              SampleBlock& out) const override {
    LineReading lines(piece, share, out);
    IndexValues index_values(lines);
    const bool together = !fields && share.all();
    const IndexValueLine<fields> parser{&index_values, most_field_};
    for (const char* p = lines.begin(); p < lines.end();) {
      if (together) p = index_values.read_lines(p);
      if (p < lines.end()) p = lines.read(p, parser);
    }
    index_values.finish();
  }

 private:
  std::uint64_t most_field_;
};

using LineFormatMaker = std::unique_ptr<LineFormat> (*)(const SampleStreamSpec&);
constexpr std::array<Row<LineFormatMaker>, 4> kLineFormats{{
    {{"libsvm", "label index:value ...; the index is the key",
      "path test_path command test_command follow shuffle shuffle_rows memory max_bad seed"},
     make_libsvm},
    {{"libffm", "label field:index:value ...; the index is the key",
      "path test_path command test_command follow shuffle shuffle_rows memory max_bad seed fields"},
     make_libffm},
    {{"vw", "label |namespace feature:value ... (Vowpal Wabbit's text); names are hashed",
      "path test_path command test_command follow shuffle shuffle_rows memory max_bad seed fields "
      "namespaces"},
     make_vw},
    {{"csv", "one sample a line; text columns are hashed, numbers are values; comma, semicolon or tab",
      "path test_path command test_command follow shuffle shuffle_rows memory max_bad seed fields label "
      "text"},
     make_csv_lines},
}};
constexpr auto kLineFormatHelp = help_of(kLineFormats);

}  // namespace

std::unique_ptr<LineFormat> make_libsvm(const SampleStreamSpec&) {
  return std::make_unique<IndexValueFormat<false>>(0);
}
std::unique_ptr<LineFormat> make_libffm(const SampleStreamSpec& spec) {
  return std::make_unique<IndexValueFormat<true>>(spec.most_fields);
}

std::span<const NamedHelp> sample_format_table() { return kLineFormatHelp; }

std::unique_ptr<LineFormat> make_line_format(const SampleStreamSpec& spec) {
  return find_row(kLineFormats, "sample format", spec.format).make(spec);
}

}  // namespace gossamer::optim
