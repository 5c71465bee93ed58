#include "gossamer/optim/planted_clicks.h"

#include <array>
#include <cassert>
#include <cmath>
#include <string>
#include <vector>

#include "elementary.h"
#include "gossamer/optim/click_metrics.h"
#include "random.h"
#include "sample_block.h"

namespace gossamer::optim {
namespace {

constexpr std::size_t kMostPlantedFields = 256, kMostPlantedFactors = 16;
constexpr double kSamplesOfDrift = 1e6;
enum class Draw : std::uint64_t { ranks, clicks, phases, weights, identities };

std::uint64_t planted_key(std::uint64_t seed, Draw draw) {
  return make_key(seed, Use::planted, static_cast<std::uint64_t>(draw));
}

void require_planted(bool good, const char* what, double found, const char* expected) {
  if (!good)
    throw OptimError(std::string("data planted ") + what + ": found " + std::to_string(found) +
                     ", expected " + expected);
}

/// Nearly normal, of deviation 1: a sum of four uniform numbers, cheap enough for every key of every sample.
double bell(std::uint64_t key, std::uint64_t index) {
  const std::uint64_t b = bits(key, index);
  double sum = -2;
  for (int part = 0; part < 4; ++part)
    sum += (static_cast<double>((b >> (16 * part)) & 0xFFFF) + 0.5) * 0x1p-16;
  return sum * 1.7320508075688772;
}

double power_of(double base, double exponent) { return portable_exp(exponent * portable_log(base)); }

SampleStreamSpec sharing_of(const PlantedSpec& spec) {
  SampleStreamSpec sharing;
  sharing.seed = spec.seed;
  sharing.peer = spec.peer;
  sharing.peers = spec.peers;
  sharing.alpha = spec.alpha;
  sharing.names = spec.names;
  sharing.homes = spec.homes;
  sharing.stays = spec.stays;
  return sharing;
}

class PlantedStream final : public SampleStream {
 public:
  explicit PlantedStream(const PlantedSpec& spec)
      : clicks_(spec),
        share_(sharing_of(spec)),
        next_(spec.first),
        end_(spec.samples ? spec.first + spec.samples : UINT64_MAX),
        keys_(spec.fields),
        fields_(spec.fields),
        ones_(spec.fields, 1.0f) {
    for (std::size_t f = 0; f < fields_.size(); ++f) fields_[f] = static_cast<std::uint32_t>(f);
  }

  bool next(std::size_t size, bool bias, SparseBatch& batch) override {
    batch.clear(bias);
    for (; batch.size() < size && next_ < end_; ++next_) {
      ++counters_.lines;
      const std::uint64_t hash = mix(next_);
      if (!share_.by_label() && !share_.mine(hash, next_)) continue;
      const float label = clicks_.label(next_, clicks_.keys(next_, keys_));
      if (share_.by_label() && !share_.mine(hash, next_, label)) continue;
      batch.add({keys_, fields_, ones_, label, hash, next_});
    }
    counters_.samples += batch.size();
    counters_.entries += batch.entries();
    return batch.size() > 0 || size == 0;
  }
  StreamCounters counters() const override { return counters_; }
  void share_anew(const SampleStreamSpec& spec) override { share_ = SampleShare(spec); }

