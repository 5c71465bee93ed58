#include "gossamer/optim/aggregate.h"

#include <algorithm>
#include <charconv>

#include "aggregators.h"
#include "names.h"

namespace gossamer::optim {
namespace {

constexpr std::array<Row<AggregatorFactory>, 9> kAggregators{{
    {{"weighted", "sum by the mixing weights"}, make_weighted},
    {{"median", "of each entry (Yin et al. 2018); bears 2f < n; f=0"}, make_median},
    {{"trimmed_mean", "of each entry without its f largest and f smallest (Yin et al. 2018); 2f < n; f=0"},
     make_trimmed_mean},
    {{"krum", "the vector nearest to its n-f-2 nearest (Blanchard et al. 2017); 2f+2 < n; f=0"}, make_krum},
    {{"multi_krum",
      "mean of the `keep` vectors that Krum likes best (Blanchard et al. 2017); 2f+2 < n; f=0, "
      "keep=0 (n-f-2)"},
     make_multi_krum},
    {{"geometric_median",
      "least sum of distances, smoothed Weiszfeld (Pillutla et al. 2022); 2f < n; f=0, "
      "rounds=32"},
     make_geometric_median},
    {{"centered_clip",
      "steps towards all, each clipped, from the median (Karimireddy et al. 2021); 2f < n; "
      "f=0, rounds=3, radius=0 (from the distances)"},
     make_centered_clip},
    {{"self_clip",
      "own vector plus weighted differences, each clipped (He et al. 2022), for gossip; 2f < n; "
      "f=0, radius=0 (from the distances)"},
     make_self_clip},
    {{"vote", "sign of the weighted sum of signs (Bernstein et al. 2018); f=0"}, make_vote},
}};
constexpr auto kHelp = help_of(kAggregators);

struct Parsed {
  std::string_view name;
  AggregatorParameters parameters;
  bool nearest_mixing = false;
};

[[noreturn]] void refuse(std::string_view spec, const std::string& what) {
  throw OptimError("aggregation rule \"" + std::string(spec) + "\": " + what);
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
  std::size_t switched = 0;
  if (key == "f") return read(spec, key, text, p.f);
  if (key == "keep") return read(spec, key, text, p.keep);
  if (key == "rounds") return read(spec, key, text, p.rounds);
  if (key == "radius") return read(spec, key, text, p.radius);
  if (key != "nnm")
    refuse(spec, "unknown parameter '" + std::string(key) + "'; expected f, nnm, keep, rounds or radius");
  read(spec, key, text, switched);
  if (switched > 1) refuse(spec, "found nnm='" + std::string(text) + "', expected 0 or 1");
  parsed.nearest_mixing = switched == 1;
}

Parsed parse(std::string_view spec) {
  Parsed parsed{spec.substr(0, spec.find(':')), {}};
  std::string_view rest = parsed.name.size() == spec.size() ? "" : spec.substr(parsed.name.size() + 1);
  while (!rest.empty()) {
    const std::string_view part = rest.substr(0, rest.find(','));
    rest = part.size() == rest.size() ? "" : rest.substr(part.size() + 1);
    const std::size_t equals = part.find('=');
    if (equals == part.npos) refuse(spec, "found '" + std::string(part) + "', expected parameter=value");
    set(spec, part.substr(0, equals), part.substr(equals + 1), parsed);
  }
  return parsed;
}

/// f wrong ones among n: what theory rules out (Blanchard et al. 2017 for Krum; a majority elsewhere).
void check_f(std::string_view spec, const Parsed& parsed, std::size_t n) {
  const std::size_t f = parsed.parameters.f;
  const bool krum = parsed.name == "krum" || parsed.name == "multi_krum";
  if (parsed.name == "weighted" && (f > 0 || parsed.nearest_mixing))
    refuse(spec, "a weighted sum bears no wrong vector; expected f=0, or a rule such as trimmed_mean:f=1");
  if (krum ? n <= 2 * f + 2 : n <= 2 * f)
    refuse(spec, "f=" + std::to_string(f) + " wrong vectors in a neighbourhood of " + std::to_string(n) +
                     " (the own one included); expected " + (krum ? "2f+2 < n" : "2f < n") +
                     ": more neighbours, or a smaller f");
  if (parsed.name == "multi_krum" && parsed.parameters.keep > n - f - 2)
    refuse(spec, "keep=" + std::to_string(parsed.parameters.keep) + " of " + std::to_string(n) +
                     " vectors; expected at most n-f-2 = " + std::to_string(n - f - 2));
}

}  // namespace

std::span<const NamedHelp> aggregator_table() { return kHelp; }

std::unique_ptr<Aggregator> make_aggregator(std::string_view spec, std::size_t n) {
  const Parsed parsed = parse(spec);
  const auto& row = find_row(kAggregators, "aggregation rule", parsed.name);
  check_f(spec, parsed, n);
  auto rule = row.make(parsed.parameters, n);
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
