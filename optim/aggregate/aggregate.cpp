#include "gossamer/optim/aggregate.h"

#include <algorithm>
#include <charconv>

#include "aggregators.h"
#include "names.h"

namespace gossamer::optim {
namespace {

struct AggregatorRow {
  NamedHelp entry;
  AggregatorFactory make;
  bool by_entry;
  std::string_view parameters;  ///< names, in the canonical order
  bool of_signs = false, around_own = false;
};

constexpr std::array kRules{
    AggregatorRow{{"weighted", "sum by the mixing weights"}, make_weighted, true, ""},
    AggregatorRow{
        {"median", "of each entry (Yin et al. 2018); tolerates 2f < n; f=0"}, make_median, true, "f"},
    AggregatorRow{
        {"trimmed_mean", "of each entry without its f largest and f smallest (Yin et al. 2018); 2f < n; f=0"},
        make_trimmed_mean,
        true,
        "f"},
    AggregatorRow{{"krum", "the vector nearest to its n-f-2 nearest (Blanchard et al. 2017); 2f+2 < n; f=0"},
                  make_krum,
                  false,
                  "f"},
    AggregatorRow{{"multi_krum",
                   "mean of the `keep` vectors that Krum likes best (Blanchard et al. 2017); 2f+2 < n; f=0, "
                   "keep=0 (n-f-2)"},
                  make_multi_krum,
                  false,
                  "f,keep"},
    AggregatorRow{
        {"geometric_median",
         "least sum of distances (Vardi & Zhang 2000); 2f < n; f=0, rounds=0 (until it has settled)"},
        make_geometric_median,
        false,
        "f,rounds"},
    AggregatorRow{{"centered_clip",
                   "steps towards all, each clipped, from the median (Karimireddy et al. 2021); 2f < n; "
                   "f=0, rounds=0 (3), radius=0 (from the distances)"},
                  make_centered_clip,
                  false,
                  "f,rounds,radius"},
    AggregatorRow{{"self_clip",
                   "own vector plus weighted differences, each clipped (He et al. 2022), for gossip; 2f < n; "
                   "f=0, radius=0 (from the distances)"},
                  make_self_clip,
                  false,
                  "f,radius",
                  false,
                  true},
    AggregatorRow{{"vote", "sign of the sum of signs (Bernstein et al. 2018); 2f < n; f=0"},
                  make_vote,
                  true,
                  "f",
                  true},
};
constexpr auto kHelp = [] {
  std::array<NamedHelp, kRules.size()> help{};
  for (std::size_t i = 0; i < help.size(); ++i) help[i] = kRules[i].entry;
  return help;
}();

constexpr std::string_view kMixing = "nnm+";

struct Parsed {
  const AggregatorRow* rule = nullptr;
  AggregatorParameters parameters;
  bool nearest_mixing = false;
};

[[noreturn]] void refuse(std::string_view spec, const std::string& what) {
  throw OptimError("aggregation rule \"" + std::string(spec) + "\": " + what);
}

const AggregatorRow& find_rule(std::string_view name) {
  for (const AggregatorRow& rule : kRules)
    if (name == rule.entry.name) return rule;
  throw_unknown("aggregation rule", name, kHelp);
}

/// The part up to the next `mark`, which is taken off `rest` with it.
std::string_view cut(std::string_view& rest, char mark) {
  const std::string_view part = rest.substr(0, rest.find(mark));
  rest = part.size() == rest.size() ? std::string_view() : rest.substr(part.size() + 1);
  return part;
}

template <class Number>
void read(std::string_view spec, std::string_view key, std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || !(number >= Number{0}))
    refuse(spec,
           "found " + std::string(key) + "='" + std::string(text) + "', expected a number of at least 0");
}

void set(std::string_view spec, std::string_view key, std::string_view text, Parsed& parsed) {
  AggregatorParameters& p = parsed.parameters;
  bool known = false;
  for (std::string_view rest = parsed.rule->parameters; !rest.empty();) known |= cut(rest, ',') == key;
  if (!known && key == "f")
    refuse(spec, "a weighted sum tolerates no wrong vector; expected a rule such as trimmed_mean:f=1");
  if (!known)
    refuse(spec, "unknown parameter '" + std::string(key) + "'; expected " +
                     (parsed.rule->parameters.empty() ? "none"
                                                      : "some of " + std::string(parsed.rule->parameters)));
  if (key == "f") read(spec, key, text, p.f);
  if (key == "keep") read(spec, key, text, p.keep);
  if (key == "rounds") read(spec, key, text, p.rounds);
  if (key == "radius") read(spec, key, text, p.radius);
}

Parsed parse(std::string_view spec) {
  Parsed parsed;
  std::string_view rest = spec;
  parsed.nearest_mixing = rest.starts_with(kMixing);
  if (parsed.nearest_mixing) rest.remove_prefix(kMixing.size());
  parsed.rule = &find_rule(cut(rest, ':'));
  while (!rest.empty()) {
    std::string_view value = cut(rest, ',');
    const std::string part(value);
    const std::string_view key = cut(value, '=');
    if (key.size() == part.size()) refuse(spec, "found '" + part + "', expected parameter=value");
    set(spec, key, value, parsed);
  }
  if (parsed.nearest_mixing && parsed.rule->parameters.empty())
    refuse(spec, "a weighted sum tolerates no wrong vector; expected a rule such as nnm+trimmed_mean:f=1");
  return parsed;
}

std::string text_of(double number) {
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), number).ptr};
}

