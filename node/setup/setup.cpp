#include "setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "gossamer/compress/feedback.h"
#include "gossamer/node/safetensors.h"
#include "hash.h"
#include "length.h"
#include "machine.h"
#include "plan.h"
#include "row_soundness.h"
#include "run_checkpoints.h"
#include "shapes.h"
#include "soundness.h"
#include "text.h"
#include "view_run.h"
#include "view_table.h"

namespace gossamer::node {
namespace {

constexpr std::size_t kReadAheadThreads = 1;

void check_memory(const Job& job, const std::string& key, double floats, const std::string& what) {
  const double bytes = floats * sizeof(float), most = static_cast<double>(free_memory());
  if (bytes > most)
    throw ConfigError(
        fmt::format("{}: {} take {} of memory; expected at most the {} that are free here: lower {}",
                    job.where(key), what, bytes_text(bytes), bytes_text(most), key));
}

/// A peer's parameters and gradient, and a batch with what the layers make of it.
void check_model(const Job& job, const optim::Model& objective) {
  check_memory(job, "model.hidden", 2 * static_cast<double>(objective.buffer_size()),
               fmt::format("{} parameters and their gradient", objective.parameters()));
  const PeerEntry* most = nullptr;
  double most_floats = 0;
  for (const auto& peer : job.peers) {
    auto floats = static_cast<double>(job.model.features + job.model.classes);
    if (optim::model_traits(job.model.kind).hidden)
      for (const std::size_t units : job.hidden_of(peer)) floats += static_cast<double>(units);
    floats *= static_cast<double>(peer.batch);
    if (floats > most_floats) most = &peer, most_floats = floats;
  }
  if (most)
    check_memory(job, "optimizer.batch", most_floats,
                 fmt::format("{} rows a step (peer '{}')", most->batch, most->name));
}

void check_data(const Job& job, const optim::Data& data) {
  if (data.test->features() != data.train->features())
    throw ConfigError(
        fmt::format("{}: training rows have {} features and test rows {}; they must be the same", job.path,
                    data.train->features(), data.test->features()));
  if (data.train->classes() < 2 && optim::model_traits(job.model.kind).classifier)
    throw ConfigError(fmt::format("{}: model '{}' needs labels of at least 2 classes; the data has {}",
                                  job.path, job.model.kind, data.train->classes()));
}

void check_layer_names(const Job& job, const std::vector<optim::Layer>& layers) {
  std::vector<std::string> names;
  for (const auto& l : layers) names.push_back(l.name);
  for (const auto& [name, density] : job.exchange.layer_density) {
    const std::vector<compress::LayerDensity> rule{{name, 0, density}};
    if (std::none_of(layers.begin(), layers.end(),
                     [&](const auto& l) { return compress::density_of_layer(rule, l.name, l.size, 0) > 0; }))
      throw ConfigError(
          fmt::format("{}: exchange.layer_density names layer '{}', which model '{}' has not; "
                      "its layers are {}{}",
                      job.path, name, job.model.kind, join(names, ", "), did_you_mean(name, names)));
  }
}

void add_layer_text(const std::vector<optim::Layer>& layers, std::string& text) {
  for (const auto& l : layers) text += fmt::format("{}:{}+{} ", l.name, l.offset, l.size);
}

/// The tables of all shapes in the run, each once.
std::string layer_text(const Prepared& prepared) {
  std::string text;
  if (prepared.homogeneous()) add_layer_text(prepared.layers, text);
  std::set<const Shape*> seen;
  for (const auto& shape : prepared.shapes)
    if (seen.insert(shape.get()).second) add_layer_text(shape->layers, text);
  return text;
}

bool same_layers(const std::vector<optim::Layer>& a, const std::vector<optim::Layer>& b) {
  std::string text_a, text_b;
  add_layer_text(a, text_a);
  add_layer_text(b, text_b);
  return text_a == text_b;
}

std::uint64_t parameters_hash(const Prepared& prepared) {
  if (prepared.homogeneous()) return hash_floats(prepared.initial);
  std::uint64_t hash = 0;
  for (const auto& shape : prepared.shapes)
    hash = hash_bytes(std::as_bytes(std::span<const float>(shape->initial)), hash);
  return hash;
}

/// Peers must take the same algorithm, and what they choose it by (their files' links) may differ: "ring 0-1,
/// halving_doubling 2".
std::string allreduce_text(const Plan& plan) {
  if (!has_algorithms(find_method(plan.exchange.method), plan)) return {};
  const std::vector<bool> halves = halving_parcels(plan.allreduce, plan.parcels);
  std::string ring, halving;
  for (std::size_t p = 0, end; p < plan.parcels.size(); p = end) {
    for (end = p + 1; end < plan.parcels.size() && halves[end] == halves[p];) ++end;
    (halves[p] ? halving : ring) += end == p + 1 ? fmt::format(" {}", p) : fmt::format(" {}-{}", p, end - 1);
  }
  if (!ring.empty()) ring.insert(0, "ring");
  if (!halving.empty()) halving.insert(0, "halving_doubling");
  return ring + (ring.empty() || halving.empty() ? "" : ", ") + halving;
}

std::uint64_t topology_hash(const Job& job, const topology::Schedule& schedule) {
  std::uint64_t hash = hash_text(job.graph.kind);
  for (std::size_t t = 0; t < schedule.period(); ++t)
    for (PeerId i = 0; i < job.peers.size(); ++i)
      for (const auto& e : schedule.at(t).in(i)) {
        const struct {
          std::uint32_t to, from;
          float weight;
        } entry{i, e.peer, e.weight};
        hash = hash_bytes(std::as_bytes(std::span(&entry, 1)), hash);
      }
  return hash;
}

HelloBody hello_of(const Prepared& p, const Plan& plan) {
  HelloBody hello;
  hello.job_text = to_toml(p.job, true);
  if (p.learner.objective) {
    hello.job_text += fmt::format("{}steps_per_epoch = {}\n", kLoopTable, p.rounds_per_epoch);
    if (p.learner.rows) hello.job_text += fmt::format("rows = {}\n", p.learner.rows->rows());
    for (const auto& [key, text] :
         {std::pair("alike", p.learner.alike), std::pair("arrays", p.learner.arrays),
          std::pair("steps", p.learner.steps)})
      if (!text.empty()) hello.job_text += fmt::format("{} = {}\n", key, in_quotes(text));
  }
  hello.job_hash = hash_text(hello.job_text);
  hello.topology_hash = topology_hash(p.job, plan.schedule);
  hello.layers = layer_text(p);
  hello.allreduce = allreduce_text(plan);
  hello.parameters_hash = parameters_hash(p);
  hello.data_hash = p.hello.data_hash;
  return hello;
}

/// Model and data as the job says.
std::unique_ptr<optim::Objective> load_objective(Prepared& p) {
  if (p.job.is_task())
    throw ConfigError(
        fmt::format("{}: the model stands in '{}', and a Python computes it; expected gossamer run, peer, "
                    "sim or evaluate, which start one",
                    p.job.where("model.kind"), p.job.task));
  if (p.job.learns_by_key()) {
    p.clicks = survey(p.job);
    return make_objective(p, 0);
  }
  p.data = p.learner.data.train ? p.learner.data : load_rows(p.job);
  check_data(p.job, p.data);
  p.job.model.features = p.data.train->features();
  p.job.model.classes = p.data.train->classes();
  check_model(p.job, *make_model(p));
  p.split = deal(p);
  return make_objective(p, 0);
}

/// The learner's.
std::unique_ptr<optim::Objective> ask_for_objective(Prepared& p, PeerId self) {
  if (p.job.heterogeneous())
    throw ConfigError(
        fmt::format("{}: peers have hidden sizes of their own, and the program brings its own "
                    "model; expected no peer.hidden",
                    p.job.path));
  auto objective = p.learner.objective(self);
  if (!objective)
    throw ConfigError(fmt::format("{}: the program gave no model; expected one for every peer", p.job.path));
  if (find_method(p.job.exchange.method).needs.classifier && objective->classes() == 0)
    throw ConfigError(
        fmt::format("{}: method '{}' joins class probabilities, and the program's model gives "
                    "none; use another method",
                    p.job.path, p.job.exchange.method));
  p.job.model.classes = objective->classes();
  if (!p.learner.rows) return objective;
  p.data.train = p.learner.rows;
  p.split = deal(p);
  return objective;
}

/// Hands on what was dealt, where the program leaves that to the job.
std::unique_ptr<optim::Objective> with_rows(const Prepared& p, PeerId peer,
                                            std::unique_ptr<optim::Objective> objective,
                                            std::shared_ptr<optim::DataCourse> course,
                                            std::uint64_t first_step) {
  if (p.learner.rows)
    objective->deal({p.split.get(), peer, p.job.peers[peer].batch, std::move(course), first_step});
  return objective;
}

/// The peer's number, but for the planted bug.
std::size_t place_in_split(const Prepared& p, PeerId peer) {
  if (!p.planted.is(Bug::rows_of_old_number)) return peer;
  const auto old = std::find_if(p.homes.begin(), p.homes.end(),
                                [&](const optim::RowHome& home) { return home.name == p.names[peer]; });
  return old == p.homes.end() ? peer : static_cast<std::size_t>(old - p.homes.begin()) % p.job.peers.size();
}

/// A slice of what goes round by a dense all-reduce is a few frames: the next one is under way meanwhile, so
/// that links are never idle (of a link of 1 Gbit/s 4 peers use 96 % for 25 MB, and 75 % with slices of 4
/// MB).
std::size_t largest_parcel(const Job& job, const Plan& plan) {
  constexpr std::size_t kFrames = 4, kHeader = 16;
  const bool reduces = has_algorithms(find_method(plan.exchange.method), plan);
  const std::size_t most = plan.schedule.peers() * (kFrames * kChunkBytes / sizeof(float) - kHeader);
  return reduces ? std::min(job.exchange.parcel, most) : job.exchange.parcel;
}

}  // namespace

/// What synthetic data cannot be made of is one of the job's numbers.
optim::Data load_rows(const Job& job) {
  if (job.is_task() || job.learns_by_key()) return {};
  optim::DataSpec spec = job.data;
  spec.memory = free_memory();
  try {
    return optim::load_data(spec);
  } catch (const optim::OptimError& error) {
    if (!optim::data_format_traits(spec.format).synthetic) throw;
    const std::pair<std::size_t, const char*> largest =
        std::max({std::pair{spec.rows, "data.rows"}, std::pair{spec.test_rows, "data.test_rows"},
                  std::pair{spec.features, "data.features"}, std::pair{spec.classes, "data.classes"}});
    throw ConfigError(fmt::format("{}: {}", job.where(largest.second), error.what()));
  }
}

Prepared prepare(Job job, Learner learner, PeerId self) {
  Prepared p;
  p.job = std::move(job);
  find_initial_rows(p.job);
  p.learner = std::move(learner);
  const Job& j = p.job;
  auto objective = p.learner.objective ? ask_for_objective(p, self) : load_objective(p);
  set_length(p, p.learner.rows ? p.split->sampler(0)->steps_per_epoch() : objective->steps_per_epoch());
  check_exchanges(p);
  if (optim::KeyedRows* rows = objective->keyed_rows(); rows && exchanges_rows(j)) {
    check_rows(j);
    p.rows = rows_of(j, rows->table().spec());
  }
  p.layers = objective->layers();
  p.parameters = objective->parameters();
  p.classes = objective->classes();
  p.hello.data_hash = p.learner.rows ? p.learner.rows->hash() : objective->data_hash();
  check_layer_names(j, p.layers);
  AlignedFloats initial(objective->buffer_size());
  if (j.initial.empty())
    objective->initialise(j.run.seed, initial);
  else if (std::filesystem::is_directory(j.initial))
    read_run_parameters(j.initial, p.layers, initial);
  else
    read_safetensors(j.initial, p.layers, initial);
  if (!j.initial.empty()) check_finite(j.initial, p.layers, initial);
  p.initial = std::move(initial);
  p.shapes = shapes_of(p);
  p.names = j.peer_names();
  make_plan(p);
  if (p.learner.objective) {
    p.first_objective = std::make_shared<std::unique_ptr<optim::Objective>>(std::move(objective));
    p.first_peer = self;
  }
  return p;
}

void make_plan(Prepared& p) {
  Plan plan = make_plan(p.job, 0);
  p.codecs = std::make_shared<const CodecSchedule>(p.job.exchange, p.layers, p.rounds_per_epoch);
  std::vector<Parcel> parcels = make_parcels(p.layers, largest_parcel(p.job, plan));
  for (Parcel& parcel : parcels) parcel.dense = p.codecs->always_dense(parcel.layer);
  plan.parcels = std::move(parcels);
  plan.parcels_by_peer = parcels_by_peer(p);
  if (p.rows) plan.rows = std::make_shared<const RowPlan>(row_plan(p.job, *p.rows, plan.schedule));
  p.shapes = with_codecs(p);
  p.hello = hello_of(p, plan);
  p.plan = std::make_shared<const Plan>(std::move(plan));
}

std::unique_ptr<optim::Model> make_model(const Prepared& prepared) {
  return optim::make_model(prepared.job.model);
}

std::unique_ptr<optim::Model> make_model(const Prepared& prepared, PeerId peer) {
  return optim::make_model(prepared.homogeneous() ? prepared.job.model : prepared.shapes[peer]->model);
}

Plan plan_of(const Prepared& prepared, PeerId self) {
  Plan plan = *prepared.plan;
  plan.self = self;
  plan.parcels = prepared.plan->parcels_of(self);
  plan.planted = prepared.planted;
  return plan;
}

std::vector<PeerId> Prepared::links_of(PeerId peer) const {
  std::vector<PeerId> links = plan->schedule.links(peer);
  for (const auto& pairs : {bridges, plan->former})
    for (const auto& [a, b] : pairs)
      if (a == peer || b == peer) links.push_back(a == peer ? b : a);
  std::sort(links.begin(), links.end());
  links.erase(std::unique(links.begin(), links.end()), links.end());
  return links;
}

PeerId find_peer(const Job& job, const std::string& name, const std::string& asked) {
  const auto names = job.peer_names();
  const auto at = std::find(names.begin(), names.end(), name);
  if (at == names.end())
    throw ConfigError(fmt::format("{}: no such peer in the topology; its peers are {}{}", asked,
                                  join(names, ", "), did_you_mean(name, names)));
  return static_cast<PeerId>(at - names.begin());
}

optim::RowObjectiveParts row_objective_parts(const Prepared& prepared, PeerId peer,
                                             std::shared_ptr<optim::Model> model, bool prefetch,
                                             std::shared_ptr<optim::DataCourse> course,
                                             std::uint64_t first_step) {
  if (prepared.planted.is(Bug::pass_begun_anew)) course = nullptr;
  return {.model = model ? std::move(model) : std::shared_ptr(make_model(prepared, peer)),
          .teachers = {},
          .train = prepared.data.train,
          .test = prepared.data.test,
          .split = prepared.split.get(),
          .peer = place_in_split(prepared, peer),
          .batch = prepared.job.peers[peer].batch,
          .prefetch = prefetch,
          .course = std::move(course),
          .first_step = first_step};
}

std::unique_ptr<optim::Objective> make_objective(const Prepared& prepared, PeerId peer,
                                                 std::shared_ptr<optim::Model> model, bool prefetch,
                                                 std::shared_ptr<optim::DataCourse> course,
                                                 std::uint64_t first_step) {
  if (prepared.learner.objective) {
    if (peer == prepared.first_peer && *prepared.first_objective)
      return with_rows(prepared, peer, std::move(*prepared.first_objective), std::move(course), first_step);
    auto objective = prepared.learner.objective(peer);
    if (!objective || !same_layers(objective->layers(), prepared.layers))
      throw ConfigError(
          fmt::format("{}: the program's model of peer '{}' has other layers than that of '{}'; "
                      "expected the same of all peers",
                      prepared.job.path, prepared.names[peer], prepared.names[prepared.first_peer]));
    return with_rows(prepared, peer, std::move(objective), std::move(course), first_step);
  }
  if (prepared.job.learns_by_key())
    return optim::make_click_objective(click_parts(prepared.job, prepared.clicks, peer,
                                                   prefetch ? kReadAheadThreads : 0, std::move(course)));
  optim::RowObjectiveParts parts =
      row_objective_parts(prepared, peer, std::move(model), prefetch, std::move(course), first_step);
  if (prepared.plan)
    for (const PeerId p : buffers_of(plan_of(prepared, peer)).models)
      parts.teachers.push_back(prepared.homogeneous() || prepared.shapes[p] == prepared.shapes[peer]
                                   ? parts.model
                                   : std::shared_ptr(make_model(prepared, p)));
  return optim::make_row_objective(std::move(parts));
}

std::shared_ptr<optim::DataCourse> new_course(const Job& job) {
  return job.least_peers() < job.peers.size() ? std::make_shared<optim::DataCourse>() : nullptr;
}

WorkerSpec worker_spec(const Prepared& prepared, PeerId self, std::uint64_t epoch, std::uint64_t session) {
  const Job& job = prepared.job;
  WorkerSpec spec{plan_of(prepared, self), {}};
  spec.membership.planted = prepared.planted;
  spec.membership.self = self;
  spec.membership.names = prepared.names;
  spec.membership.links = prepared.links_of(self);
  spec.membership.epoch = epoch;
  spec.membership.join_timeout_s = job.run.join_timeout;
  spec.membership.silence_timeout_s = job.run.silence_timeout;
  HelloBody& hello = spec.membership.hello;
  hello = prepared.hello;
  hello.name = job.peers[self].name;
  spec.job_id = hash_bytes(std::as_bytes(std::span(&hello.job_hash, 1)), session);
  spec.rounds = prepared.rounds;
  spec.total_samples = prepared.total_samples;
  spec.rounds_per_epoch = static_cast<double>(prepared.rounds_per_epoch);
  spec.learning_rate = job.optimizer.learning_rate;
  spec.classes = prepared.classes;
  if (self == 0 && job.run.evaluate_every > 0)
    spec.evaluate_every = std::max<std::uint64_t>(
        1, static_cast<std::uint64_t>(std::llround(job.run.evaluate_every * spec.rounds_per_epoch)));
  spec.report_every_s = job.run.report_every;
  spec.drain_timeout_s = job.run.drain_timeout;
  spec.stall_timeout_s = job.run.stall_timeout;
  spec.skip_limit = job.run.skip_limit;
  spec.mute_after = job.run.mute_after;
  return spec;
}

}  // namespace gossamer::node
