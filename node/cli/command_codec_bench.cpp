#include <algorithm>
#include <iostream>
#include <new>

#include "codec_bench.h"
#include "command_codec.h"
#include "commands.h"
#include "device_speed.h"
#include "gossamer/compress/instruction_sets.h"
#include "gossamer/node/job.h"
#include "text.h"

namespace gossamer::node {
namespace {

struct BenchOptions {
  std::vector<std::string> codecs;
  std::string sizes = "64Ki,1Mi,16Mi";
  std::vector<std::string> instruction_sets;
  std::size_t threads = 1;
  std::string device = "cpu";
  bool json = false;
};

using Codecs = std::vector<std::unique_ptr<const compress::Codec>>;

std::vector<std::size_t> sizes_of(const char* flag, const std::string& text, std::size_t least) {
  std::vector<std::size_t> sizes;
  std::string_view rest = text;
  while (true) {
    const std::size_t comma = rest.find(',');
    const std::string word(rest.substr(0, comma));
    sizes.push_back(count_of(flag, word));
    if (sizes.back() < least)
      throw ConfigError(std::string(flag) + " " + word + ": fewer entries than --threads " +
                        std::to_string(least));
    if (comma == std::string_view::npos) return sizes;
    rest.remove_prefix(comma + 1);
  }
}

/// One thread and the first instruction set; then many threads; then the other sets.
std::vector<Setting> settings_of(const BenchOptions& options) {
  const auto known = compress::instruction_sets();
  for (const std::string& name : options.instruction_sets) {
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw ConfigError("--isa " + name + ": the kernels have " + join(known, ", ") + " on this machine" +
                        did_you_mean(name, known));
  }
  const std::string first = options.instruction_sets.empty() ? "" : options.instruction_sets.front();
  std::vector<Setting> settings{{1, first}};
  if (options.threads > 1) settings.push_back({options.threads, first});
  for (std::size_t i = 1; i < options.instruction_sets.size(); ++i)
    settings.push_back({1, options.instruction_sets[i]});
  return settings;
}

/// What a device computes by has no other settings.
std::vector<Setting> settings_on_device(const BenchOptions& options) {
  if (options.threads > 1 || !options.instruction_sets.empty())
    throw ConfigError("--device " + options.device +
                      ": threads and instruction sets are the host's; expected no --threads and no --isa");
  try {
    use_device_named(options.device);
  } catch (const std::runtime_error& error) {
    throw ConfigError("--device " + options.device + ": " + error.what());
  }
  return {{1, options.device}};
}

void announce(std::size_t entries, const std::string& what) {
  std::cerr << entries << " entries: " << what << std::endl;
}

/// Uses no better instructions while it lives.
struct Limit {
  explicit Limit(const std::string& name) { compress::limit_instruction_set(name); }
  ~Limit() { compress::limit_instruction_set(""); }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;
};

/// Memory is measured before and after the codecs, as other work on the machine comes and goes.
BenchTable measure(const Codecs& codecs, std::size_t entries, const std::vector<Setting>& settings,
                   compress::Threads& team) {
  BenchTable table{entries, {}, {}};
  const auto memory = [&] {
    announce(entries, "memory");
    std::vector<MemoryLimits> limits;
    for (const Setting& setting : settings)
      limits.push_back(setting.threads == 1 && !limits.empty() ? limits[0]
                                                               : measure_memory(entries, setting.threads));
    return limits;
  };
  table.limits = memory();
  const AlignedFloats x = laplacian(entries);
  for (const auto& codec : codecs) {
    announce(entries, codec->spec());
    BenchRow row{codec->spec(), {}};
    for (const Setting& setting : settings) {
      const Limit limit(setting.instruction_set);
      row.runs.push_back({measure_codec(*codec, x, setting.threads > 1 ? &team : nullptr), {}});
    }
    table.rows.push_back(std::move(row));
  }
  const auto again = memory();
  for (std::size_t i = 0; i < settings.size(); ++i) table.limits[i] = larger(table.limits[i], again[i]);
  for (BenchRow& row : table.rows) {
    for (std::size_t i = 0; i < settings.size(); ++i)
      row.runs[i].floor = codec_floor(row.runs[i].speed, table.limits[i]);
  }
  return table;
}

/// Of those that nobody asked for by name, what runs on the host only is left out.
BenchTable measure_on_device(const Codecs& codecs, std::size_t entries, bool named) {
  announce(entries, "memory");
  BenchTable table{entries, {measure_device_memory(entries)}, {}};
  const AlignedFloats x = laplacian(entries);
  for (const auto& codec : codecs) {
    announce(entries, codec->spec());
    try {
      table.rows.push_back({codec->spec(), {{measure_device_codec(*codec, x), {}}}});
    } catch (const compress::CodecError& error) {
      if (named) throw;
      std::cerr << error.what() << std::endl;
    }
  }
  table.limits[0] = larger(table.limits[0], measure_device_memory(entries));
  for (BenchRow& row : table.rows) row.runs[0].floor = codec_floor(row.runs[0].speed, table.limits[0]);
  return table;
}

void bench(const BenchOptions& options) {
  const Codecs codecs = codecs_of(options.codecs);
  const bool on_device = options.device != "cpu";
  const std::vector<Setting> settings = on_device ? settings_on_device(options) : settings_of(options);
  const auto sizes = sizes_of("--size", options.sizes, options.threads);
  compress::Threads team(options.threads);
  auto tables = nlohmann::ordered_json::array();
  std::size_t entries = 0;
  try {
    for (const std::size_t size : sizes) {
      entries = size;
      const BenchTable table = on_device ? measure_on_device(codecs, size, !options.codecs.empty())
                                         : measure(codecs, size, settings, team);
      options.json ? tables.push_back(to_json(table, settings)) : print_text(table, settings);
      std::cout.flush();
    }
  } catch (const std::bad_alloc&) {
    throw ConfigError("--size: no memory for " + std::to_string(entries) + " entries");
  }
  if (!options.json) return print_bench_notes(settings.size() > 1);
  const nlohmann::ordered_json out{{"device", options.device},
                                   {"threads", options.threads},
                                   {"instruction_sets", compress::instruction_sets()},
                                   {"data", "laplacian"},
                                   {"sizes", tables}};
  std::cout << out.dump(2) << '\n';
}

}  // namespace

void add_codec_bench(CLI::App& codec, int& status) {
  CLI::App* command = codec.add_subcommand(
      "bench",
      "Speed of codecs beside what this machine's memory allows.\n\n"
      "Feedback is measured of codecs that may run under it; decode is into zeros and fills them in; "
      "decode-add adds to a vector.");
  const auto options = std::make_shared<BenchOptions>();
  command->add_option("--codec", options->codecs, "Codec to measure; repeatable; default: every codec")
      ->allow_extra_args(false);
  command
      ->add_option("--size", options->sizes,
                   "Entries of the vector, several with commas (k, M, G; Ki, Mi, Gi)")
      ->capture_default_str();
  command
      ->add_option("--threads", options->threads,
                   "Also measure this many threads that share the work on one vector")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command
      ->add_option(
          "--isa", options->instruction_sets,
          "Instruction set, such as avx2; repeatable, the first is compared with the others; default: "
          "the best that this machine has")
      ->allow_extra_args(false);
  command
      ->add_option("--device", options->device,
                   "cpu, or cuda:N: in that device's memory, beside what copying there allows")
      ->capture_default_str();
  command->add_flag("--json", options->json, "Print one JSON object");
  command->callback([options, &status] {
    bench(*options);
    status = kExitOk;
  });
}

}  // namespace gossamer::node
