#include "sparse_rows.h"

#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include "gossamer/optim/sample_stream.h"
#include "gossamer/optim/sparse.h"
#include "gossamer/optim/table.h"

namespace gossamer::node {
namespace {

using Rows = std::vector<optim::NamedHelp>;

const char* reads_of(const optim::SparseModelRow& row) {
  if (row.has_dense) return "factors deviation pooling hidden";
  return row.has_factors ? "factors deviation" : "";
}

}  // namespace

std::span<const optim::NamedHelp> model_rows() {
  static const Rows rows = [] {
    Rows all(optim::model_table().begin(), optim::model_table().end());
    for (const auto& row : optim::sparse_model_table()) all.push_back({row.name, row.help, reads_of(row)});
    all.push_back({kTask.data(), "a PyTorch model, data and loss of one's own, in model.file", "file"});
    return all;
  }();
  return rows;
}

std::span<const optim::NamedHelp> sample_rows() {
  static const Rows rows = [] {
    Rows all(optim::sample_format_table().begin(), optim::sample_format_table().end());
    all.push_back({kPlanted.data(),
                   "clicks drawn with known probabilities, so that the best possible AUC is known",
                   "rows test_rows fields keys power pair_factors linear pairs bias drift seed follow"});
    return all;
  }();
  return rows;
}

std::span<const optim::NamedHelp> row_optimizer_rows() {
  static const Rows rows = [] {
    Rows all;
    static std::deque<std::string> keys;  // with blanks between them
    for (const auto& row : optim::row_optimizer_table()) {
      std::erase(keys.emplace_back(row.keys), ',');
      all.push_back({row.name, row.help, keys.back().c_str()});
    }
    return all;
  }();
  return rows;
}

std::span<const optim::NamedHelp> row_exchange_rows() {
  static constexpr optim::NamedHelp kRows[] = {
      {"touched", "peers tell each other how the rows that they touched should change, where that is enough",
       "codec density unsent"},
      {"none", "each peer keeps its own rows", ""}};
  return kRows;
}

bool is_sparse_model(std::string_view kind) {
  const auto rows = optim::sparse_model_table();
  return std::any_of(rows.begin(), rows.end(), [&](const auto& row) { return kind == row.name; });
}

}  // namespace gossamer::node
