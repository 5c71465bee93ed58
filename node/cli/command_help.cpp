#include <algorithm>
#include <array>
#include <iomanip>
#include <iostream>
#include <memory>

#include "aggregation.h"
#include "attack.h"
#include "commands.h"
#include "gossamer/node/job.h"
#include "gossamer/optim/aggregate.h"
#include "method.h"
#include "text.h"

namespace gossamer::node {
namespace {

/// Those of that name: exchange.codec, codec, or all of exchange.
std::vector<KeyHelp> keys_named(const std::vector<KeyHelp>& keys, const std::string& topic,
                                const std::string& name) {
  std::vector<KeyHelp> found;
  std::vector<std::string> names;
  for (const KeyHelp& k : keys) {
    if (k.key == name || k.key.starts_with(name + ".") || k.key.ends_with("." + name)) found.push_back(k);
    names.push_back(k.key);
  }
  if (found.empty())
    throw ConfigError("help " + topic + ": no key '" + name + "'" + did_you_mean(name, names) +
                      " (gossamer help " + topic + " lists every key)");
  return found;
}

void print_keys(const std::vector<KeyHelp>& keys) {
  using Columns = std::array<std::string, 5>;
  std::vector<Columns> rows{{"KEY", "TYPE", "DEFAULT", "UNIT", "MEANING"}};
  for (const KeyHelp& k : keys) rows.push_back({k.key, k.type, k.fallback, k.unit, k.help});
  std::array<std::size_t, 4> widths{};
  for (const Columns& row : rows)
    for (std::size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], row[i].size() + 2);
  std::string section;
  for (const Columns& row : rows) {
    const std::string next = row[0].substr(0, row[0].find('.'));
    if (row[0].find('.') != std::string::npos && next != section) std::cout << '\n';
    section = next;
    for (std::size_t i = 0; i < widths.size(); ++i)
      std::cout << std::left << std::setw(static_cast<int>(widths[i])) << row[i];
    std::cout << row.back() << '\n';
  }
}

void print_job_help() {
  std::cout
      << "Keys of a job file (TOML): what is trained, on what data, how. The key exchange.codec stands as\n"
         "codec under [exchange]. On the command line: --set exchange.codec=dense.\n\n";
  print_keys(job_keys());
  std::cout << "\nThe keys of a topology file (gossamer help topology) may stand in the job file instead of "
               "'topology'.\n";
}

void print_topology_help() {
  std::cout
      << "Keys of a topology file (TOML): the peers and the graph. peers and base_port stand at the top, "
         "before\n[graph]; each peer has a table [[peer]], each special link a table [[link]].\n\n";
  print_keys(topology_keys());
  std::cout << "\nThe commands on topologies: gossamer topology --help\n";
}

std::vector<std::string> topics(CLI::App& app) {
  std::vector<std::string> names{"job", "method", "aggregate"};
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

void print_method_help(const std::string& name) {
  if (!name.empty()) {
    std::cout << method_text(find_method(name));
    return;
  }
  std::cout << "Exchange methods (exchange.method); what each is sound with: gossamer help method NAME\n\n";
  for (const Method* m : methods())
    std::cout << std::left << std::setw(20) << m->row.name << m->row.help << '\n';
}

/// The command of that name, or of its subcommands that of the second name; null where there is none.
CLI::App* command_named(CLI::App& app, const std::string& topic, const std::string& name) {
  const auto below = [](CLI::App* parent, const std::string& wanted) {
    const auto found = parent->get_subcommands([&](CLI::App* c) { return c->get_name() == wanted; });
    return found.empty() ? nullptr : found.front();
  };
  CLI::App* command = below(&app, topic);
  return command == nullptr || name.empty() ? command : below(command, name);
}

void print_rows(std::span<const optim::NamedHelp> rows) {
  for (const auto& row : rows) std::cout << std::left << std::setw(20) << row.name << row.help << '\n';
}

void print_aggregate_help() {
  std::cout
      << "Aggregation rules (exchange.aggregate = \"krum:f=3\"): f Byzantine peers among the n of a "
         "neighbourhood, the own "
         "one\nincluded. \"nnm+krum:f=3\" replaces every vector by the mean of its n-f nearest first.\n\n";
  print_rows(optim::aggregator_table());
  print_rows(peer_weight_table());
  std::cout << "\nAttacks of the simulator (sim.attackers = [\"peer3=noise:100\"]), with a size:\n\n";
  print_rows(attack_table());
}

void print_help(CLI::App& app, const std::string& topic, const std::string& name) {
  if (topic.empty()) {
    // App::help would print the help of this very command, which is the one that was parsed.
    std::cout << app.get_formatter()->make_help(&app, app.get_name(), CLI::AppFormatMode::Normal)
              << "\nThe keys of the files: gossamer help job, gossamer help topology\n";
  } else if (topic == "job") {
    name.empty() ? print_job_help() : print_keys(keys_named(job_keys(), topic, name));
  } else if (topic == "topology" && command_named(app, topic, name) == nullptr) {
    print_keys(keys_named(topology_keys(), topic, name));
  } else if (topic == "topology" && name.empty()) {
    print_topology_help();
  } else if (topic == "method") {
    print_method_help(name);
  } else if (topic == "aggregate" && name.empty()) {
    print_aggregate_help();
  } else if (const CLI::App* command = command_named(app, topic, name)) {
    std::cout << command->help(app.get_name() + (name.empty() ? "" : " " + topic));
  } else {
    const auto names = topics(app);
    if (std::find(names.begin(), names.end(), topic) != names.end())
      throw ConfigError("help " + topic + ": no '" + shortened(name) + "' of it; expected gossamer help " +
                        topic);
    throw ConfigError("help: no topic '" + topic + "'; expected one of " + join(names, ", ") +
                      did_you_mean(topic, names));
  }
}

}  // namespace

void add_help_command(CLI::App& app, int& status) {
  CLI::App* help = app.add_subcommand("help", "Explains the keys of the files, or a command");
  const auto topic = std::make_shared<std::string>(), name = std::make_shared<std::string>();
  help->add_option("TOPIC", *topic, "job, topology, method, aggregate, or a command");
  help->add_option("NAME", *name, "a method, a key of job or topology, or a subcommand");
  help->callback([topic, name, &app, &status] {
    print_help(app, *topic, *name);
    status = kExitOk;
  });
}

}  // namespace gossamer::node