 private:
  PlantedClicks clicks_;
  SampleShare share_;
  std::uint64_t next_, end_;
  std::vector<std::uint64_t> keys_;
  std::vector<std::uint32_t> fields_;
  std::vector<float> ones_;
  StreamCounters counters_;
};

}  // namespace

PlantedClicks::PlantedClicks(const PlantedSpec& spec) : spec_(spec) {
  const auto number = [](auto value) { return static_cast<double>(value); };
  require_planted(spec.fields >= 1 && spec.fields <= kMostPlantedFields, "fields", number(spec.fields),
                  "1 to 256");
  require_planted(spec.factors >= 1 && spec.factors <= kMostPlantedFactors, "factors", number(spec.factors),
                  "1 to 16");
  require_planted(spec.keys >= 1 && spec.keys <= (1ULL << 40), "keys", number(spec.keys), "1 to 2^40");
  require_planted(spec.power >= 0 && spec.power <= 4, "power", spec.power, "0 to 4");
  require_planted(spec.linear >= 0 && spec.linear <= 100, "linear", spec.linear, "0 to 100");
  require_planted(spec.pairs >= 0 && spec.pairs <= 100, "pairs", spec.pairs, "0 to 100");
  require_planted(std::abs(spec.bias) <= 100, "bias", spec.bias, "-100 to 100");
  require_planted(spec.drift >= 0 && spec.drift <= 1e6, "drift", spec.drift, "0 to 10^6");
  require_planted(spec.alpha >= 0 && spec.alpha <= 1e9, "alpha", spec.alpha, "0 to 10^9");
  require_planted(spec.peers >= 1 && spec.peer < spec.peers, "peer", number(spec.peer), "less than peers");
  // Ranks 1 … keys as the whole part of x in [1, keys + 1) with density x^(−power): the inverse of its
  // distribution is (1 + u·((keys + 1)^(1 − power) − 1))^(1/(1 − power)), or (keys + 1)^u for power 1.
  const double exponent = 1 - spec.power, end = static_cast<double>(spec.keys) + 1;
  const bool is_one = std::abs(exponent) < 1e-6;
  head_ = is_one ? end : power_of(end, exponent) - 1;
  tail_exponent_ = is_one ? 0 : 1 / exponent;
}

double PlantedClicks::keys(std::uint64_t i, std::span<std::uint64_t> keys) const {
  assert(keys.size() == spec_.fields);
  const std::uint64_t of_ranks = planted_key(spec_.seed, Draw::ranks),
                      of_phases = planted_key(spec_.seed, Draw::phases),
                      of_identities = planted_key(spec_.seed, Draw::identities),
                      of_weights = planted_key(spec_.seed, Draw::weights);
  const double age = spec_.drift * static_cast<double>(i) / kSamplesOfDrift;
  std::array<double, kMostPlantedFactors> sum{};
  double linear = 0, squares = 0;
  for (std::size_t f = 0; f < spec_.fields; ++f) {
    const double u = uniform(of_ranks, i * kMostPlantedFields + f);
    const double x = tail_exponent_ == 0 ? power_of(head_, u) : power_of(1 + u * head_, tail_exponent_);
    const std::uint64_t rank = std::min(static_cast<std::uint64_t>(x) - 1, spec_.keys - 1);
    const std::uint64_t place = rank * kMostPlantedFields + f;
    // Keys grow old at different times, so that as many are replaced in any stretch of the stream.
    const auto generation = static_cast<std::uint64_t>(age + uniform(of_phases, place));
    keys[f] = bits(bits(of_identities, place), generation);
    if (keys[f] == kBiasKey) keys[f] = 0;
    const std::uint64_t of_key = bits(of_weights, keys[f]);
    linear += bell(of_key, 0);
    for (std::size_t k = 0; k < spec_.factors; ++k) {
      const double v = bell(of_key, 1 + k);
      sum[k] += v;
      squares += v * v;
    }
  }
  double pairs = -squares;
  for (std::size_t k = 0; k < spec_.factors; ++k) pairs += sum[k] * sum[k];
  const double of_pairs = spec_.pairs / std::sqrt(static_cast<double>(spec_.factors)) * pairs / 2;
  return 1 / (1 + portable_exp(-(spec_.bias + spec_.linear * linear + of_pairs)));
}

double PlantedClicks::probability(std::uint64_t i) const {
  std::array<std::uint64_t, kMostPlantedFields> keys;
  return this->keys(i, std::span(keys).first(spec_.fields));
}

float PlantedClicks::label(std::uint64_t i, double probability) const {
  return uniform(planted_key(spec_.seed, Draw::clicks), i) < probability ? 1.0f : 0.0f;
}

double PlantedClicks::best_auc(std::uint64_t first, std::uint64_t end) const {
  std::vector<float> scores, labels;
  for (std::uint64_t i = first; i < end; ++i) {
    const double p = probability(i);
    scores.push_back(static_cast<float>(p));
    labels.push_back(label(i, p));
  }
  return auc(scores, labels);
}

std::unique_ptr<SampleStream> open_planted(const PlantedSpec& spec) {
  return std::make_unique<PlantedStream>(spec);
}

}  // namespace gossamer::optim
