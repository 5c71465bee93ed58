#pragma once
// What models of sparse samples add to the tables of names that a job chooses from.
#include <span>
#include <string_view>

#include "gossamer/optim/model.h"

namespace gossamer::node {

/// Dense models, then sparse ones, and tasks in Python.
std::span<const optim::NamedHelp> model_rows();
/// Formats of samples by key, and what is planted.
std::span<const optim::NamedHelp> sample_rows();
std::span<const optim::NamedHelp> row_optimizer_rows();
/// How rows are exchanged: table.exchange.
std::span<const optim::NamedHelp> row_exchange_rows();

/// What sample_rows calls samples that are made up, and none reads.
inline constexpr std::string_view kPlanted = "planted";

/// What model_rows calls what stands in a Python file.
inline constexpr std::string_view kTask = "python";

bool is_sparse_model(std::string_view kind);

}  // namespace gossamer::node
