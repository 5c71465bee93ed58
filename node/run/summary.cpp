#include "summary.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "aggregation.h"
#include "gossamer/node/safetensors.h"
#include "gossamer/optim/ensemble.h"
#include "json_line.h"
#include "method.h"

namespace gossamer::node {
namespace {

constexpr const char* kNoAverage = "the peers' models have different hidden sizes";

double consensus(std::span<const std::span<const float>> models, std::span<const double> weights,
                 std::span<const float> mean) {
  double sum = 0;
  for (std::size_t m = 0; m < models.size(); ++m)
    for (std::size_t i = 0; i < mean.size(); ++i)
      sum += weights[m] * std::pow(static_cast<double>(models[m][i]) - mean[i], 2);
  return sum / std::accumulate(weights.begin(), weights.end(), 0.0);
}

nlohmann::json number(double x) { return std::isfinite(x) ? nlohmann::json(x) : nlohmann::json(nullptr); }

/// The models as members of an ensemble, one optim::Model for each shape.
class Members {
 public:
  Members(const Prepared& prepared, std::span<const std::span<const float>> models,
          std::span<const PeerId> whose) {
    for (std::size_t i = 0; i < models.size(); ++i) {
      auto& model = models_[prepared.homogeneous() ? nullptr : prepared.shapes[whose[i]].get()];
      if (!model) model = make_model(prepared, whose[i]);
      members_.push_back({model.get(), models[i]});
    }
  }
  std::span<const optim::Member> all() const { return members_; }

