#pragma once
// These tables hold what `gossamer codec bench` has measured, and print it.
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "codec_speed.h"

namespace gossamer::node {

struct Setting {
  std::size_t threads;
  std::string instruction_set;  ///< empty = the best
};

/// One codec in one setting.
struct BenchRun {
  CodecSpeed speed;
  CodecFloor floor;  ///< for as many threads
};
struct BenchRow {
  std::string codec;
  std::vector<BenchRun> runs;  ///< one each setting; the first is what the others are compared with
};
/// All codecs on vectors of one length.
struct BenchTable {
  std::size_t entries;
  std::vector<MemoryLimits> limits;  ///< one each setting
  std::vector<BenchRow> rows;
};

nlohmann::ordered_json to_json(const BenchTable& table, const std::vector<Setting>& settings);
void print_text(const BenchTable& table, const std::vector<Setting>& settings);
/// What the figures mean.
void print_bench_notes(bool several_settings);

}  // namespace gossamer::node
