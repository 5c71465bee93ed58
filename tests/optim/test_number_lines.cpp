// libsvm lines with values of all forms: those that are read many at a time beside those read one by one.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "line_format.h"
#include "parse_lines.h"
#include "support.h"
#include "text_piece.h"

namespace gossamer::optim::test {
namespace {

struct Row {
  std::uint64_t position;
  std::uint32_t label;  ///< labels and values by their bits: −0 is not 0
  std::vector<std::uint64_t> keys;
  std::vector<std::uint32_t> values;
  bool operator==(const Row&) const = default;
};
struct Rows {
  std::vector<Row> rows;
  std::vector<std::string> bad;
  std::uint64_t bad_lines = 0;
};

void read(const std::string& text, const SampleStreamSpec& spec, Rows& out) {
  TextPiece piece = piece_of(text);
  piece.name = "log";
  const auto format = make_line_format({});
  SampleBlock block(text.size() + 1, format->most_entries(piece), false);
  format->parse(piece, SampleShare(spec), block);
  for (std::size_t i = 0; i < block.rows(); ++i) {
    const Sample sample = block.at(i);
    out.rows.push_back({sample.position, std::bit_cast<std::uint32_t>(sample.label), {}, {}});
    out.rows.back().keys.assign(sample.keys.begin(), sample.keys.end());
    for (const float value : sample.values)
      out.rows.back().values.push_back(std::bit_cast<std::uint32_t>(value));
  }
  out.bad.insert(out.bad.end(), block.bad.begin(), block.bad.end());
  out.bad_lines += block.bad_lines;
}

/// Whose lines are read one by one, as a tab stands where a blank stood.
std::string with_tabs(std::string text) {
  for (std::size_t p = 0; p < text.size(); p = std::min(text.find('\n', p), text.size() - 1) + 1) {
    const std::size_t blank = text.find(' ', p);
    if (blank < text.find('\n', p)) text[blank] = '\t';
  }
  return text;
}

std::string printed(const char* form, double value) {
  char text[400];
  std::snprintf(text, sizeof text, form, value);
  return text;
}

/// Numbers as programs write them, some of which are nearly half-way between two floats.
std::string number(std::mt19937_64& random, unsigned kind) {
  const double unit = static_cast<double>(random() >> 11) * 0x1p-53, value = random() % 2 ? unit : -unit;
  switch (kind) {
    case 0:
      return printed("%.4f", value);
    case 1:
      return printed("%.7f", value * 5);
    case 2:
      return printed("%g", value * std::pow(10, static_cast<double>(random() % 12) - 4));
    case 3:
      return printed("%.16g", value);
    case 4:
      return printed("%.17g", value * std::pow(10, static_cast<double>(random() % 9)));
    case 5:
      return printed("%.0f", value * std::pow(10, static_cast<double>(random() % 12)));
    case 6:
      return random() % 2 ? "1" : "0";
    case 7:
      return printed("%.9e", value);
    case 8: {
      const std::string digits = std::to_string(random() % 10000000);
      return random() % 2 ? "." + digits + (random() % 4 ? "" : "123456789012") : digits + ".";
    }
    case 9:
      return printed("%+.3f", value * 100) + (random() % 4 ? "" : "1234567890123");
    case 10: {
      const float below =
          static_cast<float>(std::abs(value) * std::pow(10, static_cast<double>(random() % 8)));
      std::string middle = printed("%.60f", (double{below} + std::nextafter(below, 1e9f)) / 2);
      while (middle.back() == '0') middle.pop_back();
      const auto cut = static_cast<std::ptrdiff_t>(random() % 4);
      if (cut == 1) middle.back() = static_cast<char>(middle.back() - 1);
      if (cut == 2) middle += "1";
      return (random() % 2 ? "-" : "") + middle;
    }
    default:
      return printed("%.1f", std::floor(value * std::pow(10, static_cast<double>(random() % 10))));
  }
}

std::string lines_of_numbers(std::mt19937_64& random, unsigned kinds, bool damaged) {
  const auto one_of = [&](const auto& all) { return all[random() % std::size(all)]; };
  const std::string labels[] = {"1", "0", "-1", "+1", "1", "0", " 1", "1.0", "#"},
                    ends[] = {"\n", "\n", "\n", " \n", "\r\n", " \r\n", "\n\n"},
                    between[] = {" ", " ", " ", " ", " ", " ", "  ", "\t", " \t"};
  const std::string characters = " :01239\n\r\t+-#x...en\xC3";
  const std::size_t crowd = random() % 3 == 0 ? 9 : 6, most = random() % 2 ? 8 : 60;
  std::string text;
  for (std::uint64_t lines = random() % 30; lines > 0; --lines) {
    std::string line = labels[random() % (damaged ? std::size(labels) : 6)];
    for (std::uint64_t e = random() % most; e > 0; --e)
      line += between[random() % crowd] +
              std::to_string(random() >> (64 - random() % (random() % 8 ? 20 : 40) - 1)) + ":" +
              number(random, static_cast<unsigned>(random() % 16 ? random() % 3 : random()) % kinds);
    if (damaged && random() % 4 == 0) line[random() % line.size()] = one_of(characters);
    text += line + ends[random() % (crowd == 9 ? std::size(ends) : 4)];
  }
  if (random() % 2 && !text.empty()) text.pop_back();
  return text;
}

}  // namespace

TEST_CASE("libsvm: values that are read many at a time are those read one by one") {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    std::mt19937_64 random(seed);
    const std::string text =
        lines_of_numbers(random, 1 + static_cast<unsigned>(random() % 12), seed % 2 == 0);
    Rows many, single, shared;
    read(text, {}, many);
    read(with_tabs(text), {}, single);
    for (std::size_t peer = 0; peer < 2; ++peer) read(text, {.peer = peer, .peers = 2}, shared);
    std::sort(shared.rows.begin(), shared.rows.end(),
              [](const Row& a, const Row& b) { return a.position < b.position; });
    INFO(seed << ":\n" << text);
    REQUIRE(many.rows == single.rows);
    REQUIRE(many.bad == single.bad);
    REQUIRE(many.bad_lines == single.bad_lines);
    REQUIRE(shared.rows == many.rows);
    REQUIRE(shared.bad_lines == many.bad_lines);
    if (seed % 2 == 1) REQUIRE(many.bad_lines == 0);
  }
}