std::string canonical(const Parsed& parsed) {
  const AggregatorParameters& p = parsed.parameters;
  std::string spec = (parsed.nearest_mixing ? std::string(kMixing) : "") + parsed.rule->entry.name;
  char mark = ':';
  for (std::string_view rest = parsed.rule->parameters; !rest.empty(); mark = ',') {
    const std::string_view key = cut(rest, ',');
    const double value = key == "f"        ? static_cast<double>(p.f)
                         : key == "keep"   ? static_cast<double>(p.keep)
                         : key == "rounds" ? static_cast<double>(p.rounds)
                                           : p.radius;
    spec += mark + std::string(key) + '=' + text_of(value);
  }
  return spec;
}

/// f wrong ones among n: what theory rules out (Blanchard et al. 2017 for Krum; a majority elsewhere).
void check_f(std::string_view spec, const Parsed& parsed, std::size_t n) {
  const std::size_t f = parsed.parameters.f;
  const std::string_view name = parsed.rule->entry.name;
  const bool krum = name == "krum" || name == "multi_krum";
  if (krum ? n <= 2 * f + 2 : n <= 2 * f)
    refuse(spec, "f=" + std::to_string(f) + " wrong vectors in a neighbourhood of " + std::to_string(n) +
                     " (the own one included); expected " + (krum ? "2f+2 < n" : "2f < n") +
                     ": more neighbours, or a smaller f");
  if (name == "multi_krum" && parsed.parameters.keep > n - f - 2)
    refuse(spec, "keep=" + std::to_string(parsed.parameters.keep) + " of " + std::to_string(n) +
                     " vectors; expected at most n-f-2 = " + std::to_string(n - f - 2));
}

}  // namespace

std::span<const NamedHelp> aggregator_table() { return kHelp; }

AggregatorInfo describe_aggregator(std::string_view spec) {
  const Parsed parsed = parse(spec);
  return {parsed.rule->entry.name, canonical(parsed),
          parsed.parameters.f,     parsed.rule->by_entry && !parsed.nearest_mixing,
          parsed.rule->of_signs,   parsed.rule->around_own};
}

std::unique_ptr<Aggregator> make_aggregator(std::string_view spec, std::size_t n, std::size_t left_out) {
  Parsed parsed = parse(spec);
  check_f(spec, parsed, n);
  parsed.parameters.f -= left_out;
  auto rule = parsed.rule->make(parsed.parameters, n - left_out);
  if (parsed.nearest_mixing) return make_nearest_mixing(std::move(rule), parsed.parameters.f);
  return rule;
}

double squared_distance(std::span<const float> a, std::span<const float> b) {
  std::array<double, 8> lane{};
  std::size_t i = 0;
  for (; i + lane.size() <= a.size(); i += lane.size())
    for (std::size_t j = 0; j < lane.size(); ++j) {
      const double d = static_cast<double>(a[i + j]) - static_cast<double>(b[i + j]);
      lane[j] += d * d;
    }
  for (; i < a.size(); ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    lane[0] += d * d;
  }
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

double inner_product(std::span<const float> a, std::span<const float> b, std::span<const float> origin) {
  std::array<double, 8> lane{};
  const auto term = [&](std::size_t i) {
    const auto o = static_cast<double>(origin[i]);
    return (static_cast<double>(a[i]) - o) * (static_cast<double>(b[i]) - o);
  };
  std::size_t i = 0;
  for (; i + lane.size() <= a.size(); i += lane.size())
    for (std::size_t j = 0; j < lane.size(); ++j) lane[j] += term(i + j);
  for (; i < a.size(); ++i) lane[0] += term(i);
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

std::vector<double> all_distances(std::span<const std::span<const float>> vectors) {
  const std::size_t n = vectors.size();
  std::vector<double> distances(n * n, 0.0);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < i; ++j)
      distances[i * n + j] = distances[j * n + i] = squared_distance(vectors[i], vectors[j]);
  return distances;
}

void weighted_sum(std::span<const std::span<const float>> vectors, std::span<const float> weights,
                  std::span<float> out) {
  std::fill(out.begin(), out.end(), 0.0f);
  for (std::size_t v = 0; v < vectors.size(); ++v)
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += weights[v] * vectors[v][i];
}

}  // namespace gossamer::optim
