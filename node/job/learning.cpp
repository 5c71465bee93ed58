#include "learning.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "config_fields.h"
#include "config_words.h"
#include "sparse_rows.h"
#include "text.h"

namespace gossamer::node::config {
namespace {

bool has(std::span<const optim::NamedHelp> rows, std::string_view name) {
  return std::any_of(rows.begin(), rows.end(), [&](const auto& row) { return row.name == name; });
}

void refuse(const Draft& draft, const std::string& key, const std::string& what) {
  throw ConfigError(fmt::format("{}: {}", draft.where(key), what));
}

/// A key of [table] that is not as it would be by itself, of a model that has none.
void check_no_table(Draft draft) {
  Draft defaults;
  for (const Key<Draft>& key : sparse_keys("table."))
    if (value_text(key, draft) != value_text(key, defaults))
      refuse(draft, key.name,
             fmt::format("{} is of tables, and model '{}' has none; leave [table] out, or use one of {}",
                         key.name, draft.job.model.kind, join(names_of(optim::sparse_model_table()), ", ")));
}

void check_samples(const Draft& draft) {
  const Job& job = draft.job;
  const optim::SampleStreamSpec& samples = job.sparse.samples;
  const bool made_up = job.data.format == kPlanted, command = !samples.command.empty();
  if (!made_up && job.data.path.empty() && !command)
    refuse(draft, "data.format",
           fmt::format(
               "data.format is '{}' without data.path or data.command; expected one of them under [data]",
               job.data.format));
  if (!job.data.path.empty() && command)
    refuse(draft, "data.command",
           "both data.path and data.command say where samples come from; expected one");
  if (command && samples.follow)
    refuse(draft, "data.follow",
           "data.follow waits for what is appended to files, and data.command is read to its end; expected "
           "data.path, or a command that goes on, as tail -f does, without data.follow");
  if (!job.data.test_path.empty() && !job.sparse.test_command.empty())
    refuse(draft, "data.test_command", "both data.test_path and data.test_command are given; expected one");
  if (job.data.path == "-" && job.peers.size() > 1)
    refuse(draft, "data.path",
           fmt::format(
               "standard input can be read by one peer only, and there are {}; use data.command or a file",
               job.peers.size()));
  if ((command || samples.follow || job.data.path == "-") && job.run.rounds == 0)
    refuse(draft,
           command          ? "data.command"
           : samples.follow ? "data.follow"
                            : "data.path",
           "nobody can tell how many samples will come, so that run.epochs means nothing; expected "
           "run.rounds = N");
  if (job.split != "local_shuffle" && !job.split.starts_with("dirichlet:"))
    refuse(
        draft, "data.split",
        fmt::format("data.split is '{}', and samples that are streamed are shared out one by one; expected "
                    "local_shuffle or dirichlet:ALPHA",
                    job.split));
  if (job.sparse.table.memory > 0 && job.sparse.table.memory < (256 << 10))
    refuse(draft, "table.memory",
           fmt::format("table.memory is {} bytes; expected at least 256KiB, or 0 for no limit",
                       job.sparse.table.memory));
}

}  // namespace

void check_learning(const Draft& draft) {
  const Job& job = draft.job;
  const bool samples = has(sample_rows(), job.data.format),
             rows = has(optim::data_format_table(), job.data.format);
  if (job.is_task() && job.task.empty())
    refuse(draft, "model.kind",
           "model.kind is \"python\" without model.file; expected file = \"task.py\" under [model]");
  if (!job.learns_by_key()) {
    check_no_table(draft);
    if (!rows)
      refuse(
          draft, "data.format",
          fmt::format(
              "data.format '{}' holds samples of keys, and model '{}' learns from rows of numbers; expected "
              "data of {}, or a model of {}",
              job.data.format, job.model.kind, join(names_of(optim::data_format_table()), ", "),
              join(names_of(optim::sparse_model_table()), ", ")));
    return;
  }
  if (!samples)
    refuse(draft, "data.format",
           fmt::format(
               "data.format '{}' holds rows of numbers, and model '{}' learns from samples of keys; expected "
               "one of {}",
               job.data.format, job.model.kind, join(names_of(sample_rows()), ", ")));
  check_samples(draft);
}

}  // namespace gossamer::node::config
