// Line formats against plain parsers on random valid lines, and each kind of bad line with its place.
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <compare>
#include <random>
#include <sstream>

#include "gossamer/optim/sample_stream.h"
#include "line_format.h"
#include "scan.h"
#include "support.h"
#include "text_piece.h"

namespace gossamer::optim::test {
namespace {

struct Entry {
  std::uint64_t key;
  std::uint32_t field;
  float value;
  auto operator<=>(const Entry&) const = default;
};
struct Line {
  float label;
  std::vector<Entry> entries;
  auto operator<=>(const Line&) const = default;
};

struct Read {
  std::vector<Line> lines;
  StreamCounters counters;
};
Read read_text(const std::string& text, SampleStreamSpec spec) {
  const TemporaryDirectory dir;
  write_plain(dir.file("log"), text);
  spec.path = dir.file("log");
  spec.shuffle = false;
  spec.max_bad = 1000;
  const auto stream = open_samples(spec);
  Read out;
  for (SparseBatch batch; stream->next(64, false, batch);)
    for (std::size_t b = 0; b < batch.size(); ++b) {
      Line line{batch.labels()[b], {}};
      for (std::size_t e = batch.begins()[b]; e < batch.begins()[b + 1]; ++e)
        line.entries.push_back({batch.keys()[batch.index()[e]], batch.fields()[e], batch.values()[e]});
      out.lines.push_back(line);
    }
  out.counters = stream->counters();
  for (std::string& message : out.counters.bad) message = message.substr(message.find("log:") + 4);
  return out;
}

/// "line:column: what" of the only bad line.
std::string fault(const std::string& text, const SampleStreamSpec& spec) {
  const Read read = read_text(text, spec);
  REQUIRE(read.counters.bad_lines == 1);
  return read.counters.bad.at(0);
}

std::string random_number(std::mt19937_64& random) {
  const double magnitude = std::pow(10.0, static_cast<double>(random() % 20) - 8);
  const double value = (static_cast<double>(random() % 2000001) / 1e6 - 1) * magnitude;
  char text[64];
  const char* forms[] = {"%.0f", "%.3f", "%.9g", "%e", "%.17g", "%+.4f", "1", "%.1f"};
  std::snprintf(text, sizeof text, forms[random() % 8], value);
  return text;
}

float plain_number(const std::string& text) { return static_cast<float>(std::stod(text)); }

}  // namespace

TEST_CASE("scanners of numbers agree with the standard library") {
  std::mt19937_64 random(3);
  for (int i = 0; i < 100000; ++i) {
    const std::uint64_t n = random() >> (random() % 64);
    const std::string text = std::to_string(n) + ":" + std::string(kTextPadding, '9');
    std::uint64_t got = 0;
    const char* after = scan_digits(text.data(), got);
    REQUIRE(got == n);
    REQUIRE(*after == ':');
    const std::string number = random_number(random);
    const std::string padded = number + std::string(kTextPadding, '\0');
    float value = 0;
    INFO(number);
    REQUIRE(scan_value(padded.data(), padded.data() + number.size(), value) == padded.data() + number.size());
    REQUIRE(value == plain_number(number));
  }
  std::uint64_t n = 0;
  CHECK(scan_digits("18446744073709551615       ", n) != nullptr);
  CHECK(n == UINT64_MAX);
  CHECK(scan_digits("18446744073709551616       ", n) == nullptr);
  CHECK(scan_digits("x1234567890", n)[0] == 'x');
  for (const std::string bad :
       {"", "-", "+", ".", "e5", "inf", "nan", "-inf", "+-1", "1e99", "--1", "1e400"}) {
    const std::string padded = bad + std::string(kTextPadding, '\0');
    float value = 0;
    INFO(bad);
    CHECK(scan_decimal(padded.data(), padded.data() + bad.size(), value) == nullptr);
  }
  const std::string zeros(400, '0');
  for (const auto& [text, nearest] :
       std::vector<std::pair<std::string, float>>{{"1e-400", 0.0f},
                                                  {"-1e-400", -0.0f},
                                                  {"12.5E-99999999999999999999", 0.0f},
                                                  {"0." + zeros + "1", 0.0f},
                                                  {"1" + zeros + "e-900", 0.0f},
                                                  {"3.4028235e38", FLT_MAX},
                                                  {"-3.40282356e38", -FLT_MAX}}) {
    const std::string padded = text + std::string(kTextPadding, '\0');
    float value = 7;
    INFO(text);
    CHECK(scan_decimal(padded.data(), padded.data() + text.size(), value) == padded.data() + text.size());
    CHECK(value == nearest);
    CHECK(std::signbit(value) == std::signbit(nearest));
  }
  for (const std::string& huge : {"1" + zeros, "1" + zeros + "e-10", std::string("3.40282357e38"),
                                  "0." + zeros + "1e900", std::string("1e+99999999999999999999")}) {
    const std::string padded = huge + std::string(kTextPadding, '\0');
    float value = 0;
    INFO(huge);
    CHECK(scan_decimal(padded.data(), padded.data() + huge.size(), value) == nullptr);
  }
}

TEST_CASE("libsvm, libffm and vw agree with plain parsers on random lines") {
  for (const std::string format : {"libsvm", "libffm", "vw"}) {
    std::mt19937_64 random(4);
    std::string text;
    std::vector<Line> expected;
    for (int i = 0; i < 5000; ++i) {
      const bool click = random() % 3 == 0;
      Line line{click ? 1.0f : 0.0f, {}};
      text += click ? (random() % 2 ? "+1" : "1") : format == "vw" || random() % 2 ? "-1" : "0";
      if (format == "vw") text += " |ns";
      for (std::size_t e = random() % 6; e > 0; --e) {
        const std::uint64_t key = (random() % 2 ? random() : random() % 1000) >> 1;
        const auto field = static_cast<std::uint32_t>(format == "libffm" ? random() % 40 : 0);
        const std::string number = random_number(random);
        text += random() % 5 ? " " : " \t ";
        if (format == "libffm") text += std::to_string(field) + ":";
        text += std::to_string(key) + ":" + number;
        line.entries.push_back({key, field, plain_number(number)});
      }
      text += random() % 7 == 0 ? " \r\n" : random() % 5 == 0 ? "\n\n" : "\n";
      expected.push_back(line);
    }
    Read read = read_text(text, {.format = format, .namespaces = {"ns"}});
    CHECK(read.counters.bad_lines == 0);
    REQUIRE(read.lines.size() == expected.size());
    if (format == "vw") {  // whose keys are hashes: equal names, equal keys
      std::map<std::uint64_t, std::uint64_t> names;
      for (std::size_t i = 0; i < expected.size(); ++i) {
        REQUIRE(read.lines[i].entries.size() == expected[i].entries.size());
        for (std::size_t e = 0; e < expected[i].entries.size(); ++e) {
          std::uint64_t& key = read.lines[i].entries[e].key;
          REQUIRE(names.try_emplace(key, expected[i].entries[e].key).first->second ==
                  expected[i].entries[e].key);
          key = expected[i].entries[e].key;
        }
      }
    }
    CHECK(read.lines == expected);
  }
}

TEST_CASE("libsvm: lines that begin with entries of value 1 go on with any") {
  const std::uint64_t most = 18446744073709551614U, digits19 = 9999999999999999999U;
  const Read read = read_text(
      "1 3:1 0:1 9999999999999999999:1 18446744073709551614:1 7:1 8:1\n"
      "-1 3:1 4:1 \r\n+1   2:1 5:1\t6:10 7:1 \n0 1:1 2:1.5 # 3:1 \n1 3:1 # 4:1 \n"
      "\t1 5:1 6:1\n\t0 7:1 8:1 \n 1 9:1 7:1\n1 4:1 12",
      {.format = "libsvm"});
  CHECK(read.lines ==
        std::vector<Line>{{1, {{3, 0, 1}, {0, 0, 1}, {digits19, 0, 1}, {most, 0, 1}, {7, 0, 1}, {8, 0, 1}}},
                          {0, {{3, 0, 1}, {4, 0, 1}}},
                          {1, {{2, 0, 1}, {5, 0, 1}, {6, 0, 10}, {7, 0, 1}}},
                          {0, {{1, 0, 1}, {2, 0, 1.5f}}},
                          {1, {{3, 0, 1}}},
                          {1, {{5, 0, 1}, {6, 0, 1}}},
                          {0, {{7, 0, 1}, {8, 0, 1}}},
                          {1, {{9, 0, 1}, {7, 0, 1}}}});
  CHECK(read.counters.bad ==
        std::vector<std::string>{"9:9: found the end of the line, expected index:value"});
  CHECK(fault("1 3:1 18446744073709551615:1 \n", {}) ==
        "1:7: found \"18446744073709551615:1\", expected an index of at most 18446744073709551614");
}

TEST_CASE("libsvm: lines of any length of mostly entries of value 1, and some that are others") {
  std::mt19937_64 random(5);
  const auto one_in = [&](std::uint64_t n) { return random() % n == 0; };
  std::string text;
  std::vector<Line> expected;
  for (int i = 0; i < 4000; ++i) {
    text += one_in(3) ? "1" : one_in(2) ? "-1" : "0";
    Line line{text.back() == '1' && !text.ends_with("-1") ? 1.0f : 0.0f, {}};
    const std::uint64_t most_digits = 1 + random() % (one_in(4) ? 19 : 9);
    for (std::uint64_t e = random() % 40; e > 0; --e) {
      std::string index(1 + random() % most_digits, '0');
      for (char& digit : index) digit = static_cast<char>('0' + random() % 10);  // zeros before it, too
      const std::string value = !one_in(50) ? "1" : one_in(2) ? "1.5" : "10";
      text += (one_in(100) ? one_in(2) ? "\t" : "  " : " ") + index + ":" + value;
      line.entries.push_back({std::stoull(index), 0, plain_number(value)});
    }
    text += one_in(20) ? " # 7:1 \n" : one_in(10) ? "\r\n" : one_in(2) ? " \n" : "\n";
    expected.push_back(line);
  }
  text.pop_back();
  const Read read = read_text(text, {});
  CHECK(read.counters.bad == std::vector<std::string>{});
  CHECK(read.lines == expected);
}

TEST_CASE("libsvm: what stands beside entries of value 1 is read as beside others, damaged or not") {
  std::mt19937_64 random(6);
  const std::string blanks = " \t\r\n", characters = blanks + ":01239#+-x.";
  std::string text;
  for (int i = 0; i < 3000; ++i) {
    std::string line = random() % 3 ? "1" : "-1";
    const std::uint64_t most_digits = 1 + random() % 10;
    const bool tab = random() % 5 == 0;  // behind the label; such a line is read by itself
    for (std::uint64_t e = random() % 30; e > 0; --e)
      line += (tab && line.size() < 3 ? "\t" : " ") +
              std::to_string(random() % static_cast<std::uint64_t>(std::pow(10, most_digits))) +
              (tab && e % 3 == 0 ? ":0.5" : ":1");
    line += random() % 3 ? " \n" : "\n";
    if (random() % 3 == 0) line.insert(random() % line.size(), 1, characters[random() % characters.size()]);
    text += line;
  }
  std::string others;  // with 1.0 in place of 1
  for (std::size_t i = 0; i < text.size(); ++i) {
    others += text[i];
    if (i > 0 && text[i] == '1' && text[i - 1] == ':' && blanks.find(text[i + 1]) != blanks.npos)
      others += ".0";
  }
  const Read ones = read_text(text, {}), read = read_text(others, {});
  CHECK(ones.counters.bad_lines > 200);
  CHECK(ones.counters.bad_lines == read.counters.bad_lines);
  CHECK(ones.lines == read.lines);
  for (const double alpha : {0.0, 1.0}) {  // lines of others are not read, or are but not kept
    std::vector<Line> shared, all = ones.lines;
    std::uint64_t bad_lines = 0;
    for (std::size_t peer = 0; peer < 3; ++peer) {
      const Read its = read_text(text, {.peer = peer, .peers = 3, .alpha = alpha});
      CHECK(its.lines.size() > 100);
      bad_lines += its.counters.bad_lines;
      shared.insert(shared.end(), its.lines.begin(), its.lines.end());
    }
    CHECK(bad_lines == ones.counters.bad_lines);
    std::sort(shared.begin(), shared.end());
    std::sort(all.begin(), all.end());
    CHECK(shared == all);
  }
}

TEST_CASE("libsvm: what is read many lines at a time is read as line by line") {
  struct Row {
    std::uint64_t position;
    Line line;
    bool operator==(const Row&) const = default;
  };
  const auto read = [](const std::string& text, const SampleStreamSpec& spec, std::vector<Row>& rows) {
    const TextPiece piece = piece_of(text);
    const auto format = make_line_format({});
    SampleBlock block(text.size(), format->most_entries(piece), false);
    format->parse(piece, SampleShare(spec), block);
    for (std::size_t i = 0; i < block.rows(); ++i) {
      const Sample sample = block.at(i);
      rows.push_back({sample.position, {sample.label, {}}});
      for (std::size_t e = 0; e < sample.keys.size(); ++e)
        rows.back().line.entries.push_back({sample.keys[e], 0, sample.values[e]});
    }
    return block.bad_lines;
  };
  const std::string labels[] = {"1", "0", "-1", "+1", " 1", "\t0", ""},
                    ends[] = {"\n", " \n", "\r\n", "\n\n"};
  const std::string characters = " :01239\n\r\t+-#x.\xC3";
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    std::mt19937_64 random(seed);
    const auto one_of = [&](const auto& all) { return all[random() % std::size(all)]; };
    std::string text;
    for (std::uint64_t lines = random() % 30; lines > 0; --lines) {
      std::string line = one_of(labels);
      for (std::uint64_t e = random() % (seed % 2 ? 6 : 40); e > 0; --e)
        line += " " + std::to_string(random() >> (64 - random() % 34 - 1)) + (random() % 50 ? ":1" : ":2.5");
      if (random() % 8 == 0 && !line.empty()) line[random() % line.size()] = one_of(characters);
      text += line + one_of(ends);
    }
    if (random() % 2 && !text.empty()) text.pop_back();
    std::vector<Row> all, shared;
    const std::uint64_t bad = read(text, {}, all);
    std::uint64_t shared_bad = 0;
    for (std::size_t peer = 0; peer < 2; ++peer) shared_bad += read(text, {.peer = peer, .peers = 2}, shared);
    std::sort(shared.begin(), shared.end(),
              [](const Row& a, const Row& b) { return a.position < b.position; });
    INFO(seed);
    REQUIRE(bad == shared_bad);
    REQUIRE(shared == all);
  }
}

