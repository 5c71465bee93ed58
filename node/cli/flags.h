#pragma once
// The commands that take a job share these flags, Ctrl-C and exit statuses.
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "plan.h"
#include "setup.h"
#include "worker.h"

namespace gossamer::node {

struct JobFlags {
  std::string path;
  std::vector<std::string> overrides;  ///< "key=value"
  bool json = false, quiet = false;
};
/// JOB, --set, --json, --quiet.
void add_job_flags(CLI::App& command, JobFlags& flags, bool required = true);
/// A flag that is short for --set KEY=VALUE.
void add_override_flag(CLI::App& command, JobFlags& flags, const std::string& flag, const std::string& key,
                       const std::string& help);

/// What a flag's number must be.
CLI::Validator above_zero();
/// A whole number of 64 bits: the parser itself takes what is beyond for the greatest one, and −1, too.
CLI::Validator whole_number();
CLI::Validator zero_or_more();
CLI::Validator within(double low, double high);  // CLI::Range takes NaN

int exit_status(Outcome outcome);
/// Of two peers' statuses the one that is nearer to what went wrong: bad input before failure before peers
/// that missed another.
int cause_of(int a, int b);

/// What a real run should warn of: gamma_warning, attackers that it does not have.
std::vector<std::string> warnings_of_run(const Job& job, const Plan& plan);
/// What is known once the data are read; of the first peer, which tells it for all (mixing_warning,
/// momentum_warning).
std::vector<std::string> warnings_of_length(const Prepared& prepared, std::size_t self);
/// On stderr, where there is something to warn of (gamma_warning, mixing_warning).
void warn_of_gamma(const Prepared& prepared);

/// Prints the line on stderr; nothing where that cannot be written any more, such as a closed terminal.
void tell(const std::string& line);

/// Payloads come and go in every round: from now on their memory is kept, and not given back to the kernel
/// each time.
void keep_memory();

/// From the first call on, SIGINT, SIGTERM and SIGHUP (unless it is ignored, as by nohup) make this true
/// instead of ending the process; a second SIGINT or SIGTERM ends it.
bool interrupted();

/// From the first call on SIGHUP ends nothing; true once after each.
bool hung_up();

}  // namespace gossamer::node
