// The program: builds the parser, runs one command, turns what went wrong into a message and a status.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <vector>

#include "commands.h"
#include "gossamer/compress/codec.h"
#include "gossamer/node/errors.h"
#include "gossamer/node/job.h"
#include "gossamer/optim/model.h"
#include "gossamer/topology/schedule.h"
#include "hints.h"
#include "text.h"

#ifndef GOSSAMER_VERSION
#define GOSSAMER_VERSION "unknown"
#endif

namespace {

using namespace gossamer;
using Words = std::vector<std::string>;

/// The command that the words name, as far down as they name one, and the first word that names none.
struct Resolved {
  CLI::App* command;
  std::string rest;
};
Resolved resolve(CLI::App& app, const Words& words) {
  Resolved result{&app, ""};
  for (const std::string& word : words) {
    const auto named = [&](CLI::App* command) { return command->get_name() == word; };
    const auto next = result.command->get_subcommands(named);
    if (next.empty()) return {result.command, word};
    result.command = next.front();
  }
  return result;
}

bool all_commands(const CLI::App*) { return true; }

std::string wrong_command(const Resolved& found) {
  Words names;
  for (const CLI::App* command : found.command->get_subcommands(all_commands))
    names.push_back(command->get_name());
  return "unknown command '" + found.rest + "'; expected one of " + node::join(names, ", ") +
         node::did_you_mean(found.rest, names);
}

/// The nearest flag to the first word that is none of the command's.
std::string flag_hint(const CLI::App& command, const Words& words) {
  Words flags;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  for (const std::string& word : words) {
    if (!word.starts_with("--")) continue;
    const std::string flag = word.substr(0, word.find('='));
    if (std::find(flags.begin(), flags.end(), flag) == flags.end()) return node::did_you_mean(flag, flags);
  }
  return "";
}

int report(const std::string& message, int status) {
  std::cout.flush();
  std::cerr << "gossamer: " << message << '\n';
  return status;
}

int parse_error(CLI::App& app, const CLI::ParseError& error, const Words& words) {
  if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
  const Resolved found = resolve(app, words);
  if (!found.command->get_subcommands(all_commands).empty() && !found.rest.empty() && found.rest[0] != '-')
    return report(wrong_command(found), node::kExitBadInput);
  std::string call = "gossamer";
  for (const CLI::App* a = found.command; a != &app; a = a->get_parent()) call.insert(8, " " + a->get_name());
  return report(std::string(error.what()) + flag_hint(*found.command, words) + " (" + call + " --help)",
                node::kExitBadInput);
}

void add_commands(CLI::App& app, int& status) {
  node::add_run_command(app, status);
  node::add_peer_command(app, status);
  node::add_sim_command(app, status);
  node::add_compare_command(app, status);
  node::add_topology_command(app, status);
  node::add_probe_command(app, status);
  node::add_status_command(app, status);
  node::add_codec_command(app, status);
  node::add_bench_command(app, status);
  node::add_evaluate_command(app, status);
  node::add_table_command(app, status);
  node::add_checkpoint_command(app, status);
  node::add_keys_command(app);
  node::add_doctor_command(app, status);
  node::add_help_command(app, status);
}

int run(CLI::App& app, int argc, char** argv, const int& status) {
  const Words words(argv + std::min(argc, 1), argv + argc);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (const int wrong = parse_error(app, error, words)) return wrong;  // else --help, --version
  }
  std::cout.flush();
  return std::cout ? status : report("standard output cannot be written", node::kExitFailure);
}

/// A standard stream that whoever started the program has closed: the next file would have its number.
void open_standard_streams() {
  int file = ::open("/dev/null", O_RDWR);
  while (file >= 0 && file <= STDERR_FILENO) file = ::open("/dev/null", O_RDWR);
  if (file >= 0) ::close(file);
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_streams();
  std::signal(SIGCHLD, SIG_DFL);  // ignored, as some programs leave it, it would hide what became of peers
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow so far is an error of whoever writes it
  try {
    CLI::App app{"Decentralised training over any graph", "gossamer"};
    app.set_version_flag("--version", "gossamer " GOSSAMER_VERSION);
    app.require_subcommand(1);
    int status = node::kExitOk;
    add_commands(app, status);
    return run(app, argc, argv, status);
  } catch (const node::ConfigError& error) {
    return report(error.what(), node::kExitBadInput);
  } catch (const node::Interrupted& error) {
    return report(error.what(), node::kExitInterrupted);
  } catch (const topology::GraphError& error) {
    return report(node::message_with_hint(error), node::kExitBadInput);
  } catch (const optim::OptimError& error) {
    return report(node::message_with_hint(error), node::kExitBadInput);
  } catch (const compress::CodecError& error) {
    return report(node::message_with_hint(error), node::kExitBadInput);
  } catch (const std::bad_alloc&) {
    return report(
        "out of memory; expected a smaller model, batch, data set or number of peers, or more memory",
        node::kExitFailure);
  } catch (const std::exception& error) {
    return report(error.what(), node::kExitFailure);
  }
}