TEST_CASE("libsvm: a text may end anywhere in its last line") {
  std::string text = "1 12345:1\n0 1:1 234:2 \n1";
  while (text.size() < 250) text += " 1:1 234:1";
  for (std::size_t size = 1; size < text.size(); ++size) {
    INFO(size);
    const Read read = read_text(text.substr(0, size), {});
    const auto breaks = static_cast<std::size_t>(std::count(text.begin(), text.begin() + size, '\n'));
    CHECK(read.lines.size() + read.counters.bad_lines == breaks + (text[size - 1] != '\n'));
    CHECK(read.counters.bad_lines <= 1);
  }
}

TEST_CASE("bad lines of libsvm and libffm say where and what was expected") {
  const SampleStreamSpec svm{}, ffm{.format = "libffm"};
  CHECK(fault("1 1:1\n2 3:4\n", svm) == "2:1: found \"2\", expected a label: 1, 0 or -1");
  CHECK(fault("1:1 2:1\n", svm) == "1:1: found \"1:1\", expected a label: 1, 0 or -1");
  CHECK(fault("1 3\n", svm) == "1:4: found the end of the line, expected index:value");
  CHECK(fault("1 3:\n", svm) == "1:5: found the end of the line, expected a finite number");
  CHECK(fault("1 qid:3 3:1\n", svm) == "1:3: found \"qid:3\", expected index:value");
  CHECK(fault("1 3:4 -7:1\n", svm) == "1:7: found \"-7:1\", expected index:value");
  CHECK(fault("1 3:4x 7:1\n", svm) == "1:5: found \"4x\", expected a finite number");
  CHECK(fault("1 3:1 4:1\n1 3:1 :1 4:1\n", svm) == "2:7: found \":1\", expected index:value");
  CHECK(fault("1 3:1 4:1\n1 3:1 4:1\r5:1\n", svm) == "2:9: found \"1\\x0d5:1\", expected a finite number");
  CHECK(fault("1 3:nan\n", svm) == "1:5: found \"nan\", expected a finite number");
  CHECK(fault("1 3:1:2\n", svm) == "1:5: found \"1:2\", expected a finite number");
  CHECK(fault("\n\n1 18446744073709551615:1\n", svm) ==
        "3:3: found \"18446744073709551615:1\", expected an index of at most 18446744073709551614");
  CHECK(fault("1 99999999999999999999:1\n", svm).find("1:3: found \"99999999999999999999:1\"") == 0);
  CHECK(fault("1 3:4:1 7:1\n", ffm) == "1:12: found the end of the line, expected field:index:value");
  CHECK(fault("1 3:4:1 20000000:7:1\n", ffm) ==
        "1:9: found \"20000000:7:1\", expected a field of at most 16777216");
  CHECK(fault("1 3::1\n", ffm) == "1:5: found \":1\", expected field:index:value");
  const Read comments = read_text("# all\n1 2:3 # 4:x\n  \n0#\n", svm);
  CHECK(comments.lines == std::vector<Line>{{1, {{2, 0, 3}}}});
  CHECK(comments.counters.bad == std::vector<std::string>{"4:1: found \"0#\", expected a label: 1, 0 or -1"});
  CHECK(read_text("\xEF\xBB\xBF-1 2:3", svm).lines == std::vector<Line>{{0, {{2, 0, 3}}}});
}

