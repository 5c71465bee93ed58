#include "config_draft.h"

namespace gossamer::node::config {
namespace {

/// The peers are those that `peers = N` makes, as far as they are printed.
bool all_local(const Job& job, bool shared_only) {
  for (std::size_t i = 0; i < job.peers.size(); ++i) {
    const PeerEntry& peer = job.peers[i];
    const PeerEntry local = local_peer(job, i);
    const bool alike = peer.name == local.name && peer.address == local.address && peer.batch == job.batch &&
                       peer.throughput == local.throughput && peer.hidden == local.hidden;
    if (!alike || (!shared_only && (peer.own_batch || peer.bind != peer.address ||
                                    peer.device != local.device || peer.uplink)))
      return false;
  }
  return !job.peers.empty();
}

}  // namespace

PeerEntry local_peer(const Job& job, std::uint64_t i) {
  PeerEntry entry;
  entry.name = "peer" + std::to_string(i);
  entry.address = "tcp://127.0.0.1:" + std::to_string(job.base_port + i);
  return entry;
}

Draft draft_of(const Job& job, bool shared_only) {
  Draft draft;
  draft.job = job;
  // Edges read from a file are written out, so that the text stands alone.
  if (const char* kind = topology::graph_kind(job.graph.kind).traits.written_as) draft.job.graph.kind = kind;
  const auto end = [](topology::PeerId peer) { return EdgeEnd{"", peer}; };
  for (const auto& edge : job.graph.edges)
    draft.edges.push_back({"", end(edge.from), end(edge.to), edge.weight});
  if (all_local(job, shared_only))
    draft.count = job.peers.size();
  else
    for (const PeerEntry& peer : job.peers) {
      PeerEntry& entry = draft.peers.emplace_back().entry = peer;
      if (!shared_only && !peer.own_batch && peer.batch == job.batch) entry.batch = 0;
    }
  for (const LinkEntry& entry : job.links) {
    LinkDraft& link = draft.links.emplace_back();
    link.between = {job.peers.at(entry.a).name, job.peers.at(entry.b).name};
    link.bandwidth = entry.bandwidth;
    link.latency = entry.latency;
  }
  return draft;
}

}  // namespace gossamer::node::config
