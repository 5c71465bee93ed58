// Metrics of clicks against their definitions; the planted generator.
#include <cmath>
#include <random>

#include "gossamer/optim/click_metrics.h"
#include "gossamer/optim/planted_clicks.h"
#include "support.h"

namespace gossamer::optim::test {
namespace {

double plain_auc(const std::vector<float>& scores, const std::vector<float>& labels) {
  double good = 0, pairs = 0;
  for (std::size_t i = 0; i < scores.size(); ++i)
    for (std::size_t j = 0; j < scores.size(); ++j) {
      if (labels[i] != 1 || labels[j] != 0) continue;
      ++pairs;
      good += scores[i] > scores[j] ? 1 : scores[i] == scores[j] ? 0.5 : 0;
    }
  return good / pairs;
}

struct Scored {
  std::vector<float> scores, labels;
};
Scored scored(std::size_t n, int levels, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Scored out;
  for (std::size_t i = 0; i < n; ++i) {
    const double z = static_cast<double>(random() % 12000) / 1000 - 9;
    double p = 1 / (1 + std::exp(-z));
    if (levels > 0) p = std::round(p * levels) / levels;
    out.scores.push_back(static_cast<float>(p));
    out.labels.push_back(static_cast<double>(random() % 100000) / 1e5 < p ? 1.0f : 0.0f);
  }
  return out;
}

}  // namespace

TEST_CASE("the AUC is the share of ordered pairs, ties half") {
  for (const int levels : {0, 1, 7, 100}) {
    const Scored s = scored(600, levels, 5);
    CHECK(auc(s.scores, s.labels) == Approx(plain_auc(s.scores, s.labels)).epsilon(1e-12));
    ClickMetrics metrics;
    metrics.add(s.scores, s.labels);
    CHECK(std::abs(metrics.auc() - auc(s.scores, s.labels)) <= metrics.auc_error() + 1e-12);
  }
  CHECK(auc(std::vector<float>{1, 2}, std::vector<float>{0, 1}) == 1);
  CHECK(std::isnan(auc(std::vector<float>{1, 2}, std::vector<float>{1, 1})));
  CHECK(std::isnan(auc(std::vector<float>{1, NAN}, std::vector<float>{0, 1})));
}

TEST_CASE("metrics by bins are near the exact ones, add up, and do not mind order") {
  const Scored s = scored(100000, 0, 6);
  ClickMetrics whole, left, right;
  whole.add(s.scores, s.labels);
  const std::span<const float> p = s.scores, y = s.labels;
  left.add(p.first(31234), y.first(31234));
  right.add(p.subspan(31234), y.subspan(31234));
  right += left;
  CHECK(right.auc() == whole.auc());
  CHECK(right.log_loss() == Approx(whole.log_loss()).epsilon(1e-12));
  CHECK(whole.auc() == Approx(auc(p, y)).margin(2e-5));
  CHECK(whole.auc_error() < 2e-3);
  double loss = 0, predicted = 0, clicks = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    loss -= std::log(static_cast<double>(y[i] > 0 ? p[i] : 1 - p[i]));
    predicted += static_cast<double>(p[i]);
    clicks += static_cast<double>(y[i]);
  }
  CHECK(whole.log_loss() == Approx(loss / 1e5).epsilon(1e-6));
  CHECK(whole.calibration() == Approx(predicted / clicks).epsilon(1e-9));
  CHECK(whole.samples() == 100000);
  CHECK(static_cast<double>(whole.clicks()) == clicks);
  whole.clear();
  CHECK((whole.samples() == 0 && std::isnan(whole.auc()) && std::isnan(whole.calibration())));
}

TEST_CASE("rare clicks are told apart too, and certainties and NaN do no harm") {
  ClickMetrics metrics;
  metrics.add(std::vector<float>{1e-5f, 1.1e-5f, 1.2e-5f, 0, 1}, std::vector<float>{0, 1, 0, 0, 1});
  CHECK(metrics.auc() == Approx(5.0 / 6));
  CHECK(std::isfinite(metrics.log_loss()));
  metrics.add(std::vector<float>{NAN}, std::vector<float>{0});
  CHECK(std::isnan(metrics.auc()));
  CHECK(std::isnan(metrics.log_loss()));
}