TEST_CASE("vw: labels, importance, tags, namespaces with weights, names alone") {
  const SampleStreamSpec spec{.format = "vw", .namespaces = {"", "user", "ad"}};
  const Read read = read_text(
      "1 |user a b:2 |ad:0.5 a c:4\n"
      "-1 1 'tag|ad a\n"
      "-1 1.0 0 tag| a\n"
      "0 'tag |\n"
      "1\n",
      spec);
  REQUIRE(read.counters.bad.empty());
  REQUIRE(read.lines.size() == 5);
  const auto& first = read.lines[0].entries;
  REQUIRE(first.size() == 4);
  CHECK(std::vector<float>{first[0].value, first[1].value, first[2].value, first[3].value} ==
        std::vector<float>{1, 2, 0.5f, 2});
  CHECK((first[0].field == 1 && first[1].field == 1 && first[2].field == 2 && first[3].field == 2));
  CHECK(first[0].key != first[2].key);
  CHECK(read.lines[1] == Line{0, {{first[2].key, 2, 1}}});
  CHECK((read.lines[2].entries.size() == 1 && read.lines[2].entries[0].field == 0));
  CHECK((read.lines[3].entries.empty() && read.lines[4] == Line{1, {}}));
  CHECK(fault("3 | a\n", spec) == "1:1: found \"3\", expected a label: 1, -1 or 0");
  CHECK(fault("| a\n", spec) == "1:1: found \"|\", expected a label: 1, -1 or 0");
  CHECK(fault("1 2 | a\n", spec) == "1:3: found \"2\", expected | and features, or importance 1");
  CHECK(fault("1 1 .5 | a\n", spec) == "1:5: found \".5\", expected | and features, or base 0");
  CHECK(fault("1 'tag x | a\n", spec) == "1:8: found \"x\" after the tag \"'tag\", expected |");
  CHECK(fault("1 | a :3\n", spec) == "1:7: found \":3\", expected a feature's name");
  CHECK(fault("1 | a:b\n", spec) == "1:7: found \"b\", expected a finite number");
  CHECK(fault("1 |shop a\n", spec) == "1:4: found namespace \"shop\", expected one of namespaces");
  CHECK(read_text("1 |shop a |user b\n", {.format = "vw", .fields = 1}).lines[0].entries[1].field == 0);
}

