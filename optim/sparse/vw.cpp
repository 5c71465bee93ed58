// Vowpal Wabbit's text (github.com/VowpalWabbit/vowpal_wabbit/wiki/Input-format):
//   label [importance [base]] ['tag]|namespace[:weight] feature[:value] … |namespace …
// Names, of whatever form, are hashed with their namespace to 64 bits; a namespace is a field.
#include <algorithm>
#include <string>
#include <vector>

#include "parse_lines.h"

namespace gossamer::optim {
namespace {

std::uint64_t hash_of(const char* begin, const char* end, std::uint64_t seed) {
  const std::uint64_t hash = XXH3_64bits_withSeed(begin, static_cast<std::size_t>(end - begin), seed);
  return hash == kBiasKey ? 0 : hash;
}

/// The end of a name: of a namespace, a feature or a tag.
const char* name_end(const char* p, const char* end) {
  while (p != end && !is_blank(*p) && *p != ':' && *p != '|') ++p;
  return p;
}

bool ends_word(const char* p, const char* end) { return p == end || is_blank(*p) || *p == '|'; }

const char* skip_blanks(const char* p, const char* end) {
  while (p != end && is_blank(*p)) ++p;
  return p;
}

class VwFormat final : public LineFormat {
 public:
  explicit VwFormat(const SampleStreamSpec& spec) : fields_(spec.fields) {
    for (const std::string& name : spec.namespaces)
      namespaces_.push_back(hash_of(name.data(), name.data() + name.size(), 0));
    if (fields_ < 1 || fields_ > UINT32_MAX)
      throw OptimError("vw fields: found " + std::to_string(fields_) + ", expected 1 to 2^32 - 1");
  }

  bool has_fields() const override { return true; }
  std::size_t most_entries(const TextPiece& piece) const override {
    const std::string_view text = piece.view();
    return static_cast<std::size_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return is_blank(c) || c == '|'; }));
  }
  void parse(const TextPiece& piece, const SampleShare& share, SampleBlock& out) const override {
    parse_lines(piece, share, out,
                [this](const char* p, const char* end, SampleBlock::Writer& writer, float& label,
                       LineFault& fault) { return line(p, end, writer, label, fault); });
  }

 private:
  Parsed line(const char* p, const char* end, SampleBlock::Writer& out, float& label,
              LineFault& fault) const {
    p = skip_blanks(p, end);
    if (p == end) return Parsed::nothing;
    const char* after = scan_label(p, end, label);
    if (!after || !ends_word(after, end))
      return bad_line(fault, p, "found " + shown_word(p, end) + ", expected a label: 1, -1 or 0");
    p = skip_blanks(after, end);
    if (Parsed parsed = before_features(p, end, fault); parsed == Parsed::bad) return parsed;
    while (p != end) {
      std::uint32_t field = 0;
      std::uint64_t seed = 0;
      float weight = 1;
      if (!open_namespace(p, end, field, seed, weight, fault)) return Parsed::bad;
      for (p = skip_blanks(p, end); p != end && *p != '|'; p = skip_blanks(p, end)) {
        const char *name = p, *name_last = name_end(p, end);
        if (name_last == name)
          return bad_line(fault, name, "found " + shown_word(name, end) + ", expected a feature's name");
        p = name_last;
        float value = 1;
        if (!value_after(p, end, value, fault)) return Parsed::bad;
        out.add(hash_of(name, name_last, seed), value * weight, field);
      }
    }
    return Parsed::sample;
  }

  /// p ← the first '|', or the end. Samples of different importance or base are not known here.
  static Parsed before_features(const char*& p, const char* end, LineFault& fault) {
    for (const float expected : {1.0f, 0.0f}) {
      if (p == end || *p == '|' || *p == '\'') break;
      float number = 0;
      const char *after = scan_decimal(p, end, number), *word = name_end(p, end);
      if (word != end && *word == '|') break;  // a tag that touches the features
      if (!after || after != word || number != expected)
        return bad_line(fault, p,
                        "found " + shown_word(p, end) +
                            (expected > 0 ? ", expected | and features, or importance 1"
                                          : ", expected | and features, or base 0"));
      p = skip_blanks(after, end);
    }
    if (p != end && *p != '|') {
      const char* tag = p;
      while (p != end && !is_blank(*p) && *p != '|') ++p;
      p = skip_blanks(p, end);
      if (p != end && *p != '|')
        return bad_line(
            fault, p,
            "found " + shown_word(p, end) + " after the tag " + shown_word(tag, end) + ", expected |");
    }
    return Parsed::sample;
  }

  /// p, at a '|', ← after the namespace's name and weight.
  bool open_namespace(const char*& p, const char* end, std::uint32_t& field, std::uint64_t& seed,
                      float& weight, LineFault& fault) const {
    const char* name = ++p;
    p = name_end(p, end);
    seed = hash_of(name, p, 0);
    if (namespaces_.empty()) {
      field = static_cast<std::uint32_t>(seed % fields_);
    } else {
      const auto known = std::find(namespaces_.begin(), namespaces_.end(), seed);
      if (known == namespaces_.end()) {
        bad_line(fault, name,
                 "found namespace " + shown({name, static_cast<std::size_t>(p - name)}) +
                     ", expected one of namespaces");
        return false;
      }
      field = static_cast<std::uint32_t>(known - namespaces_.begin());
    }
    return value_after(p, end, weight, fault);
  }

  /// p, where a name ends, ← where the word ends; value ← what stands after a colon.
  static bool value_after(const char*& p, const char* end, float& value, LineFault& fault) {
    if (p == end || *p != ':') return true;
    const char* after = scan_value(++p, end, value);
    if (!after || !ends_word(after, end)) {
      bad_line(fault, p, "found " + shown_word(p, end) + ", expected a finite number");
      return false;
    }
    p = after;
    return true;
  }

  std::size_t fields_;
  std::vector<std::uint64_t> namespaces_;  ///< hashes of their names
};

}  // namespace

std::unique_ptr<LineFormat> make_vw(const SampleStreamSpec& spec) { return std::make_unique<VwFormat>(spec); }

}  // namespace gossamer::optim