TEST_CASE("libsvm: values are the nearest floats to the nearest doubles") {
  std::mt19937_64 random(7);
  for (unsigned kind = 0; kind < 12; ++kind) {
    std::string text;
    std::vector<std::uint32_t> expected;
    for (std::size_t i = 0; i < 5000; ++i) {
      const std::string value = number(random, kind);
      text += (i % 10 ? " " : i ? "\n1 " : "0 ") + std::to_string(random() % 100000) + ":" + value;
      expected.push_back(std::bit_cast<std::uint32_t>(static_cast<float>(std::stod(value))));
    }
    Rows rows;
    read(text + "\n", {}, rows);
    CHECK(rows.bad == std::vector<std::string>{});
    std::vector<std::uint32_t> values;
    for (const Row& row : rows.rows) values.insert(values.end(), row.values.begin(), row.values.end());
    INFO(kind);
    REQUIRE(values == expected);
  }
}

TEST_CASE("libsvm: values that only look like numbers are told where they stand") {
  const auto fault = [](const std::string& line) {
    Rows rows;
    read("0 1:0.5 2:-7.25\n" + line + "\n1 2:3.5\n", {}, rows);
    REQUIRE(rows.bad.size() == 1);
    CHECK(rows.rows.size() == 2);
    return rows.bad[0];
  };
  for (const std::string value :
       {"-.", "-", "+", ".", "--5", "5-", "5e", "1.2.3", ".123456789012345.6", "0.12345678.9",
        "0.1234567890123456.7", "-0.12345678901234x", "x0.3655", "nan", "1e99"})
    CHECK(fault("1 3:0.25 4:" + value + " 5:1.5") ==
          "log:2:12: found \"" + value + "\", expected a finite number");
}

TEST_CASE("libsvm: values of any length in lines of any length") {
  std::string text;
  std::vector<std::uint32_t> expected;
  for (std::size_t i = 0; i < 64; ++i) {  // where blocks of text end
    text += "1 " + std::string(i % 8 + 1, '7') + ":1" + std::string(i / 8, '5');
    expected.push_back(std::bit_cast<std::uint32_t>(std::stof("1" + std::string(i / 8, '5'))));
    for (std::size_t e = 0; e < 2000; ++e) {
      const std::string value = e % 3 == 0   ? "1.25e-05"
                                : e % 3 == 1 ? "123456789.5"
                                             : "0.12345678901234567890";
      text += " " + std::to_string(e % 10) + ":" + value;
      expected.push_back(std::bit_cast<std::uint32_t>(static_cast<float>(std::stod(value))));
    }
    text += "\n";
  }
  Rows rows;
  read(text, {}, rows);
  REQUIRE(rows.rows.size() == 64);
  std::vector<std::uint32_t> values;
  for (const Row& row : rows.rows) values.insert(values.end(), row.values.begin(), row.values.end());
  CHECK(values == expected);
}

}  // namespace gossamer::optim::test