TEST_CASE("csv: header, text columns, quotes, empty fields") {
  SampleStreamSpec spec{.format = "csv", .label = "click"};
  const std::string text =
      "click,site,price,\"the \"\"ad\"\"\"\n1,a.com,2.5,x\n0,\"b,com\",0,\n0, a.com ,,\"a \"\"x\"\"\"\n";
  const Read read = read_text(text, spec);
  REQUIRE(read.counters.bad.empty());
  REQUIRE(read.lines.size() == 3);
  const auto &a = read.lines[0].entries, &b = read.lines[1].entries, &c = read.lines[2].entries;
  REQUIRE((a.size() == 3 && b.size() == 1 && c.size() == 2));
  CHECK((a[0].field == 0 && a[1].field == 1 && a[2].field == 2 && a[1].value == 2.5f));
  CHECK((c[0] == a[0] && b[0].key != a[0].key && c[1].key != a[2].key && c[1].field == 2));
  CHECK(read.lines[0].label == 1);
  CHECK(fault(text + "2,a,1,x\n", spec) == "5:1: found \"2\", expected a label: 1, 0 or -1");
  CHECK(fault(text + "0,a,1\n", spec) == "5:6: found 3 fields, expected 4 in a row");
  CHECK(fault(text + "0,a,1,x,\n", spec) == "5:8: found more fields, expected 4 in a row");
  CHECK(fault(text + "0,a,cheap,x\n", spec) ==
        "5:5: found \"cheap\", expected a finite number; name the column in text where it is none");
  CHECK(fault(text + ",a,1,x\n", spec) == "5:1: found an empty field, expected a label: 1, 0 or -1");
  CHECK(fault(text + "0,a,1,\"x\n", spec) ==
        "5:7: found a quote that is not closed on its line, expected one more \"");
  CHECK(fault(text + "0,a\"b,1,x\n", spec) ==
        "5:4: found a quote within a field, expected quotes around the field and this one twice");
  CHECK(fault(text + "0,\"a\"b,1,x\n", spec) ==
        "5:6: found \"b\" after the closing quote, expected the next field");
  spec.text = {"price", "1"};
  CHECK(read_text(text, spec).lines.at(0).entries.at(1).value == 1);  // the text "0"
  spec.text = {"prize"};
  CHECK(message_of([&] { read_text(text, spec); }).find("data.text: found \"prize\", expected a column") !=
        std::string::npos);
  const Read tabs = read_text("x\t\t1\ny\t3\t0\n", {.format = "csv", .label = "last", .text = {"0"}});
  REQUIRE(tabs.lines.size() == 2);
  CHECK((tabs.lines[0].entries.size() == 1 &&
         tabs.lines[1].entries[1] == Entry{tabs.lines[1].entries[1].key, 1, 3}));
  CHECK(read_text("1\ta\t\n0\t\tb\n", {.format = "csv", .label = "first"}).lines.size() == 2);
}

}  // namespace gossamer::optim::test
