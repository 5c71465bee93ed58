#include "flags.h"

#include <fmt/format.h>
#include <malloc.h>

#include <charconv>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <functional>

#include "commands.h"

namespace gossamer::node {
namespace {

// The only state that a signal handler can reach.
volatile std::sig_atomic_t signals_seen = 0, hangups_seen = 0, hangups_end = 1;

/// The terminal has gone. It may say so more than once, itself and by its shell: that is no second wish to
/// end.
void on_hangup(int) {
  if (hangups_end == 0)
    hangups_seen = 1;
  else if (signals_seen == 0)
    signals_seen = 1;
}

void on_signal(int signal) {
  signals_seen = signals_seen + 1;
  if (signals_seen > 1) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
}

CLI::Validator number_that(const std::string& is, const std::string& name,
                           const std::function<bool(double)>& holds) {
  return {[is, holds](const std::string& text) {
            double number = 0;
            if (CLI::detail::lexical_cast(text, number) && holds(number)) return std::string();
            return fmt::format("{}: expected a number {}", text, is);
          },
          name};
}

}  // namespace

void add_job_flags(CLI::App& command, JobFlags& flags, bool required) {
  command.add_option("JOB", flags.path, "job file (gossamer help job)")->required(required);
  command
      .add_option("--set", flags.overrides,
                  "KEY=VALUE overrides a key of the job or topology file; repeatable")
      ->allow_extra_args(false);
  command.add_flag("--json", flags.json, "print one JSON object instead of a table");
  command.add_flag("-q,--quiet", flags.quiet, "no progress");
}

void add_override_flag(CLI::App& command, JobFlags& flags, const std::string& flag, const std::string& key,
                       const std::string& help) {
  command.add_option_function<std::string>(
      flag, [&flags, key](const std::string& value) { flags.overrides.push_back(key + "=" + value); }, help);
}

CLI::Validator whole_number() {
  return {[](const std::string& text) {
            std::uint64_t number = 0;
            const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
            if (error == std::errc() && end == text.data() + text.size()) return std::string();
            return fmt::format("{}: expected a whole number from 0 to 2^64 - 1", text);
          },
          "WHOLE"};
}

CLI::Validator above_zero() {
  return number_that("above 0", "POSITIVE", [](double n) { return n > 0 && std::isfinite(n); });
}
CLI::Validator zero_or_more() {
  return number_that("of 0 or more", "NONNEGATIVE", [](double n) { return n >= 0 && std::isfinite(n); });
}
CLI::Validator within(double low, double high) {
  return number_that(fmt::format("from {} to {}", low, high), fmt::format("in [{} - {}]", low, high),
                     [low, high](double n) { return n >= low && n <= high; });
}

void keep_memory() {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  // what ZeroMQ's thread has of its own, 64 MiB at a time, else goes back whenever all of one is free
  mallopt(M_TOP_PAD, 64 << 20);
}

int cause_of(int a, int b) {
  const auto rank = [](int x) {
    return x == kExitOk ? 0 : x == kExitInterrupted ? 1 : x == kExitPeerLost ? 2 : x == kExitFailure ? 3 : 4;
  };
  return rank(b) > rank(a) ? b : a;
}

int exit_status(Outcome outcome) {
  switch (outcome) {
    case Outcome::finished:
      return kExitOk;
    case Outcome::lost_peer:
    case Outcome::stalled:
      return kExitPeerLost;
    case Outcome::bad_input:
      return kExitBadInput;
    case Outcome::interrupted:
      return kExitInterrupted;
    default:
      return kExitFailure;
  }
}

std::vector<std::string> warnings_of_run(const Job& job, const Plan& plan) {
  std::vector<std::string> warnings;
  if (const std::string warning = gamma_warning(job, plan); !warning.empty()) warnings.push_back(warning);
  if (!job.sim.attackers.empty())
    warnings.push_back(job.where("sim.attackers") +
                       ": sim.attackers counts in simulations alone; every peer of this run is honest");
  return warnings;
}

std::vector<std::string> warnings_of_length(const Prepared& prepared, std::size_t self) {
  if (self != 0) return {};
  std::vector<std::string> warnings{mixing_warning(prepared.job, *prepared.plan, prepared.rounds),
                                    momentum_warning(prepared.job, *prepared.plan)};
  std::erase(warnings, "");
  return warnings;
}

void warn_of_gamma(const Prepared& prepared) {
  if (const std::string warning = gamma_warning(prepared.job, *prepared.plan); !warning.empty())
    tell("gossamer: " + warning);
  for (const std::string& warning : warnings_of_length(prepared, 0)) tell("gossamer: " + warning);
}

void tell(const std::string& line) { std::fputs((line + "\n").c_str(), stderr); }

bool interrupted() {
  static const bool installed = [] {
    struct sigaction action {};
    action.sa_handler = on_signal;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
    struct sigaction before {};
    sigaction(SIGHUP, nullptr, &before);
    action.sa_handler = on_hangup;
    if (before.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);  // not under nohup
    return true;
  }();
  return installed && signals_seen > 0;
}

bool hung_up() {
  if (hangups_end != 0) {
    struct sigaction action {};
    action.sa_handler = on_hangup;
    sigemptyset(&action.sa_mask);
    sigaction(SIGHUP, &action, nullptr);  // also under nohup
    hangups_end = 0;
  }
  const bool seen = hangups_seen != 0;
  hangups_seen = 0;
  return seen;
}

}  // namespace gossamer::node
