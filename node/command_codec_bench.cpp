#include <array>
#include <cmath>
#include <iomanip>
#include <iostream>
#include <new>

#include "codec_speed.h"
#include "command_codec.h"
#include "commands.h"
#include "gossamer/node/job.h"
#include "text.h"

namespace gossamer::node {
namespace {

struct Options {
  std::vector<std::string> codecs;
  std::string sizes = "64Ki,1Mi,16Mi";
  std::size_t threads = 1;
  bool json = false;
};

using Codecs = std::vector<std::unique_ptr<const compress::Codec>>;

struct Row {
  std::string codec;
  CodecSpeed speed;
  CodecFloor floor;
};

/// One size.
struct Table {
  std::size_t entries;
  MemoryLimits limits;
  std::vector<Row> rows;
};

std::vector<std::size_t> sizes_of(const Options& options) {
  std::vector<std::size_t> sizes;
  std::string_view rest = options.sizes;
  while (true) {
    const std::size_t comma = rest.find(',');
    sizes.push_back(count_of("--size", std::string(rest.substr(0, comma))));
    if (sizes.back() < options.threads)
      throw ConfigError("--size " + std::string(rest.substr(0, comma)) + ": fewer entries than --threads " +
                        std::to_string(options.threads));
    if (comma == std::string_view::npos) return sizes;
    rest.remove_prefix(comma + 1);
  }
}

/// Memory is measured before and after the codecs, as other work on the machine comes and goes.
Table measure(const Codecs& codecs, std::size_t entries, std::size_t threads) {
  const auto memory = [&] {
    std::cerr << entries << " entries: memory" << std::endl;
    return measure_memory(entries, threads);
  };
  Table table{entries, memory(), {}};
  const AlignedFloats x = laplacian(entries);
  for (const auto& codec : codecs) {
    std::cerr << entries << " entries: " << codec->spec() << std::endl;
    table.rows.push_back({codec->spec(), measure_codec(*codec, x, threads), {}});
  }
  table.limits = larger(table.limits, memory());
  for (Row& row : table.rows) row.floor = codec_floor(row.speed, table.limits);
  return table;
}

nlohmann::ordered_json speed_json(double speed, double floor) {
  return {{"gb_per_s", number_or_null(speed)},
          {"floor_gb_per_s", number_or_null(floor)},
          {"percent_of_floor", number_or_null(100 * speed / floor)}};
}

nlohmann::ordered_json table_json(const Table& table) {
  auto rows = nlohmann::ordered_json::array();
  for (const auto& [codec, speed, floor] : table.rows)
    rows.push_back({{"codec", codec},
                    {"bits_per_entry", 8 * speed.bytes_per_entry},
                    {"encode", speed_json(speed.encode, floor.encode)},
                    {"encode_feedback", speed_json(speed.feedback, floor.feedback)},
                    {"decode", speed_json(speed.decode, floor.decode)},
                    {"decode_add", speed_json(speed.decode_add, floor.decode_add)}});
  return {{"entries", table.entries},
          {"memory_gb_per_s",
           {{"read", table.limits.read},
            {"write", table.limits.write},
            {"read_modify_write", table.limits.modify},
            {"feedback", table.limits.feedback}}},
          {"codecs", rows}};
}

std::string with_percent(double speed, double floor) {
  if (std::isnan(speed)) return "-";
  return figure_text(std::round(speed * 100) / 100) + " (" + figure_text(std::round(100 * speed / floor)) +
         "%)";
}

void print_text(const Table& table) {
  std::size_t width = 24;
  for (const Row& row : table.rows) width = std::max(width, row.codec.size());
  const auto line = [&](const std::string& first, const std::array<std::string, 5>& columns) {
    std::cout << std::left << std::setw(static_cast<int>(width) + 2) << first << std::right << std::setw(7)
              << columns[0];
    for (std::size_t i = 1; i < columns.size(); ++i) std::cout << std::setw(16) << columns[i];
    std::cout << '\n';
  };
  const auto rounded = [](double speed) { return figure_text(std::round(speed * 10) / 10); };
  const MemoryLimits& limits = table.limits;
  std::cout << '\n' << table.entries << " entries\n";
  line("", {"BITS", "ENCODE", "WITH FEEDBACK", "DECODE", "DECODE-ADD"});
  line("this machine's memory",
       {"", rounded(limits.read), rounded(limits.feedback), rounded(limits.write), rounded(limits.modify)});
  for (const auto& [codec, speed, floor] : table.rows)
    line(codec, {figure_text(8 * speed.bytes_per_entry), with_percent(speed.encode, floor.encode),
                 with_percent(speed.feedback, floor.feedback), with_percent(speed.decode, floor.decode),
                 with_percent(speed.decode_add, floor.decode_add)});
}

void print_notes(std::size_t threads) {
  std::cout
      << "\nGB/s of fp32 input, medians, " << threads << (threads == 1 ? " thread" : " threads")
      << ", Laplacian entries. Memory: x read; g read, e read and written; y written; y read and written."
         "\nIn brackets: per cent of what a codec would reach that touched each byte it must once.\n";
}

void bench(const Options& options) {
  const Codecs codecs = codecs_of(options.codecs);
  const std::vector<std::size_t> sizes = sizes_of(options);
  auto tables = nlohmann::ordered_json::array();
  for (const std::size_t entries : sizes) {
    try {
      const Table table = measure(codecs, entries, options.threads);
      options.json ? tables.push_back(table_json(table)) : print_text(table);
    } catch (const std::bad_alloc&) {
      throw ConfigError("--size: no memory for " + std::to_string(entries) + " entries");
    }
    std::cout.flush();
  }
  if (!options.json) return print_notes(options.threads);
  const nlohmann::ordered_json out{{"threads", options.threads}, {"data", "laplacian"}, {"sizes", tables}};
  std::cout << out.dump(2) << '\n';
}

}  // namespace

void add_codec_bench(CLI::App& codec, int& status) {
  CLI::App* command = codec.add_subcommand(
      "bench",
      "Speed of codecs beside what this machine's memory allows.\n\n"
      "Feedback is measured of contractive codecs alone; decode is into zeros and fills them in; "
      "decode-add adds to a vector.");
  const auto options = std::make_shared<Options>();
  command->add_option("--codec", options->codecs, "Codec to measure; repeatable; default: every codec")
      ->allow_extra_args(false);
  command
      ->add_option("--size", options->sizes,
                   "Entries of the vector, several with commas (k, M, G; Ki, Mi, Gi)")
      ->capture_default_str();
  command
      ->add_option("--threads", options->threads,
                   "Threads that work at once, each on its share of the vector as a message of its own")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_flag("--json", options->json, "Print one JSON object");
  command->callback([options, &status] {
    bench(*options);
    status = kExitOk;
  });
}

}  // namespace gossamer::node