 private:
  std::map<const Shape*, std::unique_ptr<optim::Model>> models_;
  std::vector<optim::Member> members_;
};

void evaluate_members(std::span<const optim::Member> members, const optim::Dataset& test, Summary& s) {
  double mean = 0, least = 1;
  for (const auto& m : members) {
    const double a = optim::evaluate(*m.model, m.x, test).accuracy();
    mean += a / static_cast<double>(members.size());
    least = std::min(least, a);
  }
  s.peer_accuracy_mean = mean;
  s.peer_accuracy_min = least;
  const auto ensemble = optim::evaluate_ensemble(members, test);
  s.ensemble_accuracy = ensemble.mean_output.accuracy();
  s.ensemble_loss = ensemble.mean_output.loss();
  s.vote_accuracy = ensemble.vote_accuracy();
}

void evaluate_average(std::span<const std::span<const float>> models, std::span<const double> weights,
                      const optim::Member& first, const optim::Dataset& test, Summary& s) {
  const AlignedFloats mean = average(models, weights);
  s.consensus_distance = consensus(models, weights, mean);
  const auto of_mean = optim::evaluate(*first.model, mean, test);
  s.test_accuracy = of_mean.accuracy();
  s.test_loss = of_mean.loss();
}

void evaluate_models(const Prepared& prepared, std::span<const std::span<const float>> models,
                     std::span<const PeerId> whose, bool own_models, Summary& s) {
  if (!prepared.data.test) {  // what is learned by key was evaluated by each peer
    s.has_accuracy = false;
    s.test_accuracy = s.test_loss = std::nan("");
    const std::vector<double> weights = model_weights(prepared, whose);
    s.consensus_distance = consensus(models, weights, average(models, weights));
    return;
  }
  const Members members(prepared, models, whose);
  const optim::Dataset& test = *prepared.data.test;
  s.has_accuracy = members.all().front().model->classes() > 0;
  s.has_average = have_average(prepared, whose);
  if (s.has_average)
    evaluate_average(models, model_weights(prepared, whose), members.all().front(), test, s);
  else
    s.test_accuracy = s.test_loss = s.consensus_distance = std::nan("");
  if (s.has_accuracy && (own_models || find_method(s.method).needs.classifier))
    evaluate_members(members.all(), test, s);
}

/// What a peer skipped, muted, held and waited for.
void add_guards(const WorkerResult& r, Summary& s) {
  s.waited_by_peer.push_back(r.seconds > 0 ? r.waited_s / r.seconds : 0);
  s.skipped_steps += r.skipped_steps;
  s.checkpoints = std::max(s.checkpoints, r.checkpoints);
  s.checkpoint_pause_s = std::max(s.checkpoint_pause_s, r.checkpoint_pause_s);
  s.closed_without += r.closed_without;
  s.idle_steps += r.idle_steps;
  s.held_back += r.held_back;
  s.dropped_control += r.dropped_control;
  s.queued_bytes_most = std::max(s.queued_bytes_most, r.queued_bytes_most);
  for (const std::string& name : r.muted)
    if (std::find(s.muted.begin(), s.muted.end(), name) == s.muted.end()) s.muted.push_back(name);
}

/// Of each name that all have; NaN where one is.
optim::Figures mean_figures(std::span<const WorkerResult> results) {
  optim::Figures mean;
  if (results.empty()) return mean;
  for (const optim::Figure& first : results.front().figures) {
    double sum = 0, have = 0;
    for (const WorkerResult& r : results)
      if (const auto value = optim::find_figure(r.figures, first.name)) sum += *value, ++have;
    if (have == static_cast<double>(results.size())) mean.push_back({first.name, sum / have});
  }
  return mean;
}

}  // namespace

std::string staleness_text(const std::optional<std::uint64_t>& staleness) {
  return staleness ? std::to_string(*staleness) : "unbounded";
}

Summary summarise_saved(const Prepared& prepared, std::span<const WorkerResult> results,
                        std::span<const std::filesystem::path> models, bool own_models,
                        std::span<const PeerId> whose, const std::filesystem::path& folder) {
  std::vector<AlignedFloats> read;
  for (std::size_t k = 0; k < whose.size(); ++k) {
    read.emplace_back(prepared.initial_of(whose[k]).size());
    read_safetensors(models[k].string(), prepared.layers_of(whose[k]), read.back());
  }
  const std::vector<std::span<const float>> views(read.begin(), read.end());
  if (have_average(prepared, whose))
    write_safetensors((folder / "model.safetensors").string(), prepared.layers_of(whose.front()),
                      average(views, model_weights(prepared, whose)),
                      {{"job", prepared.job.name}, {"peers", std::to_string(whose.size())}});
  return summarise(prepared, results, views, own_models, whose);
}

bool have_average(const Prepared& prepared, std::span<const PeerId> peers) {
  return prepared.homogeneous() || std::all_of(peers.begin(), peers.end(), [&](PeerId p) {
           return prepared.shapes[p] == prepared.shapes[peers.front()];
         });
}

std::vector<double> model_weights(const Prepared& prepared, std::span<const PeerId> peers) {
  const bool alike = !weighs_peers(prepared.job.exchange.aggregate);
  std::vector<double> weights;
  for (const PeerId p : peers) weights.push_back(alike ? 1.0 : prepared.plan->share[p]);
  return weights;
}

AlignedFloats average(std::span<const std::span<const float>> models, std::span<const double> weights) {
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  AlignedFloats mean(models.front().size());
  for (std::size_t i = 0; i < mean.size(); ++i) {
    double sum = 0;
    for (std::size_t m = 0; m < models.size(); ++m) sum += weights[m] * static_cast<double>(models[m][i]);
    mean[i] = static_cast<float>(sum / all);
  }
  return mean;
}

Summary summarise(const Prepared& prepared, std::span<const WorkerResult> results,
                  std::span<const std::span<const float>> models, bool own_models,
                  std::span<const PeerId> whose) {
  const Job& job = prepared.job;
  Summary s;
  s.job = job.name;
  s.method = job.exchange.method;
  s.codec = job.exchange.codec;
  s.topology = job.graph.kind;
  s.staleness = staleness_text(job.exchange.staleness);
  s.peers = job.peers.size();
  s.steps = prepared.rounds;
  std::vector<PeerId> peers(whose.begin(), whose.end());
  for (PeerId p = 0; whose.empty() && p < results.size(); ++p) peers.push_back(p);
  double rows = 0, data_bytes = 0, entries = 0, batches = 0, dense_bytes = 0, steps = 0, dense_steps = 0;
  const auto count = static_cast<double>(results.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    const WorkerResult& r = results[i];
    const auto batch = static_cast<double>(job.peers[peers[i]].batch);
    s.train_loss += r.train_loss * batch;
    batches += batch;
    s.seconds = std::max(s.seconds, r.seconds);
    s.steps = std::min(s.steps, r.rounds);
    s.bytes_sent_per_peer += static_cast<double>(r.traffic.bytes_out) / count;
    s.staleness_mean += r.staleness_mean / count;
    s.staleness_max = std::max(s.staleness_max, static_cast<double>(r.staleness_max));
    rows += static_cast<double>(r.rows_here);
    s.samples_by_peer.push_back(r.rows);
    data_bytes += static_cast<double>(r.traffic.data_bytes_out);
    entries += static_cast<double>(r.traffic.data_entries_out);
    dense_bytes += static_cast<double>(r.dense_data_bytes);
    steps += static_cast<double>(r.rounds_here);
    dense_steps += static_cast<double>(r.dense_rounds_here);
    add_guards(r, s);
  }
  s.train_loss /= batches;
  s.data_bytes_sent_per_peer = data_bytes / count;
  s.samples_per_second = s.seconds > 0 ? rows / s.seconds : 0;
  if (prepared.total_samples > 0 && results.size() == job.peers.size())
    s.overshoot = static_cast<double>(s.samples()) / prepared.total_samples - 1;
  const auto parameters = static_cast<double>(prepared.parameters);
  s.bits_per_parameter = entries > 0 && parameters > 0 ? 8 * data_bytes / entries : 0;
  if (prepared.homogeneous() && steps > 0 && parameters > 0)
    s.bits_per_step = 8 * data_bytes / (steps * parameters);
  if (s.bits_per_step && job.exchange.dense_rounds > 0 && steps > dense_steps)
    s.coded_bits_per_step = 8 * (data_bytes - dense_bytes) / ((steps - dense_steps) * parameters);
  s.figures = mean_figures(results);
  if (!models.empty()) evaluate_models(prepared, models, peers, own_models, s);
  return s;
}

std::string to_json(const Summary& s) {
  nlohmann::ordered_json j{
      {"job", s.job},
      {"test_accuracy", s.has_accuracy ? number(s.test_accuracy) : nlohmann::json(nullptr)},
      {"test_loss", number(s.test_loss)},
      {"train_loss", number(s.train_loss)},
      {"seconds", number(s.seconds)},
      {"steps", s.steps},
      {"samples", s.samples()},
      {"samples_by_peer", s.samples_by_peer},
      {"samples_per_second", number(s.samples_per_second)},
      {"bytes_sent_per_peer", number(s.bytes_sent_per_peer)},
      {"data_bytes_sent_per_peer", number(s.data_bytes_sent_per_peer)},
      {"bits_per_parameter", number(s.bits_per_parameter)},
      {"consensus_distance", number(s.consensus_distance)},
      {"peers", s.peers},
      {"method", s.method},
      {"codec", s.codec},
      {"topology", s.topology},
      {"staleness", s.staleness},
      {"staleness_mean", number(s.staleness_mean)},
      {"staleness_max", number(s.staleness_max)},
      {"checkpoints", s.checkpoints},
      {"checkpoint_pause", s.checkpoint_pause_s},
      {"waited_by_peer", s.waited_by_peer},
      {"skipped_steps", s.skipped_steps},
      {"muted", s.muted},
      {"losses", json_of(s.losses)},
      {"closed_without", s.closed_without},
      {"idle_steps", s.idle_steps},
      {"held_back", s.held_back},
      {"queued_bytes_most", s.queued_bytes_most},
      {"control_frames_dropped", s.dropped_control}};
  const auto where_known = [&](const char* key, const std::optional<double>& value) {
    if (value) j[key] = number(*value);
  };
  where_known("bits_per_step", s.bits_per_step);
  where_known("coded_bits_per_step", s.coded_bits_per_step);
  where_known("overshoot", s.overshoot);
  if (!s.has_average) j["no_average"] = kNoAverage;
  where_known("peer_accuracy_mean", s.peer_accuracy_mean);
  where_known("peer_accuracy_min", s.peer_accuracy_min);
  where_known("ensemble_accuracy", s.ensemble_accuracy);
  where_known("ensemble_loss", s.ensemble_loss);
  where_known("vote_accuracy", s.vote_accuracy);
  if (s.virtual_seconds) j["virtual_seconds"] = number(*s.virtual_seconds);
  if (s.virtual_samples_per_second) j["virtual_samples_per_second"] = number(*s.virtual_samples_per_second);
  if (s.digest) j["digest"] = *s.digest;
  for (const optim::Figure& f : s.figures) j["figures"][f.name] = number(f.value);
  return json_line(j);
}

std::optional<Summary> parse_summary(const std::string& text) try {
  const auto j = nlohmann::ordered_json::parse(text);
  const auto value = [&](const char* key) {
    const auto at = j.find(key);
    return at == j.end() || at->is_null() ? std::nan("") : at->get<double>();
  };
  Summary s;
  s.job = j.at("job"), s.method = j.at("method"), s.codec = j.at("codec");
  s.topology = j.at("topology"), s.staleness = j.at("staleness");
  s.peers = j.at("peers"), s.steps = j.at("steps");
  if (const auto at = j.find("samples_by_peer"); at != j.end()) at->get_to(s.samples_by_peer);
  s.has_average = !j.contains("no_average");
  s.test_accuracy = value("test_accuracy"), s.has_accuracy = !s.has_average || std::isfinite(s.test_accuracy);
  s.test_loss = value("test_loss"), s.train_loss = value("train_loss"), s.seconds = value("seconds");
  s.samples_per_second = value("samples_per_second"), s.bytes_sent_per_peer = value("bytes_sent_per_peer");
  s.data_bytes_sent_per_peer = value("data_bytes_sent_per_peer");
  s.bits_per_parameter = value("bits_per_parameter"), s.consensus_distance = value("consensus_distance");
  s.staleness_mean = value("staleness_mean"), s.staleness_max = value("staleness_max");
  s.checkpoints = j.value("checkpoints", std::uint64_t{0});
  s.checkpoint_pause_s = j.value("checkpoint_pause", 0.0);
  if (const auto at = j.find("waited_by_peer"); at != j.end()) at->get_to(s.waited_by_peer);
  s.skipped_steps = j.value("skipped_steps", std::uint64_t{0});  // files of earlier versions have none
  s.muted = j.value("muted", std::vector<std::string>{});
  if (const auto at = j.find("losses"); at != j.end()) s.losses = losses_from(*at);
  s.closed_without = j.value("closed_without", std::uint64_t{0});
  s.idle_steps = j.value("idle_steps", std::uint64_t{0});
  s.held_back = j.value("held_back", std::uint64_t{0});
  s.queued_bytes_most = j.value("queued_bytes_most", std::uint64_t{0});
  s.dropped_control = j.value("control_frames_dropped", std::uint64_t{0});
  const auto where_known = [&](const char* key, std::optional<double>& field) {
    if (j.contains(key)) field = value(key);
  };
  where_known("bits_per_step", s.bits_per_step);
  where_known("coded_bits_per_step", s.coded_bits_per_step);
  where_known("overshoot", s.overshoot);
  where_known("peer_accuracy_mean", s.peer_accuracy_mean);
  where_known("peer_accuracy_min", s.peer_accuracy_min);
  where_known("ensemble_accuracy", s.ensemble_accuracy);
  where_known("ensemble_loss", s.ensemble_loss);
  where_known("vote_accuracy", s.vote_accuracy);
  where_known("virtual_seconds", s.virtual_seconds);
  where_known("virtual_samples_per_second", s.virtual_samples_per_second);
  if (j.contains("digest")) s.digest = j.at("digest");
  if (const auto at = j.find("figures"); at != j.end())
    for (const auto& [name, f] : at->items())
      s.figures.push_back({name, f.is_null() ? std::nan("") : f.get<double>()});
  return s;
} catch (const nlohmann::ordered_json::exception&) {
  return std::nullopt;
}

}  // namespace gossamer::node
