#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "aligned.h"
#include "commands.h"
#include "gossamer/node/job.h"
#include "gossamer/node/safetensors.h"
#include "gossamer/optim/data.h"
#include "gossamer/optim/ensemble.h"
#include "setup.h"
#include "task.h"
#include "text.h"

namespace gossamer::node {
namespace {

struct EvaluateOptions {
  std::string job;
  std::vector<std::string> models, overrides;
  std::string table;
  bool json = false, ensemble = false;
};

/// What a model is computed by, and its parameters.
struct SavedModel {
  std::unique_ptr<optim::Model> model;
  AlignedFloats x;
};

/// The hidden sizes of the job's models: of the peers, and last the job's own.
std::vector<std::vector<std::size_t>> all_hidden(const Job& job) {
  std::vector<std::vector<std::size_t>> all;
  if (job.heterogeneous())
    for (const PeerEntry& peer : job.peers) all.push_back(job.hidden_of(peer));
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  all.push_back(job.model.hidden);
  return all;
}

/// A model of those hidden sizes of the job that the file holds.
SavedModel read_model(const std::string& path, const Job& job, optim::ModelSpec spec) {
  const auto choices = all_hidden(job);
  SavedModel model;
  for (std::size_t i = 0; i < choices.size(); ++i) try {
      spec.hidden = choices[i];
      model.model = optim::make_model(spec);
      model.x.resize(model.model->buffer_size());
      read_safetensors(path, model.model->layers(), model.x);
      break;
    } catch (const ConfigError&) {
      if (i + 1 == choices.size()) throw;
    }
  check_finite(path, model.model->layers(), model.x);
  return model;
}

bool same_shape(const optim::Model& a, const optim::Model& b) {
  return std::equal(a.layers().begin(), a.layers().end(), b.layers().begin(), b.layers().end(),
                    [](const auto& x, const auto& y) { return x.offset == y.offset && x.size == y.size; });
}

/// The mean of the models, in double precision so that their number does not matter.
AlignedFloats mean_model(const std::vector<SavedModel>& models, const EvaluateOptions& options) {
  AlignedFloats x(models.front().x.size());
  std::vector<double> sum(x.size());
  for (std::size_t m = 0; m < models.size(); ++m) {
    if (!same_shape(*models[m].model, *models.front().model))
      throw ConfigError(
          fmt::format("{} and {} have different hidden sizes, so that they have no mean; use --ensemble",
                      options.models.front(), options.models[m]));
    for (std::size_t i = 0; i < x.size(); ++i) sum[i] += static_cast<double>(models[m].x[i]);
  }
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(sum[i] / static_cast<double>(models.size()));
  return x;
}

void print(const EvaluateOptions& options, const optim::Evaluation& result) {
  if (options.json) {
    nlohmann::ordered_json out{{"loss", result.loss()}, {"accuracy", nullptr}, {"rows", result.rows}};
    if (result.has_accuracy) out["accuracy"] = result.accuracy();
    out["models"] = options.models;
    std::cout << out.dump(2) << '\n';
    return;
  }
  if (result.has_accuracy) std::cout << "test accuracy  " << number_text(result.accuracy()) << '\n';
  std::cout << "test loss      " << number_text(result.loss()) << '\n'
            << "test rows      " << result.rows << '\n';
  if (options.models.size() > 1) std::cout << "mean of        " << options.models.size() << " models\n";
}

/// Of each model by itself and of all together.
void print_ensemble(const EvaluateOptions& options, const std::vector<SavedModel>& models,
                    const optim::Dataset& test) {
  std::vector<optim::Member> members;
  std::vector<double> own;
  for (const SavedModel& m : models) {
    members.push_back({m.model.get(), m.x});
    own.push_back(optim::evaluate(*m.model, m.x, test).accuracy());
  }
  const optim::EnsembleEvaluation all = optim::evaluate_ensemble(members, test);
  if (options.json) {
    const nlohmann::ordered_json out{{"ensemble_accuracy", all.mean_output.accuracy()},
                                     {"ensemble_loss", all.mean_output.loss()},
                                     {"vote_accuracy", all.vote_accuracy()},
                                     {"accuracies", own},
                                     {"rows", all.mean_output.rows},
                                     {"models", options.models}};
    std::cout << out.dump(2) << '\n';
    return;
  }
  for (std::size_t m = 0; m < models.size(); ++m)
    std::cout << "accuracy       " << number_text(own[m]) << "  " << options.models[m] << '\n';
  std::cout << "mean output    " << number_text(all.mean_output.accuracy()) << '\n'
            << "vote           " << number_text(all.vote_accuracy()) << '\n'
            << "mean's loss    " << number_text(all.mean_output.loss()) << '\n'
            << "test rows      " << all.mean_output.rows << '\n';
}

/// A model of sparse samples, with its rows.
void evaluate_rows(const EvaluateOptions& options, Job job) {
  if (options.table.empty() || options.models.size() > 1 || options.ensemble)
    throw ConfigError(fmt::format(
        "{}: model '{}' learns by key; expected --table FILE with its rows, and at most one MODEL beside "
        "them",
        options.job, job.model.kind));
  job.sparse.initial = options.table;
  job.sparse.table.memory = 0;  // of whoever learns: here all rows are looked at
  if (!options.models.empty()) job.initial = options.models.front();
  const Prepared prepared = prepare(std::move(job));
  if (!prepared.layers.empty() && options.models.empty())
    throw ConfigError(
        fmt::format("{}: model '{}' has dense parameters beside its table; expected their safetensors "
                    "file as MODEL",
                    options.job, prepared.job.model.kind));
  const optim::Figures figures = make_objective(prepared, 0)->evaluate(prepared.initial);
  if (!optim::find_figure(figures, "loss"))
    throw ConfigError(fmt::format(
        "{}: there are no test samples; expected data.test_path, or --set data.test_path=FILE", options.job));
  nlohmann::ordered_json out;
  for (const optim::Figure& f : figures) {
    if (f.name.starts_with("progressive")) continue;  // nothing was learned here
    out[f.name] = std::isfinite(f.value) ? nlohmann::ordered_json(f.value) : nlohmann::ordered_json(nullptr);
    if (!options.json) fmt::print("{:<14} {}\n", f.name, number_text(f.value));
  }
  if (options.json) std::cout << out.dump(2) << '\n';
}

[[noreturn]] void evaluate_task(const EvaluateOptions& options, const Job& job) {
  std::vector<std::string> words = task_words("evaluate", job, options.job, options.overrides);
  words.insert(words.end(), options.models.begin(), options.models.end());
  if (options.json) words.emplace_back("--json");
  become_task(words);
}

void evaluate_models(const EvaluateOptions& options) {
  const Job job = load_job(options.job, options.overrides);
  if (job.learns_by_key()) return evaluate_rows(options, job);
  if (job.is_task()) evaluate_task(options, job);
  if (options.models.empty() || !options.table.empty())
    throw ConfigError(
        fmt::format("{}: model '{}' has no table; expected MODEL, a safetensors file, and no --table",
                    options.job, job.model.kind));
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  optim::set_blas_threads(job.run.threads > 0 ? job.run.threads : cores);
  const optim::Data data = optim::load_data(job.data);
  optim::ModelSpec spec = job.model;
  spec.features = data.train->features();
  spec.classes = data.train->classes();
  std::vector<SavedModel> models;
  for (const std::string& path : options.models) models.push_back(read_model(path, job, spec));
  if (options.ensemble) return print_ensemble(options, models, *data.test);
  print(options, optim::evaluate(*models.front().model, mean_model(models, options), *data.test));
}

}  // namespace

void add_evaluate_command(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("evaluate", "Test accuracy and loss of a model");
  const auto options = std::make_shared<EvaluateOptions>();
  command->add_option("JOB", options->job, "Job file: the kind of model and the data")->required();
  command->add_option("MODEL", options->models, "Safetensors files; of several their mean is evaluated")
      ->expected(-1);
  command->add_option("--table", options->table,
                      "Rows that a run of a model by key saved (peers/NAME.table)");
  command->add_option("--set", options->overrides, "KEY=VALUE in place of what the files say; repeatable")
      ->allow_extra_args(false);
  command->add_flag("--ensemble", options->ensemble,
                    "Each model by itself, the mean of their outputs and their vote, in place of their mean");
  command->add_flag("--json", options->json, "Print one JSON object");
  command->callback([options, &status] {
    evaluate_models(*options);
    status = kExitOk;
  });
}

}  // namespace gossamer::node
