// gossamer table: looks into tables that runs saved.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "flags.h"
#include "gossamer/node/errors.h"
#include "table_file.h"
#include "text.h"

namespace gossamer::node {
namespace {

struct TableFlags {
  std::string file;
  std::vector<std::string> keys;
  std::uint64_t limit = 0;
  bool json = false;
};

std::uint64_t key_of(std::string_view text) {
  const bool hexadecimal = text.starts_with("0x");
  const std::string_view digits = hexadecimal ? text.substr(2) : text;
  std::uint64_t key = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), key, hexadecimal ? 16 : 10);
  if (error != std::errc() || end != digits.data() + digits.size())
    throw ConfigError(fmt::format(
        "'{}' is no key; expected a whole number below 2^64, or 0x and hexadecimal digits", shortened(text)));
  return key;
}

void print_row(const optim::TableRow& row) {
  fmt::print("{}\t{}\t{}\n", row.key, row.version, fmt::join(row.weights, " "));
}

void print_statistics(const TableFlags& flags) {
  const auto table = load_table_file(flags.file);
  const optim::TableSpec& spec = table->spec();
  const optim::TableStatistics t = table->statistics();
  double squares = 0, largest = 0, versions = 0;
  std::uint64_t zero = 0, most_updates = 0;
  table->visit([&](const optim::TableRow& row) {
    bool all_zero = true;
    for (const float w : row.weights) {
      squares += static_cast<double>(w) * w;
      largest = std::max(largest, std::abs(static_cast<double>(w)));
      all_zero &= w == 0;
    }
    zero += all_zero;
    versions += row.version;
    most_updates = std::max<std::uint64_t>(most_updates, row.version);
  });
  const auto rows = static_cast<double>(t.rows);
  const nlohmann::ordered_json out{{"rows", t.rows},
                                   {"width", spec.width},
                                   {"optimizer", spec.optimizer},
                                   {"learning_rate", spec.learning_rate},
                                   {"bytes", t.bytes},
                                   {"bytes_per_row", t.rows ? static_cast<double>(t.bytes) / rows : 0},
                                   {"zero_rows", zero},
                                   {"norm", std::sqrt(squares)},
                                   {"largest_weight", largest},
                                   {"updates_mean", t.rows ? versions / rows : 0},
                                   {"updates_most", most_updates}};
  if (flags.json) {
    std::cout << out.dump(2) << '\n';
    return;
  }
  for (const auto& [name, value] : out.items())
    fmt::print("{:<15} {}\n", name,
               value.is_string()         ? value.get<std::string>()
               : value.is_number_float() ? figure_text(value.get<double>())
                                         : value.dump());
}

int print_rows_of(const TableFlags& flags) {
  const auto table = load_table_file(flags.file);
  std::vector<float> weights(table->spec().width);
  int status = kExitOk;
  for (const std::string& text : flags.keys) {
    const std::uint64_t key = key_of(text);
    std::uint32_t version = 0;
    if (table->pull(std::span(&key, 1), weights, std::span(&version, 1)) == 1) {
      print_row({key, weights, version, 0, 0});
      continue;
    }
    fmt::print(stderr, "gossamer: key {} has no row in {}\n", text, flags.file);
    status = kExitFailure;
  }
  return status;
}

void dump(const TableFlags& flags) {
  const auto table = load_table_file(flags.file);
  struct Done {};
  std::uint64_t left = flags.limit > 0 ? flags.limit : UINT64_MAX;
  try {
    table->visit([&](const optim::TableRow& row) {
      if (left-- == 0) throw Done{};
      print_row(row);
    });
  } catch (const Done&) {  // as many as were asked for
  }
}

}  // namespace

void add_table_command(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("table", "Look into the rows of a model that learns by key");
  command->require_subcommand(1);
  auto flags = std::make_shared<TableFlags>();
  const auto with_file = [&](const char* name, const char* help) {
    auto* sub = command->add_subcommand(name, help);
    sub->add_option("FILE", flags->file, "a table that a run saved (peers/NAME.table, rows.table)")
        ->required();
    return sub;
  };
  auto* stat = with_file("stat", "How many rows, of what shape, and what they hold");
  stat->add_flag("--json", flags->json, "print one JSON object");
  stat->callback([flags] { print_statistics(*flags); });
  auto* get = with_file("get", "The rows of some keys: key, updates, weights");
  get->add_option("KEY", flags->keys, "whole numbers, or 0x and hexadecimal digits")->required();
  get->callback([flags, &status] { status = print_rows_of(*flags); });
  auto* all = with_file("dump", "All rows, one a line: key, updates, weights");
  all->add_option("--limit", flags->limit, "at most so many; 0: all")
      ->check(zero_or_more())
      ->capture_default_str();
  all->callback([flags] { dump(*flags); });
}

}  // namespace gossamer::node
