#pragma once
// The commands of the program: each adds its subcommand and its flags to the parser; the callback that it
// installs runs the command and sets the exit status.
#include <CLI/CLI.hpp>

namespace gossamer::node {

// Exit statuses of the program.
constexpr int kExitOk = 0, kExitFailure = 1, kExitBadInput = 2, kExitPeerLost = 3, kExitInterrupted = 130;

void add_run_command(CLI::App& app, int& status);
void add_peer_command(CLI::App& app, int& status);
void add_sim_command(CLI::App& app, int& status);
void add_compare_command(CLI::App& app, int& status);
void add_topology_command(CLI::App& app, int& status);
void add_probe_command(CLI::App& app, int& status);
void add_status_command(CLI::App& app, int& status);
void add_codec_command(CLI::App& app, int& status);
void add_bench_command(CLI::App& app, int& status);
void add_evaluate_command(CLI::App& app, int& status);
void add_table_command(CLI::App& app, int& status);
void add_checkpoint_command(CLI::App& app, int& status);
void add_keys_command(CLI::App& app);
void add_doctor_command(CLI::App& app, int& status);
void add_help_command(CLI::App& app, int& status);

}  // namespace gossamer::node
