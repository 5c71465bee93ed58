#include "unread.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <deque>

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

/// What a format of samples is called where one of rows has the same name, and is another.
std::string of_samples(std::string_view format) { return std::string(format) + " of samples"; }
bool is_of_rows(std::string_view format) {
  const auto rows = optim::data_format_table();
  return std::any_of(rows.begin(), rows.end(), [&](const auto& row) { return row.name == format; });
}
Table data_rows() {
  static std::deque<std::string> names;
  static const std::vector<optim::NamedHelp> rows = [] {
    std::vector<optim::NamedHelp> all(optim::data_format_table().begin(), optim::data_format_table().end());
    for (const optim::NamedHelp& row : sample_rows()) {
      names.push_back(is_of_rows(row.name) ? of_samples(row.name) : row.name);
      all.push_back({names.back().c_str(), row.help, row.reads});
    }
    return all;
  }();
  return rows;
}
std::string data_name(const Job& job) {
  return job.learns_by_key() && is_of_rows(job.data.format) ? of_samples(job.data.format) : job.data.format;
}

/// A key that holds a name of a table, whose rows say which keys of the same section they read.
struct Choice {
  std::string_view key;
  const char* called;
  std::string (*name)(const Job&);
  Table (*table)();
  Chosen chosen = Chosen::kOthers;

  std::string_view section() const { return key.substr(0, key.find('.') + 1); }
};

std::string straggler(const Job& job) { return job.exchange.straggler; }
Table straggler_rows() {
  static constexpr optim::NamedHelp kRows[] = {
      {"wait", ""}, {"without", "", "straggler_k"}, {"fewer", "", "straggler_k"}};
  return kRows;
}

template <auto Section, auto Name>
std::string name_in(const Job& job) {
  return job.*Section.*Name;
}

std::string row_optimizer(const Job& job) { return job.sparse.table.optimizer; }

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
    {"run.straggler", "run.straggler", straggler, straggler_rows},
    {"exchange.method", "method", name_in<&Job::exchange, &ExchangeSettings::method>, method_table,
     Chosen::kMethod},
};

void add_unread(const Key<Draft>& key, Draft& draft, Draft& defaults, const Choice& choice,
                std::vector<UnreadKey>& unread) {
  if (!std::string_view(key.name).starts_with(choice.section())) return;
  const std::string_view own = std::string_view(key.name).substr(choice.section().size());
  const std::string name = choice.name(draft.job);
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
