// gossamer topology advise: ranks graphs and methods over given links.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "advice.h"
#include "command_topology.h"
#include "commands.h"
#include "config_document.h"
#include "config_fields.h"
#include "flags.h"
#include "gossamer/compress/codec.h"
#include "model_parts.h"
#include "setup.h"
#include "task.h"
#include "text.h"

namespace gossamer::node {
namespace {

constexpr std::size_t kShown = 15;

struct AdviseOptions {
  std::string file, job, parameters, links, codec, step_time, bandwidth, latency, out;
  std::vector<std::string> methods, overrides;
  std::optional<std::uint64_t> rounds;
  std::optional<double> heterogeneity;
  std::size_t layers = 1;
  bool json = false, all = false;
};

double quantity(const std::string& flag, const std::string& text, const char* expected,
                std::optional<double> (*parse)(std::string_view), bool may_be_zero) {
  const auto value = parse(text);
  if (!value || !std::isfinite(*value) || *value < 0 || (*value == 0 && !may_be_zero))
    throw ConfigError(fmt::format("{} {}: expected {}", flag, text, expected));
  return *value;
}

bool is_non_iid(const std::string& split) { return split.starts_with("dirichlet"); }

/// Of a model that a Python computes, and that it is asked for.
Question question_of_task(Job job, const ExchangeSettings& exchange, const std::string& path,
                          const std::vector<std::string>& overrides) {
  const TaskOutline task = outline_of_task(job, path, overrides);
  Question question;
  std::size_t offset = 0, together = 0;
  for (const auto& [name, floats] : task.tensors) {
    question.layers.push_back({name, offset, floats, {{name, {floats}, offset}}});
    offset += (floats + 15) / 16 * 16;
  }
  for (const PeerEntry& peer : job.peers) together += peer.batch;
  const double epochs = job.run.rounds > 0 ? 0 : job.run.epochs;
  const double steps =
      std::max<double>(1, static_cast<double>(task.rows / std::max<std::size_t>(1, together)));
  question.rounds =
      job.run.rounds > 0 ? job.run.rounds : static_cast<std::uint64_t>(std::ceil(epochs * steps));
  question.heterogeneity = is_non_iid(job.split) ? 1 : 0;
  if (!job.written.contains("sim.step_time")) job.sim.step_time = task.step_s;
  question.job = std::move(job);
  question.job.exchange = exchange;
  return question;
}

/// The job and its model: of a job file, or of a topology and a number of parameters.
Question read_question(const AdviseOptions& options) {
  std::vector<std::string> overrides = options.overrides;
  if (!options.links.empty()) overrides.push_back("links=" + options.links);
  Question question;
  const bool is_job = config::is_job_document(config::read_document(options.file));
  if (is_job && !options.job.empty())
    throw ConfigError(options.file + " is a job file itself; expected a topology file beside --job");
  if (is_job || !options.job.empty()) {
    if (!is_job) overrides.push_back("topology=" + options.file);
    Job job = load_job(is_job ? options.file : options.job, overrides);
    const ExchangeSettings exchange = job.exchange;
    job.exchange = {};
    job.exchange.method = "none";  // sound on any graph: what the job exchanges is asked here
    if (job.learns_by_key())
      throw ConfigError(fmt::format(
          "{}: model '{}' keeps rows in a table, and how many of them change in a round is not known "
          "beforehand; expected a job whose model is all parameters, or --parameters N --codec CODEC",
          job.where("model.kind"), job.model.kind));
    if (job.is_task())
      return question_of_task(std::move(job), exchange, is_job ? options.file : options.job, overrides);
    const Prepared prepared = prepare(std::move(job));
    question.job = prepared.job;
    question.job.exchange = exchange;
    question.layers = prepared.layers;
    question.rounds = prepared.rounds;
    question.heterogeneity = is_non_iid(prepared.job.split) ? 1 : 0;
  } else {
    if (options.parameters.empty())
      throw ConfigError(options.file +
                        " is a topology and says nothing of a model; expected --parameters N such as 25M, or "
                        "--job JOB");
    question.job = load_topology(options.file, overrides);
  }
  if (!options.parameters.empty()) {
    const auto entries = parse_count(options.parameters);
    if (!entries || *entries < options.layers)
      throw ConfigError(
          fmt::format("--parameters {}: expected a count of at least one for each layer, such as 25M or 64Ki",
                      options.parameters));
    question.layers = equal_layers(*entries, options.layers);
  }
  return question;
}

bool all_links_stated(const Job& job) {
  std::set<std::pair<PeerId, PeerId>> stated;
  for (const LinkEntry& l : job.links)
    if (l.bandwidth && l.latency) stated.insert(std::minmax(l.a, l.b));
  return stated.size() == job.peers.size() * (job.peers.size() - 1) / 2;
}

/// The simulator draws it for places in the graph, which advice gives to peers first.
void refuse_drawn(const Job& job, const std::string& key, const std::string& value, const char* stated) {
  if (value != "equal")
    throw ConfigError(
        fmt::format("{}: {} = {} is drawn when a run is simulated, and advice needs to know it of each peer; "
                    "expected {}, "
                    "and --set {}=equal",
                    job.where(key), key, value, stated, key));
}

Question make_question(const AdviseOptions& options) {
  Question question = read_question(options);
  Job& job = question.job;
  if (job.peers.size() < 2)
    throw ConfigError(options.file + ": one peer needs no graph; expected at least two");
  if (!options.codec.empty()) job.exchange.codec = options.codec;
  job.exchange.codec = compress::make_codec(job.exchange.codec)->spec();
  SimSection& sim = job.sim;
  if (!options.step_time.empty())
    sim.step_time = quantity("--step-time", options.step_time, "a time such as 50ms", parse_duration, false);
  if (!options.bandwidth.empty())
    sim.bandwidth =
        quantity("--bandwidth", options.bandwidth, "a bandwidth such as 100mbit", parse_bandwidth, false);
  if (!options.latency.empty())
    sim.latency = quantity("--latency", options.latency, "a time such as 5ms", parse_duration, true);
  if (!all_links_stated(job))
    refuse_drawn(job, "sim.links", sim.links, "[[link]] tables or --links of all pairs");
  refuse_drawn(job, "sim.speeds", sim.speeds, "sim.slow");
  question.methods = options.methods;
  question.rounds = options.rounds.value_or(question.rounds);
  question.heterogeneity = options.heterogeneity.value_or(question.heterogeneity);
  return question;
}

/// Three digits, for people.
std::string short_bandwidth(double bits_per_second) { return bandwidth_text(rounded(bits_per_second, 3)); }

std::string reason(const Question& question, const Advice& a) {
  const double waits = a.cost.seconds - a.cost.step;
  if (a.cost.from == a.cost.to || waits < 0.005 * a.cost.seconds) return "computing hides what is sent";
  const auto link = link_table(question.job).at(a.cost.from, a.cost.to);
  return fmt::format("{:.0f} % waiting; last for {} -> {} ({}, {} ms)", 100 * waits / a.cost.seconds,
                     question.job.peers[a.cost.from].name, question.job.peers[a.cost.to].name,
                     short_bandwidth(link.bandwidth), figure_text(1e3 * link.latency));
}

std::string round_time_text(double seconds) {
  if (seconds < 120) return figure_text(seconds) + " s";
  if (seconds < 7200) return figure_text(seconds / 60) + " min";
  return figure_text(seconds / 3600) + " h";
}

std::string order_text(const Question& question, const Advice& advice) {
  std::vector<std::string> names;
  for (const auto peer : advice.order) names.push_back(question.job.peers[peer].name);
  return join(names, ", ");
}

std::string method_label(const Advice& a) {
  return a.algorithm.empty() ? a.method : a.method + " (" + a.algorithm + ")";
}

void print_table(const AdviseOptions& options, const Question& question, const std::vector<Advice>& ranked) {
  const std::size_t shown = options.all ? ranked.size() : std::min(ranked.size(), kShown);
  std::size_t graph = 5, method = 6, codec = 5;
  for (const Advice& a : ranked) {
    graph = std::max(graph, a.graph.size());
    method = std::max(method, method_label(a).size());
    codec = std::max(codec, a.codec.size());
  }
  const std::string line_format =
      fmt::format("{{:<{}}}  {{:<{}}}  {{:<{}}} {{:>10}} {{:>11}} {{:>10}} {{:>9}} {{:>10}}  {{}}\n", graph,
                  method, codec);
  const auto line = fmt::runtime(line_format);
  fmt::print(line, "GRAPH", "METHOD", "CODEC", "S/ROUND", "SENT/ROUND", "CONSENSUS", "ROUNDS", "TO TRAIN",
             "WHY");
  for (std::size_t i = 0; i < shown; ++i) {
    const Advice& a = ranked[i];
    fmt::print(line, a.graph, method_label(a), a.codec, figure_text(a.cost.seconds),
               bytes_text(a.bytes_per_round),
               a.consensus_rounds < 0 ? "never" : figure_text(a.consensus_rounds),
               figure_text(std::round(a.rounds)), round_time_text(a.seconds()), reason(question, a));
  }
  if (shown < ranked.size()) fmt::print("... and {} more (--all)\n", ranked.size() - shown);
  const Advice& best = ranked.front();
  fmt::print("\nBest: {} under {} with codec {}. Peers in the graph's order: {}\n", best.graph,
             method_label(best), best.codec, order_text(question, best));
  fmt::print(
      "S/ROUND: computing, then the slowest wait for messages of latency + bytes / bandwidth; no time for "
      "coding.\n"
      "CONSENSUS: rounds until peers differ by 1e-6 of what they did. ROUNDS: {} with full averaging, times\n"
      "1 + 0.1 (sqrt D - 1) + (0.01 + 0.1 z)(D - 1), D = 1/(1 - lambda^2) of the mixing matrix, z = {} for\n"
      "heterogeneous data (Koloskova et al. 2020). What a codec's error costs in rounds, what staleness "
      "does, and "
      "what\n"
      "outer momentum gains only a run can tell.\n",
      question.rounds, question.heterogeneity);
}

nlohmann::ordered_json row_json(const Question& question, const Advice& a) {
  nlohmann::ordered_json row{{"graph", a.graph},
                             {"method", a.method},
                             {"codec", a.codec},
                             {"set", settings(question.job, a)},
                             {"seconds_per_round", a.cost.seconds},
                             {"step_seconds", a.cost.step},
                             {"bytes_per_round", a.bytes_per_round},
                             {"slowest_from", nullptr},
                             {"slowest_to", nullptr},
                             {"slowest_seconds", a.message_seconds},
                             {"consensus_rounds", nullptr},
                             {"consensus_seconds", nullptr},
                             {"period", a.period},
                             {"delay", a.delay},
                             {"rounds", a.rounds},
                             {"seconds", a.seconds()},
                             {"why", reason(question, a)}};
  if (a.cost.from != a.cost.to) {
    row["slowest_from"] = question.job.peers[a.cost.from].name;
    row["slowest_to"] = question.job.peers[a.cost.to].name;
  }
  if (a.consensus_rounds >= 0) {
    row["consensus_rounds"] = a.consensus_rounds;
    row["consensus_seconds"] = a.consensus_seconds();
  }
  row["topology"] = to_topology_toml(follow(question.job, a));
  return row;
}

void write_best(const AdviseOptions& options, const Question& question, const Advice& best) {
  std::ofstream file(options.out);
  file << fmt::format(
      "# gossamer topology advise: {} for method {} with codec {}; predicted {} s per round, {:.0f} rounds, "
      "{}.\n# The order of the peers belongs to it.\n\n",
      best.graph, method_label(best), best.codec, figure_text(best.cost.seconds), best.rounds,
      round_time_text(best.seconds()));
  if (!(file << to_topology_toml(follow(question.job, best))).flush())
    throw ConfigError("--out " + options.out + ": cannot be written: " + std::strerror(errno));
  fmt::print(stderr, "written: {}; train with --set topology={} --set {}\n", options.out, options.out,
             join(settings(question.job, best), " --set "));
}

void run_advise(const AdviseOptions& options) {
  const Question question = make_question(options);
  const std::vector<Advice> ranked = advise(question);
  if (options.json) {
    nlohmann::ordered_json out{{"peers", question.job.peer_names()},
                               {"codec", question.job.exchange.codec},
                               {"rounds_of_full_averaging", question.rounds},
                               {"heterogeneity", question.heterogeneity},
                               {"ranked", nlohmann::ordered_json::array()}};
    for (const Advice& a : ranked) out["ranked"].push_back(row_json(question, a));
    fmt::print("{}\n", out.dump(2));
  } else {
    print_table(options, question, ranked);
  }
  if (!options.out.empty()) write_best(options, question, ranked.front());
}

}  // namespace

void add_topology_advise(CLI::App& topology, int& status) {
  auto* command = topology.add_subcommand(
      "advise", "Rank graphs, methods and orders of the peers by predicted time over unequal links");
  const auto options = std::make_shared<AdviseOptions>();
  command
      ->add_option("FILE", options->file, "Topology file with [[link]] tables or a links file; or a job file")
      ->required();
  command->add_option("--job", options->job,
                      "Job whose model, codec and length count; its topology does not");
  auto* parameters = command->add_option("--parameters", options->parameters,
                                         "Size of the model, e.g. 25M, in place of a job's");
  command->add_option("--layers", options->layers, "Of --parameters: equal layers, sent as they become ready")
      ->needs(parameters)
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--links", options->links,
                      "Table of links, .toml or .csv, as gossamer probe writes it");
  command->add_option("--codec", options->codec, "Codec of the methods that compress; default: the job's");
  command->add_option("--methods", options->methods, "Methods to rank, by comma; default: all of known cost")
      ->delimiter(',');
  command->add_option("--step-time", options->step_time, "Of one gradient; default: sim.step_time");
  command->add_option("--bandwidth", options->bandwidth, "Of links that none is stated of; default: sim's");
  command->add_option("--latency", options->latency, "Of links that none is stated of; default: sim's");
  command
      ->add_option("--rounds", options->rounds, "Of training with full averaging; default: the job's, 1000")
      ->check(above_zero());
  command
      ->add_option("--heterogeneity", options->heterogeneity,
                   "Data heterogeneity, 0 = IID; default: 1 for dirichlet splits, else 0")
      ->check(zero_or_more());
  command->add_option("--set", options->overrides, "KEY=VALUE in place of what the files say; repeatable")
      ->allow_extra_args(false);
  command->add_option("--out", options->out, "Write the topology file of the best");
  command->add_flag("--json", options->json, "Print one JSON object: every combination with its topology");
  command->add_flag("--all", options->all, "Print every combination, not the best alone");
  command->callback([options, &status] {
    run_advise(*options);
    status = kExitOk;
  });
}

}  // namespace gossamer::node
