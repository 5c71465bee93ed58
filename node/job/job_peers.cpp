#include "job_peers.h"

#include <map>

#include "config_draft.h"
#include "config_fields.h"

namespace gossamer::node::config {
namespace {

void make_local_peers(Draft& draft) {
  Job& job = draft.job;
  if (job.base_port + *draft.count - 1 > 65535)
    throw ConfigError(draft.where("peers") + ": " + std::to_string(*draft.count) + " peers from base_port " +
                      std::to_string(job.base_port) +
                      " on would need ports above 65535; expected a lower base_port");
  for (std::uint64_t i = 0; i < *draft.count; ++i) {
    PeerDraft peer;
    peer.origin = draft.where("peers");
    peer.entry = local_peer(job, i);
    draft.peers.push_back(std::move(peer));
  }
}

/// Nobody reaches it: an empty address, or nowhere to listen.
bool says_it_dials(const PeerDraft& peer) {
  return (peer.entry.bind.empty() && peer.origins.contains("peer.bind")) ||
         (peer.entry.address.empty() && peer.origins.contains("peer.address"));
}

void check_peer_tables(const Draft& draft) {
  std::map<std::string, std::string> names, addresses;
  for (const PeerDraft& peer : draft.peers) {
    if (peer.entry.name.empty())
      throw ConfigError(peer.origin + ": this [[peer]] has no name; expected name = \"…\"");
    const bool dials = says_it_dials(peer);
    if (peer.entry.address.empty() && !dials)
      throw ConfigError(
          peer.origin + ": peer '" + peer.entry.name +
          "' has no address; expected address = \"tcp://host:port\", or bind = \"\" where it can "
          "only dial out");
    if (dials && !(peer.entry.address + peer.entry.bind).empty())
      throw ConfigError(
          peer.where("peer.bind") + ": peer '" + peer.entry.name + "' has " +
          (peer.entry.bind.empty() ? "bind = \"\" beside an address" : "a bind without an address") +
          "; expected both, or neither where it can only dial out");
    const auto [name, new_name] = names.emplace(peer.entry.name, peer.where("peer.name"));
    if (!new_name)
      throw ConfigError(peer.where("peer.name") + ": peer.name '" + peer.entry.name + "' stands at " +
                        name->second + " already; expected a name of its own for each peer");
    if (dials) continue;
    const auto [address, new_address] = addresses.emplace(peer.entry.address, peer.entry.name);
    if (!new_address)
      throw ConfigError(peer.where("peer.address") + ": peer.address '" + peer.entry.address +
                        "' is that of peer '" + address->second +
                        "' already; expected an address of its own for each peer");
  }
}

}  // namespace

void fill_peers(Draft& draft) {
  if (draft.count && !draft.peers.empty())
    throw ConfigError(draft.where("peers") + ": both peers and [[peer]] tables (the first at " +
                      draft.peers.front().origin + "); expected one of them");
  if (!draft.count && draft.peers.empty())
    throw ConfigError(draft.origin +
                      ": no peers; expected 'peers = 4' at the top for local ones, [[peer]] tables, "
                      "or in a job file topology = \"ring4.toml\"");
  if (draft.count) make_local_peers(draft);
  for (PeerDraft& peer : draft.peers)
    for (const Value& table : draft.of_each_peer) read_peer(table, peer);
  check_peer_tables(draft);
  PeerDraft other;
  for (const Value& table : draft.of_each_peer) read_peer(table, other);
  draft.job.device = other.entry.device;
  draft.job.device_at = other.where("peer.device");
  for (const PeerDraft& peer : draft.peers) {
    PeerEntry entry = peer.entry;
    if (peer.origins.contains("peer.device")) entry.device_at = peer.where("peer.device");
    if (entry.bind.empty()) entry.bind = entry.address;
    entry.own_batch = entry.batch > 0;
    if (!entry.own_batch) entry.batch = draft.job.batch;
    draft.job.peers.push_back(std::move(entry));
  }
}

}  // namespace gossamer::node::config
