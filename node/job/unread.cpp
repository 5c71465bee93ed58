#include "unread.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "config_fields.h"
#include "exchange.h"
#include "sparse_rows.h"
#include "text.h"

namespace gossamer::node::config {
namespace {

using Table = std::span<const optim::NamedHelp>;

Table graph_rows() {
  static const std::vector<optim::NamedHelp> rows = [] {
    std::vector<optim::NamedHelp> all;
    for (const topology::GraphKind& kind : topology::graph_table())
      all.push_back({kind.name, kind.help, kind.reads});
    return all;
  }();
  return rows;
}

/// Dense formats, and those of samples: csv is there twice, and means another reader.
const std::string kCsvSamples = "csv of samples";
Table data_rows() {
  static const std::vector<optim::NamedHelp> rows = [] {
    std::vector<optim::NamedHelp> all(optim::data_format_table().begin(), optim::data_format_table().end());
    for (const optim::NamedHelp& row : sample_rows())
      all.push_back(
          {row.name == std::string_view("csv") ? kCsvSamples.c_str() : row.name, row.help, row.reads});
    return all;
  }();
  return rows;
}
const std::string& data_name(const Job& job) {
  return job.learns_by_key() && job.data.format == "csv" ? kCsvSamples : job.data.format;
}

/// A key that holds a name of a table, whose rows say which keys of the same section they read.
struct Choice {
  std::string_view key;
  const char* called;
  const std::string& (*name)(const Job&);
  Table (*table)();
  Chosen chosen = Chosen::kOthers;

  std::string_view section() const { return key.substr(0, key.find('.') + 1); }
};

template <auto Section, auto Name>
const std::string& name_in(const Job& job) {
  return job.*Section.*Name;
}

const std::string& row_optimizer(const Job& job) { return job.sparse.table.optimizer; }

constexpr Choice kChoices[] = {
    {"model.kind", "model", name_in<&Job::model, &optim::ModelSpec::kind>, model_rows},
    {"data.format", "data format", data_name, data_rows},
    {"optimizer.kind", "optimizer", name_in<&Job::optimizer, &optim::OptimizerSpec::kind>,
     optim::optimizer_table},
    {"optimizer.schedule", "schedule", name_in<&Job::optimizer, &optim::OptimizerSpec::schedule>,
     optim::rate_schedule_table},
    {"table.optimizer", "row optimiser", row_optimizer, row_optimizer_rows},
    {"table.exchange", "exchange of rows", name_in<&Job::sparse, &SparseSection::exchange>,
     row_exchange_rows},
    {"graph.kind", "graph", name_in<&Job::graph, &topology::GraphSpec::kind>, graph_rows},
    {"exchange.method", "method", name_in<&Job::exchange, &ExchangeSettings::method>, method_table,
     Chosen::kMethod},
};

void add_unread(const Key<Draft>& key, Draft& draft, Draft& defaults, const Choice& choice,
                std::vector<UnreadKey>& unread) {
  if (!std::string_view(key.name).starts_with(choice.section())) return;
  const std::string_view own = std::string_view(key.name).substr(choice.section().size());
  const std::string& name = choice.name(draft.job);
  if (optim::reads(choice.table(), name, own)) return;
  const std::string value = value_text(key, draft), fallback = value_text(key, defaults);
  if (value == fallback) return;
  UnreadKey& found = unread.emplace_back(
      UnreadKey{key.name, value, fallback, fmt::format("{} '{}'", choice.called, name), {}});
  for (const optim::NamedHelp& row : choice.table())
    if (optim::reads(choice.table(), row.name, own)) found.readers.emplace_back(row.name);
}

}  // namespace

std::vector<UnreadKey> unread_keys(Draft draft, Chosen chosen) {
  std::vector<UnreadKey> unread;
  Draft defaults;
  for (const auto& table : {job_key_table(), topology_key_table()})
    for (const Key<Draft>& key : table)
      for (const Choice& choice : kChoices)
        if (choice.chosen == chosen) add_unread(key, draft, defaults, choice, unread);
  return unread;
}

std::vector<UnreadKey> unread_keys(const ExchangeSettings& exchange) {
  Draft draft;
  draft.job.exchange = exchange;
  return unread_keys(draft, Chosen::kMethod);
}

FileWords words_of_file(const Draft& draft) { return {draft.origins, unread_keys(draft, Chosen::kOthers)}; }

void settle_unread(const FileWords& file, Draft& draft) {
  for (const UnreadKey& key : unread_keys(draft, Chosen::kOthers)) {
    const auto was = file.origins.find(key.name);
    const bool overridden = was == file.origins.end() || was->second != draft.where(key.name);
    const bool unread_in_file = std::any_of(file.unread.begin(), file.unread.end(),
                                            [&](const UnreadKey& k) { return k.name == key.name; });
    if (overridden || unread_in_file) throw ConfigError(draft.where(key.name) + ": " + refusal(key));
    reset_key(key.name, draft);
  }
}

std::string refusal(const UnreadKey& key) {
  return fmt::format(
      "{} = {} makes no difference to {} (but to {}); leave the key out, or give it its default, {}",
      key.name, shortened(key.value), key.chosen, fmt::join(key.readers, ", "), key.fallback);
}

void drop_unread(Job& job, Chosen chosen) {
  Draft draft;
  draft.job = std::move(job);
  for (const UnreadKey& key : unread_keys(draft, chosen)) reset_key(key.name, draft);
  job = std::move(draft.job);
}

}  // namespace gossamer::node::config
