// gossamer doctor: looks for what would keep a run from going well, before it is started.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "access.h"
#include "commands.h"
#include "flags.h"
#include "gossamer/node/errors.h"
#include "gossamer/node/job.h"

namespace gossamer::node {
namespace {

/// One key and what the job's rules say of it.
nlohmann::ordered_json row_of(const AccessList& access, const std::string& name, const PublicKey& key) {
  const Admission a = admit(access, key);
  return {{"name", name},
          {"public", text_of(key)},
          {"admitted", a.admitted()},
          {"by", std::string(text_of(a.how))}};
}

/// Of the certificates beside a job: whom they admit, until when.
nlohmann::ordered_json row_of(const AccessList& access, const std::string& file, std::int64_t now_s) {
  const Certificate c = read_certificate_file(file);
  const Admission a = admit(access, c.key, c, now_s);
  return {{"name", c.name},
          {"public", text_of(c.key)},
          {"admitted", a.admitted()},
          {"by", std::string(text_of(a.how))},
          {"until", time_text(c.not_after_s)},
          {"file", file}};
}

int show_access(const JobFlags& flags, const std::vector<std::string>& certificates) {
  const Job job = load_job(flags.path, flags.overrides);
  if (!job.access.locked()) {
    fmt::print("anyone who reaches a peer may speak, in any name: {} has no [access]\n", job.path);
    return job.run.insecure ? kExitOk : kExitFailure;
  }
  const AccessList access = access_of(job);
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const auto& [name, keys] : listed_keys(job))
    for (const PublicKey& key : keys) rows.push_back(row_of(access, name, key));
  for (const std::string& file : certificates) rows.push_back(row_of(access, file, unix_now_s()));
  bool all = true;
  for (const auto& row : rows) all &= row["admitted"].get<bool>();
  if (flags.json) {
    fmt::print("{}\n", rows.dump(2));
    return all ? kExitOk : kExitFailure;
  }
  fmt::print("{:<16} {:<64}  {}\n", "peer", "public key", "admitted");
  for (const auto& row : rows)
    fmt::print(
        "{:<16} {:<64}  {}{}\n", row["name"].get<std::string>(), row["public"].get<std::string>(),
        row["admitted"].get<bool>() ? row["by"].get<std::string>() : "no: " + row["by"].get<std::string>(),
        row.contains("until") ? ", until " + row["until"].get<std::string>() : "");
  if (access.authority)
    fmt::print("{} {}\n",
               access.vouches() ? "and whoever shows a certificate of"
                                : "no certificate admits anybody: revoked is the authority's key",
               text_of(*access.authority));
  if (!access.revoked.empty()) fmt::print("{} keys are revoked\n", access.revoked.size());
  return all ? kExitOk : kExitFailure;
}

}  // namespace

void add_doctor_command(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("doctor", "Look for what would keep a run from going well");
  command->require_subcommand(1);
  auto flags = std::make_shared<JobFlags>();
  auto certificates = std::make_shared<std::vector<std::string>>();
  auto* keys =
      command->add_subcommand("keys", "Who is admitted to a run, by what, until when; 1 where some are not");
  add_job_flags(*keys, *flags);
  keys->add_option("--certificate", *certificates, "certificates to judge, too; repeatable");
  keys->callback([flags, certificates, &status] { status = show_access(*flags, *certificates); });
}

}  // namespace gossamer::node
