// By hand: bench_contests [ENTRIES ...]. Codecs against plain loops that do the same (scalar loops,
// nth_element, 8-bit radix select), in turn and on the same vectors; and top-k on inputs that slow others
// down. GB/s of fp32 input, medians, one thread. bench_reference says whether the plain loops are as fast as
// they should be.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <string>
#include <vector>

#include "codec_contest.h"
#include "text.h"

using namespace gossamer::node;

namespace {

struct Table {
  std::size_t entries;
  std::vector<Contest> contests;
  std::vector<Awkward> awkward;
};

std::string number(double value, double grain) { return figure_text(std::round(value / grain) * grain); }

void print_contests(const Table& table) {
  if (table.contests.empty()) return;
  std::size_t width = 0;
  for (const Contest& c : table.contests)
    width = std::max(width, c.operation.size() + c.reference.size() + 9);
  const auto line = [&](const std::string& what, const std::string& a, const std::string& b,
                        const std::string& ratio) {
    std::cout << std::left << std::setw(static_cast<int>(width) + 2) << what << std::right << std::setw(10)
              << a << std::setw(10) << b << std::setw(10) << ratio << '\n';
  };
  std::cout << '\n' << table.entries << " entries, against plain references\n";
  line("", "CODEC", "PLAIN", "RATIO");
  for (const Contest& c : table.contests)
    line(c.operation + " against " + c.reference, number(c.speed, 0.01), number(c.reference_speed, 0.01),
         "x" + number(c.ratio(), 0.1));
}

void print_awkward(const Table& table) {
  if (table.awkward.empty()) return;
  std::cout << '\n'
            << table.entries << " entries, time of encode on awkward inputs over that on Laplacian entries\n";
  std::vector<std::string> codecs, inputs;
  const auto add = [](std::vector<std::string>& names, const std::string& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  std::size_t width = 0;
  for (const Awkward& a : table.awkward) {
    add(codecs, a.codec);
    add(inputs, a.input);
    width = std::max(width, a.codec.size());
  }
  const auto start = [&](const std::string& name) {
    std::cout << std::left << std::setw(static_cast<int>(width) + 2) << name << std::right;
  };
  start("");
  for (const std::string& input : inputs) std::cout << std::setw(18) << input;
  for (const std::string& codec : codecs) {
    std::cout << '\n';
    start(codec);
    for (const Awkward& a : table.awkward) {
      if (a.codec == codec) std::cout << std::setw(18) << "x" + number(a.times, 0.01);
    }
  }
  std::cout << '\n';
}

}  // namespace

int main(int count, char** words) {
  std::vector<std::size_t> sizes;
  for (int i = 1; i < count; ++i) {
    const auto entries = parse_count(words[i]);
    if (!entries) {
      std::cerr << "bench_contests: " << words[i] << ": expected a number of entries such as 64Ki\n";
      return 2;
    }
    sizes.push_back(*entries);
  }
  if (sizes.empty()) sizes = {std::size_t{1} << 20, std::size_t{16} << 20};
  const auto every = [](std::string_view) { return true; };
  for (const std::size_t entries : sizes) {
    const auto say = [&](const std::string& what) { std::cerr << entries << " entries: " << what << '\n'; };
    const Table table{entries, compare_with_reference(entries, every, say),
                      bench_adversarial(entries, every, say)};
    print_contests(table);
    print_awkward(table);
  }
}
