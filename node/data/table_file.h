#pragma once
// Tables as files: a line of text that says what they are, a line of JSON with their specification, and the
// bytes of optim::Table::save.
#include <filesystem>
#include <memory>

#include "gossamer/optim/table.h"

namespace gossamer::node {

/// Under another name first, so that what stood there stays until all is written; where path is a symbolic
/// link, what it leads to. Throws std::runtime_error.
void save_table_file(const std::filesystem::path& path, const optim::Table& table);
/// spec: of the table that goes on, whose rows must have the shape of the file's; null: the file's own,
/// without a limit of memory. Throws ConfigError: what was found, and what was expected.
std::unique_ptr<optim::Table> load_table_file(const std::filesystem::path& path,
                                              const optim::TableSpec* spec = nullptr);

}  // namespace gossamer::node
