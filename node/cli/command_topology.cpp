#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "command_topology.h"
#include "commands.h"
#include "config_document.h"
#include "config_fields.h"
#include "flags.h"
#include "gossamer/compress/codec.h"
#include "gossamer/node/job.h"
#include "gossamer/topology/formats.h"
#include "gossamer/topology/report.h"
#include "model_parts.h"
#include "plan.h"
#include "round_bytes.h"
#include "text.h"

namespace gossamer::node {
namespace {

constexpr std::size_t kEntries = 235146;     // of a model that no job describes: an mlp on Fashion-MNIST
constexpr std::size_t kLargestPrinted = 16;  // peers: a larger matrix does not fit on a screen

struct TopologyOptions {
  std::string file, codec, svg;
  std::vector<std::string> overrides;
  std::size_t peers = 0;
  std::optional<std::size_t> entries;
  bool json = false, dot = false;
};

/// All that is shown.
struct Sheet {
  Job job;
  topology::Schedule schedule;
  topology::SpectralReport report;
  std::string codec;
  std::size_t entries, payload;      ///< assumed of a message
  std::optional<RoundBytes> sent{};  ///< of the job
  std::string why_assumed{};         ///< where there is a job and no `sent`
};

/// What the job sends; where that cannot be told, the reason stays beside what is assumed.
void count_sent(const Job& job, const std::string& codec, Sheet& sheet) {
  try {
    Job other = job;
    other.exchange.codec = codec;
    sheet.sent = bytes_per_round(std::move(other));
  } catch (const ConfigError& error) {
    sheet.why_assumed = error.what();
  } catch (const optim::OptimError& error) {
    sheet.why_assumed = error.what();
  }
}

Sheet make_sheet(const TopologyOptions& options) {
  const bool is_job = config::is_job_document(config::read_document(options.file));
  const auto peers = options.peers > 0 ? std::optional(options.peers) : std::nullopt;
  Job job = is_job ? load_job(options.file, options.overrides, peers)
                   : load_topology(options.file, options.overrides, peers);
  const std::string fallback = is_job ? job.exchange.codec : compress::kDense;
  const auto codec = compress::make_codec(options.codec.empty() ? fallback : options.codec);
  topology::Schedule schedule = topology::make_schedule(job.graph);
  const topology::SpectralReport report = topology::analyse(schedule);
  const std::size_t entries = options.entries.value_or(kEntries);
  Sheet sheet{std::move(job), std::move(schedule),
              report,         codec->spec(),
              entries,        static_cast<std::size_t>(std::llround(payload_bytes(*codec, entries)))};
  if (is_job && !options.entries) count_sent(sheet.job, sheet.codec, sheet);
  return sheet;
}

std::string decimal(double value, int digits) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

std::string from_to(std::size_t low, std::size_t high) {
  return low == high ? std::to_string(low) : std::to_string(low) + " to " + std::to_string(high);
}

std::string traffic_text(const Sheet& sheet) {
  if (sheet.sent) {
    const std::string least = bytes_text(sheet.sent->least), most = bytes_text(sheet.sent->most);
    return least == most ? least : least + " to " + most;
  }
  const auto bytes = [&](std::size_t degree) {
    return bytes_text(static_cast<double>(degree * sheet.payload));
  };
  const std::size_t low = sheet.report.min_degree, high = sheet.report.max_degree;
  return low == high ? bytes(low) : bytes(low) + " to " + bytes(high);
}

void print_matrices(const Sheet& sheet) {
  const std::vector<std::string> names = sheet.job.peer_names();
  std::size_t width = 7;
  for (const std::string& name : names) width = std::max(width, name.size() + 2);
  for (topology::Round r = 0; r < sheet.schedule.period(); ++r) {
    std::cout << "\nmixing matrix";
    if (sheet.schedule.time_varying()) std::cout << " of round " << r;
    std::cout << " (row: who mixes, column: whose vector)\n" << std::setw(static_cast<int>(width)) << "";
    for (const std::string& name : names)
      std::cout << std::right << std::setw(static_cast<int>(width)) << name;
    std::cout << '\n';
    const std::vector<double> dense = sheet.schedule.at(r).dense();
    for (std::size_t i = 0; i < names.size(); ++i) {
      std::cout << std::left << std::setw(static_cast<int>(width)) << names[i] << std::right;
      for (std::size_t j = 0; j < names.size(); ++j) {
        const double weight = dense[i * names.size() + j];
        std::cout << std::setw(static_cast<int>(width)) << (weight == 0 ? "." : decimal(weight, 3));
      }
      std::cout << '\n';
    }
  }
}

void print_text(const Sheet& sheet) {
  const auto& [job, schedule, report, codec, entries, payload, sent, why_assumed] = sheet;
  const auto line = [](const char* what, const std::string& value) {
    std::cout << std::left << std::setw(22) << what << value << '\n';
  };
  const auto yes = [](bool is) { return is ? "yes" : "no"; };
  line("topology", job.name + " (" + job.graph.kind + ", weights " + job.graph.weights + ")");
  line("peers", std::to_string(schedule.peers()));
  line("out-degree", from_to(report.min_degree, report.max_degree));
  line("connected", yes(report.connected));
  line("period", std::to_string(report.period) + (report.period == 1 ? " round" : " rounds"));
  line("symmetric", yes(report.symmetric));
  line("doubly stochastic", yes(report.doubly_stochastic));
  line("spectral gap", decimal(report.spectral_gap, 6) + " per round");
  line("consensus to 1e-6",
       report.rounds_to_1e6 < 0 ? std::string("never") : std::to_string(report.rounds_to_1e6) + " rounds");
  line("sent per peer, round", traffic_text(sheet));
  if (sent)
    std::cout << "  (method " << job.exchange.method << " with codec " << codec
              << ", frames and all, counted over " << sent->rounds << " simulated rounds)\n";
  else
    std::cout << "  (assumed: gossip, in which every out-neighbour gets "
              << bytes_text(static_cast<double>(payload)) << ", " << entries
              << " normal random entries as one " << codec << " payload"
              << (why_assumed.empty() ? "" : "; the job's own is not known: " + why_assumed) << ")\n";
  for (const auto& [a, b] : links_out_of_reach(job, schedule))
    std::cout << "warning: " << job.peers[a].name << " and " << job.peers[b].name
              << " are linked, and both can only dial out: a run of this graph is refused\n";
  if (schedule.peers() <= kLargestPrinted) print_matrices(sheet);
}

nlohmann::ordered_json round_json(const topology::MixingMatrix& matrix) {
  auto self = nlohmann::ordered_json::array(), edges = nlohmann::ordered_json::array();
  for (topology::PeerId i = 0; i < matrix.peers(); ++i) {
    self.push_back(matrix.self_weight(i));
    for (const topology::Edge& edge : matrix.in(i))
      edges.push_back({{"from", edge.peer}, {"to", i}, {"weight", edge.weight}});
  }
  return {{"self_weights", self}, {"edges", edges}};
}

void print_json(const Sheet& sheet) {
  const auto& [job, schedule, report, codec, entries, payload, sent, why_assumed] = sheet;
  nlohmann::ordered_json out{{"name", job.name}, {"kind", job.graph.kind}, {"weights", job.graph.weights}};
  for (const PeerEntry& peer : job.peers)
    out["peers"].push_back({{"name", peer.name}, {"address", peer.address}});
  out["min_degree"] = report.min_degree;
  out["max_degree"] = report.max_degree;
  out["connected"] = report.connected;
  out["period"] = report.period;
  out["symmetric"] = report.symmetric;
  out["doubly_stochastic"] = report.doubly_stochastic;
  out["spectral_gap"] = report.spectral_gap;
  out["rounds_to_1e6"] = nullptr;
  if (report.rounds_to_1e6 >= 0) out["rounds_to_1e6"] = report.rounds_to_1e6;
  out["codec"] = codec;
  if (sent) {
    out["method"] = job.exchange.method;
    out["simulated_rounds"] = sent->rounds;
    out["min_bytes_per_round"] = sent->least;
    out["mean_bytes_per_round"] = sent->mean;
    out["max_bytes_per_round"] = sent->most;
  } else {
    out["model_entries"] = entries;
    out["payload_bytes"] = payload;
    out["min_bytes_per_round"] = report.min_degree * payload;
    out["max_bytes_per_round"] = report.max_degree * payload;
  }
  for (const auto& [a, b] : links_out_of_reach(job, schedule))
    out["links_out_of_reach"].push_back({job.peers[a].name, job.peers[b].name});
  for (topology::Round r = 0; r < schedule.period(); ++r) out["rounds"].push_back(round_json(schedule.at(r)));
  std::cout << out.dump(2) << '\n';
}

constexpr std::size_t kMostCurveRounds = 200;

void write_svg(const Sheet& sheet, const std::string& path) {
  const long reached = sheet.report.rounds_to_1e6;
  const auto rounds =
      reached > 0 ? std::min(static_cast<std::size_t>(reached), kMostCurveRounds) : kMostCurveRounds;
  std::ofstream file(path);
  file << topology::to_svg(sheet.schedule, sheet.job.peer_names(),
                           topology::consensus_errors(sheet.schedule, rounds));
  if (!file.flush()) throw ConfigError("--svg " + path + ": cannot be written: " + std::strerror(errno));
}

void show(const TopologyOptions& options) {
  const Sheet sheet = make_sheet(options);
  if (!options.svg.empty()) write_svg(sheet, options.svg);
  if (options.dot)
    std::cout << topology::to_dot(sheet.schedule, sheet.job.peer_names());
  else if (options.json)
    print_json(sheet);
  else
    print_text(sheet);
}

struct ConvertOptions {
  std::string file, format, out;
  std::vector<std::string> overrides;
  std::size_t peers = 0, round = 0;
};

void convert(const ConvertOptions& options) {
  const bool is_job = config::is_job_document(config::read_document(options.file));
  const auto peers = options.peers > 0 ? std::optional(options.peers) : std::nullopt;
  const Job job = is_job ? load_job(options.file, options.overrides, peers)
                         : load_topology(options.file, options.overrides, peers);
  const topology::Schedule schedule = topology::make_schedule(job.graph);
  if (options.round >= schedule.period())
    throw ConfigError("--round " + std::to_string(options.round) + ": the graph has " +
                      std::to_string(schedule.period()) + " rounds before it repeats; expected 0 to " +
                      std::to_string(schedule.period() - 1));
  const std::string text =
      topology::write_graph(schedule.at(options.round), job.peer_names(), options.format);
  for (const topology::FileFormat& format : topology::file_format_table())
    if (format.name == options.format && !format.weights && job.graph.weights == "explicit")
      tell("gossamer: " + options.format +
           " files are written without weights, and those of this graph are explicit: they are left out");
  if (options.out.empty()) {
    std::cout << text;
    return;
  }
  std::ofstream file(options.out);
  if (!(file << text).flush())
    throw ConfigError("--out " + options.out + ": cannot be written: " + std::strerror(errno));
}

void add_convert(CLI::App& group, int& status) {
  CLI::App* command =
      group.add_subcommand("convert", "Write the graph as an edge list, GraphML, node-link JSON or METIS");
  const auto options = std::make_shared<ConvertOptions>();
  command->add_option("FILE", options->file, "Topology file or job file")->required();
  std::vector<std::string> formats;
  std::string without;
  for (const topology::FileFormat& format : topology::file_format_table()) {
    formats.emplace_back(format.name);
    if (!format.weights) without += "; " + formats.back() + ": without weights";
  }
  command->add_option("--to", options->format, "Format of the file" + without)
      ->required()
      ->check(CLI::IsMember(formats));
  command->add_option("--out", options->out, "File to write; default: standard output");
  command->add_option("--round", options->round, "Which round of a time-varying graph")
      ->capture_default_str();
  command->add_option("--set", options->overrides, "KEY=VALUE in place of what the files say; repeatable")
      ->allow_extra_args(false);
  command->add_option("--peers", options->peers, "That many local peers in place of the file's")
      ->check(CLI::Range(1, 65535));
  command->callback([options, &status] {
    convert(*options);
    status = kExitOk;
  });
}

}  // namespace

void add_topology_command(CLI::App& app, int& status) {
  CLI::App* group = app.add_subcommand("topology", "What a graph will do to a run");
  group->require_subcommand(1);
  CLI::App* command =
      group->add_subcommand("show", "Mixing matrix, spectral gap, rounds to consensus, traffic");
  const auto options = std::make_shared<TopologyOptions>();
  command->add_option("FILE", options->file, "Topology file or job file")->required();
  command->add_option("--set", options->overrides, "KEY=VALUE in place of what the files say; repeatable")
      ->allow_extra_args(false);
  command->add_option("--peers", options->peers, "That many local peers in place of the file's")
      ->check(CLI::Range(1, 65535));
  command
      ->add_option(
          "--model-size", options->entries,
          "Entries of a model whose gossip is assumed; default: what the job sends, of a topology 235146")
      ->check(CLI::Range(1, 1'000'000'000));
  command->add_option("--codec", options->codec,
                      "Codec of the traffic; default: the job's, of a topology dense");
  CLI::Option* json = command->add_flag("--json", options->json, "Print one JSON object");
  command->add_flag("--dot", options->dot, "Print the graph for Graphviz")->excludes(json);
  command->add_option("--svg", options->svg, "Also draw the graph and its consensus error into this file");
  add_convert(*group, status);
  add_topology_advise(*group, status);
  command->callback([options, &status] {
    show(*options);
    status = kExitOk;
  });
}

}  // namespace gossamer::node