TEST_CASE("progressive metrics are those of all samples and of the last ones") {
  const Scored s = scored(1000, 0, 7);
  const std::span<const float> p = s.scores, y = s.labels;
  ProgressiveMetrics progressive;
  progressive.add(p.first(600), y.first(600));
  CHECK(progressive.take_window().samples() == 600);
  progressive.add(p.subspan(600), y.subspan(600));
  CHECK(progressive.window().samples() == 400);
  ClickMetrics whole;
  whole.add(p, y);
  CHECK(progressive.total().auc() == whole.auc());
}

TEST_CASE("planted clicks: the same by seed, power-law keys, probabilities that are true") {
  const PlantedSpec spec{.samples = 20000, .keys = 500};
  const auto stream = open_planted(spec);
  const PlantedClicks clicks(spec);
  std::map<std::uint64_t, std::size_t> counts;
  ClickMetrics metrics;
  std::size_t samples = 0;
  for (SparseBatch batch; stream->next(1000, true, batch);) {
    CHECK(batch.field_count() == 12);
    for (std::size_t b = 0; b < batch.size(); ++b, ++samples) {
      const double p = clicks.probability(batch.positions()[b]);
      const auto score = static_cast<float>(p);
      metrics.add({&score, 1}, batch.labels().subspan(b, 1));
      ++counts[batch.keys()[batch.index()[batch.begins()[b]]]];  // of field 0
    }
  }
  CHECK(samples == 20000);
  CHECK(metrics.calibration() == Approx(1).margin(0.04));
  CHECK(clicks.best_auc(0, 20000) == Approx(metrics.auc()).margin(1e-4));
  CHECK(clicks.best_auc(0, 20000) > 0.7);
  std::vector<std::size_t> frequent;
  for (const auto& [key, count] : counts) frequent.push_back(count);
  std::sort(frequent.rbegin(), frequent.rend());
  CHECK(frequent.size() <= 500);
  CHECK(frequent[0] > 20 * frequent[49] / 2);  // 50^1.1 times as often, roughly
  CHECK(PlantedClicks({.seed = 2}).probability(3) != clicks.probability(3));
}

TEST_CASE("planted clicks drift: keys are replaced at the rate that was asked for") {
  const PlantedClicks still({.keys = 50}), drifting({.keys = 50, .drift = 10});
  std::size_t fresh = 0, fresh_without = 0, seen_later = 0;
  const auto keys_of = [](const PlantedClicks& clicks, std::uint64_t first) {
    std::set<std::uint64_t> keys;
    std::vector<std::uint64_t> of(12);
    for (std::uint64_t i = first; i < first + 20000; ++i) {
      clicks.keys(i, of);
      keys.insert(of[0]);
    }
    return keys;
  };
  const auto before = keys_of(drifting, 0), after = keys_of(drifting, 50000);
  for (const std::uint64_t key : after) fresh += !before.contains(key), ++seen_later;
  const auto still_before = keys_of(still, 0);
  for (const std::uint64_t key : keys_of(still, 50000)) fresh_without += !still_before.contains(key);
  CHECK(fresh_without <= 1);
  CHECK(static_cast<double>(fresh) / static_cast<double>(seen_later) == Approx(0.5).margin(0.2));
}

TEST_CASE("planted clicks are shared out among peers, and refuse what makes no sense") {
  std::set<std::uint64_t> positions;
  std::size_t samples = 0;
  for (std::size_t peer = 0; peer < 3; ++peer) {
    const auto stream = open_planted({.samples = 3000, .peer = peer, .peers = 3});
    for (SparseBatch batch; stream->next(100, true, batch); samples += batch.size())
      positions.insert(batch.positions().begin(), batch.positions().end());
  }
  CHECK((samples == 3000 && positions.size() == 3000));
  CHECK(message_of([] { open_planted({.fields = 0}); }) ==
        "data planted fields: found 0.000000, expected 1 to 256");
}

}  // namespace gossamer::optim::test
