#include "soundness_table.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <sstream>
#include <stdexcept>

#include <toml++/toml.h>

#include "exchange.h"
#include "plan.h"

namespace gossamer::node::test {
namespace {

constexpr std::size_t kPeers = 8, kRows = 8;

using Names = std::vector<std::string>;

Names strings(const toml::table& entry, std::string_view key) {
  Names all;
  const toml::array* const array = entry[key].as_array();
  if (array == nullptr) return all;
  for (const toml::node& node : *array) {
    if (const auto text = node.value<std::string>(); text && node.is_string())
      all.push_back(*text);
    else if (const auto number = node.value<std::int64_t>())
      all.push_back(std::to_string(*number));
  }
  return all;
}

/// Lists that are named are put in place of their names.
Names expanded(const toml::table& file, std::string_view key, const toml::table& entry) {
  Names all;
  for (const std::string& name : strings(entry, key)) {
    const toml::table* const lists = file[key].as_table();
    const Names list = lists == nullptr ? Names{} : strings(*lists, name);
    all.insert(all.end(), list.begin(), list.end());
    if (list.empty()) all.push_back(name);
  }
  return all;
}

Combination common(const toml::table& entry, bool sound) {
  Combination c;
  c.sound = sound;
  c.settings = strings(entry, "set");
  c.falling = entry["rate"].value_or(std::string("falling")) == "falling";
  c.within = entry["within"].value_or(0.0);
  c.because = entry["because"].value_or(std::string());
  if (sound ? !(c.within > 0) : c.because.empty())
    throw std::runtime_error(fmt::format("soundness.toml, line {}: an entry lacks {}",
                                         entry.source().begin.line, sound ? "within" : "because"));
  return c;
}

void add_entries(const toml::table& file, std::string_view kind, std::vector<Combination>& all) {
  const toml::array* const entries = file[kind].as_array();
  if (entries == nullptr) throw std::runtime_error(fmt::format("soundness.toml: no [[{}]]", kind));
  for (const toml::node& node : *entries) {
    const toml::table& entry = *node.as_table();
    Combination c = common(entry, kind == "sound");
    Names stalenesses = strings(entry, "staleness");
    if (stalenesses.empty()) stalenesses = {"0"};
    for (const std::string& method : strings(entry, "methods"))
      for (const std::string& graph : expanded(file, "graphs", entry))
        for (const std::string& codec : expanded(file, "codecs", entry))
          for (const std::string& staleness : stalenesses) {
            c.method = method, c.graph = graph, c.codec = codec, c.staleness = staleness;
            all.push_back(c);
          }
  }
}

/// Every step sees all of a peer's rows, so that gradients are exact.
Settings settings_of(const Combination& c, std::uint64_t seed) {
  Settings all{fmt::format("peers={}", kPeers),
               "model.kind=quadratic",
               fmt::format("data.rows={}", kPeers * kRows),
               fmt::format("optimizer.batch={}", kRows),
               "optimizer.kind=sgd",
               "optimizer.learning_rate=0.2",
               c.falling ? "optimizer.schedule=cosine" : "optimizer.schedule=constant",
               "run.rounds=3000",
               fmt::format("run.seed={}", seed),
               "exchange.codec=" + c.codec,
               "exchange.method=" + c.method,
               "exchange.staleness=" + c.staleness};
  std::istringstream words(c.graph);
  std::string word;
  words >> word;
  all.push_back("graph.kind=" + word);
  while (words >> word) all.push_back("graph." + word);
  return all + c.settings;
}

/// The mean of all rows.
std::vector<double> optimum(const Prepared& prepared) {
  const optim::Dataset& data = *prepared.data.train;
  std::vector<std::uint32_t> rows(data.rows());
  for (std::uint32_t r = 0; r < rows.size(); ++r) rows[r] = r;
  AlignedFloats values(rows.size() * data.features());
  data.gather(rows, values);
  std::vector<double> mean(data.features());
  for (std::size_t r = 0; r < rows.size(); ++r)
    for (std::size_t k = 0; k < mean.size(); ++k)
      mean[k] += static_cast<double>(values[r * mean.size() + k]) / static_cast<double>(rows.size());
  return mean;
}

double distance(std::span<const float> x, const std::vector<double>& goal) {
  double square = 0;
  for (std::size_t k = 0; k < goal.size(); ++k) square += std::pow(static_cast<double>(x[k]) - goal[k], 2);
  return std::sqrt(square);
}

}  // namespace

std::string Combination::name() const {
  return fmt::format("{} | {} | {} | staleness {}", method, graph, codec, staleness);
}

std::vector<Combination> read_combinations() {
  const toml::table file = toml::parse_file(GOSSAMER_SOUNDNESS);
  std::vector<Combination> all;
  add_entries(file, "sound", all);
  add_entries(file, "unsound", all);
  return all;
}

Prepared prepare_combination(const Combination& c, std::uint64_t seed) {
  Prepared prepared = prepare(small_job(settings_of(c, seed)));
  (void)make_plan(prepared.job, 0);
  return prepared;
}

std::string refusal(const Combination& c) {
  return refusal_of([&] { (void)prepare_combination(c, 1); });
}

double distance_to_optimum(const Combination& c, std::uint64_t seed) {
  Run run(prepare_combination(c, seed), {.seed = seed, .crashes = {}});
  run.go();
  if (!run.all(Outcome::finished)) return std::numeric_limits<double>::infinity();
  const std::vector<double> goal = optimum(run.prepared);
  double farthest = 0;
  for (PeerId p = 0; p < kPeers; ++p)
    farthest = std::max(farthest, distance(run.simulation.parameters(p), goal));
  return farthest / distance(run.prepared.initial, goal);
}

}  // namespace gossamer::node::test
