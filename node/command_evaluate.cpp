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
#include "text.h"

namespace gossamer::node {
namespace {

struct Options {
  std::string job;
  std::vector<std::string> models, overrides;
  bool json = false;
};

/// The mean of the models, in double precision so that their number does not matter.
AlignedFloats mean_model(const std::vector<std::string>& paths, const optim::Objective& objective) {
  AlignedFloats x(objective.buffer_size());
  std::vector<double> sum(x.size());
  for (const std::string& path : paths) {
    read_safetensors(path, objective.layers(), x);
    for (std::size_t i = 0; i < x.size(); ++i) sum[i] += static_cast<double>(x[i]);
  }
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(sum[i] / static_cast<double>(paths.size()));
  return x;
}

void print(const Options& options, const optim::Evaluation& result) {
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

void evaluate_models(const Options& options) {
  const Job job = load_job(options.job, options.overrides);
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  optim::set_blas_threads(job.run.threads > 0 ? job.run.threads : cores);
  const optim::Data data = optim::load_data(job.data);
  optim::ObjectiveSpec spec = job.model;
  spec.features = data.train->features();
  spec.classes = data.train->classes();
  const auto objective = optim::make_objective(spec);
  const AlignedFloats x = mean_model(options.models, *objective);
  print(options, optim::evaluate(*objective, x, *data.test));
}

}  // namespace

void add_evaluate_command(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("evaluate", "Test accuracy and loss of a model");
  const auto options = std::make_shared<Options>();
  command->add_option("JOB", options->job, "Job file: the kind of model and the data")->required();
  command->add_option("MODEL", options->models, "Safetensors files; of several their mean is evaluated")
      ->required()
      ->expected(-1);
  command->add_option("--set", options->overrides, "KEY=VALUE in place of what the files say; repeatable")
      ->allow_extra_args(false);
  command->add_flag("--json", options->json, "Print one JSON object");
  command->callback([options, &status] {
    evaluate_models(*options);
    status = kExitOk;
  });
}

}  // namespace gossamer::node
