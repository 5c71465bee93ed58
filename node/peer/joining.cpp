#include "joining.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <system_error>
#include <utility>

#include "access.h"
#include "difference.h"
#include "endpoint.h"
#include "gossamer/compress/codec.h"
#include "gossamer/node/job.h"
#include "gossamer/topology/schedule.h"
#include "setup.h"
#include "text.h"
#include "view_run.h"
#include "view_table.h"

namespace gossamer::node {

ZmqSpec sockets_of(const Job& job, PeerId self) {
  const PeerEntry& own = job.peers[self];
  refuse_open(job, fmt::format("peer '{}'", own.name), own.bind);
  ZmqSpec spec{
      own.bind, {}, job.run.silence_timeout, own.name, locks_of(job, own.name), job.run.shared_memory};
  for (const auto& p : job.peers) {
    if (p.name != own.name) refuse_open(job, fmt::format("peer '{}'", p.name), p.address);
    spec.addresses.push_back(p.address);
  }
  return spec;
}

MemberAddress member_of(const Job& job, const std::string& join) {
  MemberAddress member = member_address(join, "--join");
  if (!member.key) {  // perhaps the job knows who that is
    for (const PeerEntry& p : job.peers)
      if (const auto keys = listed_keys(job); p.address == member.address && keys.contains(p.name))
        member.key = keys.at(p.name).front();
    if (!member.key) refuse_open(job, "the member", member.address);
  }
  return member;
}

Terms ask_member(const Job& job, const std::string& join, const std::string& name,
                 const std::function<bool()>& stop) {
  if (!names_a_peer(name))
    throw ConfigError(fmt::format("name of the peer that joins: found {}; expected {}",
                                  in_quotes(shortened(name)), kPeerName));
  const MemberAddress member = member_of(job, join);
  const std::string certificate = certificate_file(job, name);
  return ask_for_terms(member, client_keys(member, key_file(job, name), certificate), name,
                       job.run.join_timeout, stop);
}

std::string why_not(const Prepared& base, const View& view) {
  try {
    run_of_view(base, view.names(), true, view.diallers());
  } catch (const ConfigError& error) {
    return error.what();
  } catch (const topology::GraphError& error) {
    return error.what();
  } catch (const compress::CodecError& error) {
    return error.what();
  }
  return {};
}

Job job_of_run(const Terms& terms, std::span<const std::string> overrides) {
  namespace fs = std::filesystem;
  std::random_device device;
  const fs::path folder = fs::temp_directory_path() / fmt::format("gossamer-{:08x}", device());
  fs::create_directory(folder);
  const fs::path file = folder / "joined.toml";
  const auto remove = [&] {
    std::error_code unknown;
    fs::remove_all(folder, unknown);
  };
  try {
    // Only what peers must agree on is taken from another: no path, no command that this machine would run.
    std::ofstream(file) << only_job(terms.body.job_text) << '\n' << terms.body.access;
    const Job told = load_job(file.string(), overrides);
    std::ofstream(file) << to_toml(told, true) << '\n' << access_toml(told);
    Job job = load_job(file.string(), overrides);
    // every batch is told as a number
    for (PeerEntry& p : job.peers) p.own_batch = p.batch != job.batch;
    remove();
    return job;
  } catch (const ConfigError& error) {
    remove();
    throw ConfigError(
        fmt::format("the job as '{}' tells it: {}; what each peer sets for itself, such as "
                    "data.path, is given by --set, or with JOB",
                    terms.body.from, error.what()));
  } catch (...) {
    remove();
    throw;
  }
}

Joining::Joining(const Job& job, const std::string& name, const Options& options)
    : join_(options.join),
      self_{name},
      terms_(ask_member(job, options.join, name, options.stop)),
      sockets_{.bind = {}, .addresses = {}, .silence_timeout_s = job.run.silence_timeout, .name = name} {
  if (!options.resume.empty() || !options.state.empty())
    refuse("a peer that joins a run takes its state from the others; expected nothing to resume");
  const std::string difference = first_difference(to_toml(job, true), only_job(terms_.body.job_text));
  if (!difference.empty())
    refuse(fmt::format("the run's job is another one: {} (there = peer '{}'); expected the same, or no JOB",
                       difference, terms_.body.from));
  const std::vector<std::string> names = job.peer_names();
  number_ = static_cast<PeerId>(std::find(names.begin(), names.end(), name) - names.begin());
  if (number_ < names.size()) {
    if (!options.address.empty())
      refuse(fmt::format("--address {}: the job says where '{}' is reached", options.address, name));
    sockets_ = sockets_of(job, number_);
    self_.address = job.peers[number_].address;
    return;
  }
  for (const PeerEntry& p : job.peers) sockets_.addresses.push_back(p.address);
  sockets_.locks = locks_of(job, name);
  const bool listed = !sockets_.locks || sockets_.locks->keys.contains(name);
  if (options.address == kNoAddress ||
      !listed) {  // others do not know the key by which they could be sure of it
    sockets_.addresses.emplace_back();
    return;
  }
  if (!options.address.empty()) {
    self_.address = options.address;
    const Endpoint at = endpoint_of(options.address);
    sockets_.bind = is_loopback(at.host) ? options.address : "tcp://*:" + at.port;
  } else {
    const std::string host = own_host_towards(member_address(options.join, "--join").address);
    const auto elsewhere = std::find_if(job.peers.begin(), job.peers.end(), [](const PeerEntry& p) {
      return !p.address.empty() && !is_loopback(endpoint_of(p.address).host);
    });
    if (is_loopback(host) && elsewhere != job.peers.end())
      refuse(
          fmt::format("this peer would be reached at {}, where '{}' at {} cannot; expected --address "
                      "tcp://host:port",
                      host, elsewhere->name, elsewhere->address));
    sockets_.bind = "tcp://" + host + ":*";
  }
  sockets_.addresses.push_back(self_.address);
  refuse_open(job, "this peer", sockets_.bind);
}

void Joining::refuse(const std::string& why) const {
  throw ConfigError(fmt::format("--join {}: {}", join_, why));
}

void Joining::listens_at(const std::string& endpoint) {
  if (self_.address.empty() && !sockets_.bind.empty()) self_.address = endpoint;
}

void Joining::check(const Prepared& base, bool takes_initial) const {
  const auto differ = [&](const char* what, const auto& here, const auto& there) {
    if (here != there)
      refuse(fmt::format("{}: here {}, at peer '{}' {}", what, here, terms_.body.from, there));
  };
  differ("layer table", base.hello.layers, terms_.body.layers);
  differ("what the loop learns from", loop_table(base.hello.job_text), loop_table(terms_.body.job_text));
  differ("data set hash", base.hello.data_hash, terms_.body.data_hash);
  if (!takes_initial)
    differ("hash of the initial parameters", base.hello.parameters_hash, terms_.body.parameters_hash);
}

MemberSpec Joining::member(const Prepared& base, std::uint64_t start) const {
  MemberSpec spec = joining_spec(base, self_, start, terms_.job_id, {terms_.body.from, join_});
  spec.min_peers = std::max<std::size_t>(1, terms_.body.min_peers);
  spec.terms.session = terms_.body.session;
  return spec;
}

}  // namespace gossamer::node
