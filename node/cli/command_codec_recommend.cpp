#include <algorithm>
#include <array>
#include <iomanip>
#include <iostream>
#include <new>
#include <utility>

#include "codec_speed.h"
#include "command_codec.h"
#include "commands.h"
#include "gossamer/node/job.h"
#include "text.h"

namespace gossamer::node {
namespace {

constexpr std::size_t kLargestMeasured = std::size_t{8} << 20;  // entries: beyond it speeds hardly change

struct RecommendOptions {
  std::vector<std::string> codecs;
  std::string bandwidth, size;
  bool json = false;
};

struct Row {
  std::string codec;
  MessageSpeed speed;
  double encode_s, transfer_s, decode_s;
  double seconds() const { return encode_s + transfer_s + decode_s; }
  /// Bit/s below which this codec is faster than dense: where 1/encode + 1/decode + ratio/b = 1/b.
  double pays_below() const {
    const double ratio = speed.bytes_per_entry / 4;
    const double per_byte = 1e-9 * (1 / speed.encode + 1 / speed.decode);
    return std::max(0.0, 8 * (1 - ratio) / per_byte);
  }
};

struct Ranking {
  double bandwidth;      ///< bit/s
  std::size_t entries;   ///< of the message
  std::size_t measured;  ///< of the vector that the speeds were measured on
  double dense_s;
  std::vector<Row> rows;  ///< fastest first
  bool dense_is_best() const { return rows.empty() || rows.front().seconds() >= dense_s; }
};

Row row_of(const compress::Codec& codec, std::span<const float> x, const Ranking& ranking) {
  const MessageSpeed speed = measure_message(codec, x);
  const auto entries = static_cast<double>(ranking.entries);
  return {codec.spec(), speed, 4e-9 * entries / speed.encode,
          8 * entries * speed.bytes_per_entry / ranking.bandwidth, 4e-9 * entries / speed.decode};
}

Ranking rank(const RecommendOptions& options) {
  const auto bandwidth = parse_bandwidth(options.bandwidth);
  if (!bandwidth || !(*bandwidth > 0))
    throw ConfigError("--bandwidth " + options.bandwidth +
                      ": expected a bandwidth such as 100mbit or 1.5gbit");
  const std::size_t entries = count_of("--size", options.size);
  Ranking ranking{*bandwidth,
                  entries,
                  std::min(entries, kLargestMeasured),
                  32 * static_cast<double>(entries) / *bandwidth,
                  {}};
  const auto codecs = codecs_of(options.codecs);
  const AlignedFloats x = laplacian(ranking.measured);
  for (const auto& codec : codecs) {
    if (codec->traits().exact) continue;  // the yardstick: sent as it lies in memory
    std::cerr << "measuring " << codec->spec() << std::endl;
    ranking.rows.push_back(row_of(*codec, x, ranking));
  }
  std::stable_sort(ranking.rows.begin(), ranking.rows.end(),
                   [](const Row& a, const Row& b) { return a.seconds() < b.seconds(); });
  return ranking;
}

void print_json(const Ranking& ranking) {
  auto rows = nlohmann::ordered_json::array();
  for (const Row& row : ranking.rows)
    rows.push_back({{"codec", row.codec},
                    {"seconds", row.seconds()},
                    {"encode_seconds", row.encode_s},
                    {"transfer_seconds", row.transfer_s},
                    {"decode_seconds", row.decode_s},
                    {"bits_per_entry", 8 * row.speed.bytes_per_entry},
                    {"relative_error", number_or_null(row.speed.relative_error)},
                    {"encode_gb_per_s", row.speed.encode},
                    {"decode_gb_per_s", row.speed.decode},
                    {"faster_than_dense", row.seconds() < ranking.dense_s},
                    {"pays_below_bit_per_s", row.pays_below()}});
  const nlohmann::ordered_json out{
      {"bandwidth", ranking.bandwidth},
      {"entries", ranking.entries},
      {"measured_entries", ranking.measured},
      {"data", "laplacian"},
      {"best", ranking.dense_is_best() ? compress::kDense : ranking.rows.front().codec},
      {"dense_seconds", ranking.dense_s},
      {"codecs", rows}};
  std::cout << out.dump(2) << '\n';
}

using Figures = std::array<std::string, 7>;

void print_figures(std::size_t width, const std::string& codec, const Figures& columns) {
  std::cout << std::left << std::setw(static_cast<int>(width) + 2) << codec << std::right;
  for (const std::string& column : columns) std::cout << std::setw(12) << column;
  std::cout << '\n';
}

std::string round_bandwidth_text(double bits_per_second) {
  return bits_per_second > 0 ? bandwidth_text(rounded(bits_per_second, 2)) : "never";
}

void print_text(const Ranking& ranking) {
  std::size_t width = 6;
  for (const Row& row : ranking.rows) width = std::max(width, row.codec.size());
  print_figures(width, "CODEC",
                {"SECONDS", "ENCODE", "TRANSFER", "DECODE", "BITS", "REL. ERROR", "PAYS BELOW"});
  const auto dense_line = [&] {
    const std::string seconds = figure_text(ranking.dense_s);
    print_figures(width, compress::kDense, {seconds, "-", seconds, "-", "32", "0", "-"});
  };
  bool dense_stands = false;
  for (const Row& row : ranking.rows) {
    if (row.seconds() >= ranking.dense_s && !std::exchange(dense_stands, true)) dense_line();
    print_figures(width, row.codec,
                  {figure_text(row.seconds()), figure_text(row.encode_s), figure_text(row.transfer_s),
                   figure_text(row.decode_s), figure_text(8 * row.speed.bytes_per_entry),
                   figure_text(row.speed.relative_error), round_bandwidth_text(row.pays_below())});
  }
  if (!dense_stands) dense_line();
  std::cout << '\n';
  if (ranking.dense_is_best())
    std::cout << "Best: dense. At " << bandwidth_text(ranking.bandwidth)
              << " none of these codecs saves as much transfer as it takes time.\n";
  else
    std::cout << "Best: " << ranking.rows.front().codec << ", "
              << figure_text(ranking.dense_s / ranking.rows.front().seconds())
              << " times as fast as dense.\n";
  std::cout << "Seconds for one message of " << ranking.entries << " entries: encode, send at "
            << bandwidth_text(ranking.bandwidth) << ", decode; dense is sent as it lies in memory.\n"
            << "Speeds measured now, one thread, " << ranking.measured
            << " Laplacian entries. What the error costs in rounds only a run can tell.\n";
}

void recommend(const RecommendOptions& options) {
  try {
    const Ranking ranking = rank(options);
    options.json ? print_json(ranking) : print_text(ranking);
  } catch (const std::bad_alloc&) {
    throw ConfigError("no memory to measure these codecs with");
  }
}

}  // namespace

void add_codec_recommend(CLI::App& codec, int& status) {
  CLI::App* command = codec.add_subcommand(
      "recommend",
      "Ranks codecs by the time of one message over a link.\n\n"
      "Time = size/encode + payload/bandwidth + size/decode, one after the other, with speeds measured on "
      "this "
      "machine. Dense is best where 1/encode + 1/decode + ratio/bandwidth >= 1/bandwidth for every codec; "
      "'pays below' is the bandwidth at which both sides are equal.");
  const auto options = std::make_shared<RecommendOptions>();
  command->add_option("--bandwidth", options->bandwidth, "Of the link, e.g. 100mbit")->required();
  command->add_option("--size", options->size, "Entries (fp32 numbers) of the message, e.g. 25M")->required();
  command->add_option("--codec", options->codecs, "Codec to rank; repeatable; default: every codec")
      ->allow_extra_args(false);
  command->add_flag("--json", options->json, "Print one JSON object");
  command->callback([options, &status] {
    recommend(*options);
    status = kExitOk;
  });
}

}  // namespace gossamer::node
