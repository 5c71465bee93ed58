#include "gossamer/node/job.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "attack.h"
#include "check_access.h"
#include "config_document.h"
#include "config_draft.h"
#include "config_fields.h"
#include "gossamer/compress/codec.h"
#include "gossamer/topology/formats.h"
#include "hints.h"
#include "job_peers.h"
#include "learning.h"
#include "link_file.h"
#include "sparse_rows.h"
#include "text.h"
#include "unread.h"

namespace gossamer::node {
namespace {

namespace fs = std::filesystem;
using namespace config;

std::string folder_of(const std::string& path) { return fs::path(path).parent_path().string(); }

// --- Files and overrides ---

std::vector<Value> parse_overrides(std::span<const std::string> overrides) {
  std::vector<Value> values;
  for (const std::string& text : overrides) values.push_back(parse_override(text));
  return values;
}

/// The topology file that a job names, after overrides; empty where there is none.
std::string topology_path(const Value& job, std::span<const Value> overrides, const std::string& folder) {
  Draft draft;
  const auto look = [&](const Value& document) {
    const Entry* entry = document.find("topology");
    if (!entry) return;
    Value only;
    only.entries.push_back(*entry);
    read_keys(only, {.folder = folder}, draft);
  };
  look(job);
  for (const Value& value : overrides) look(value);
  return draft.topology;
}

/// Local peers take the place of tables, and the links between those go with them.
void drop_peer_tables(Draft& draft) {
  if (!draft.peers.empty()) draft.links.clear();
  draft.peers.clear();
}

void read_overrides(std::span<const Value> overrides, const Source& source, Draft& draft) {
  for (const Value& value : overrides) {
    read_keys(value, source, draft);
    if (value.find("peers")) drop_peer_tables(draft);
    if (const Entry* peer = value.find("peer"); peer && !is_of_each_peer(*peer)) draft.count.reset();
  }
}

void replace_peers(std::optional<std::size_t> peers, Draft& draft) {
  if (!peers) return;
  if (*peers < 1 || *peers > 65535)
    throw ConfigError("--peers " + std::to_string(*peers) + ": expected a number of peers in [1, 65535]");
  drop_peer_tables(draft);
  draft.count = *peers;
  draft.origins["peers"] = "--peers " + std::to_string(*peers);
}

std::string peer_range(const std::vector<std::string>& names) {
  if (names.size() <= 8) return "one of " + join(names, ", ");
  return "one of the " + std::to_string(names.size()) + " peers, " + names.front() + " to " + names.back();
}

/// Names of peers, looked up; a message names the place that used the name.
class PeerIndex {
 public:
  explicit PeerIndex(const Job& job) : names_(job.peer_names()) {
    for (std::size_t i = 0; i < names_.size(); ++i) ids_.emplace(names_[i], static_cast<topology::PeerId>(i));
  }
  topology::PeerId find(const std::string& name, const std::string& origin, const std::string& key) const {
    const auto it = ids_.find(name);
    if (it == ids_.end())
      throw ConfigError(origin + ": " + key + " names " + in_quotes(shortened(name)) +
                        ", which is no peer; expected " + peer_range(names_) + did_you_mean(name, names_));
    return it->second;
  }
  topology::PeerId find(const EdgeEnd& end, const std::string& origin) const {
    if (!end.index) return find(end.name, origin, "graph.edges");
    if (*end.index >= names_.size())
      throw ConfigError(origin + ": graph.edges names peer " + std::to_string(*end.index) +
                        "; expected an index from 0 to " + std::to_string(names_.size() - 1) + " or a name");
    return static_cast<topology::PeerId>(*end.index);
  }
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::vector<std::string> names_;
  std::map<std::string, topology::PeerId> ids_;
};

// --- What refers to peers ---

/// The links of the file that the key names come first, without those that the topology states itself; and
/// uplinks of peers that it says nothing of.
void add_link_file(Draft& draft, const PeerIndex& index) {
  if (draft.link_file.empty()) return;
  const auto ends = [](const LinkDraft& link) { return std::set(link.between.begin(), link.between.end()); };
  std::set<std::set<std::string>> stated;
  for (const LinkDraft& link : draft.links) stated.insert(ends(link));
  auto [links, peers] = read_links(draft.link_file);
  for (const PeerDraft& peer : peers) {
    PeerEntry& entry = draft.job.peers[index.find(peer.entry.name, peer.origin, "peer.name")];
    if (!entry.uplink) entry.uplink = peer.entry.uplink;
  }
  std::erase_if(links, [&](const LinkDraft& link) { return stated.contains(ends(link)); });
  draft.links.insert(draft.links.begin(), links.begin(), links.end());
}

void fill_links(Draft& draft, const PeerIndex& index) {
  add_link_file(draft, index);
  std::set<std::pair<topology::PeerId, topology::PeerId>> seen;
  for (const LinkDraft& link : draft.links) {
    const std::string where = link.where("link.between");
    if (link.between.size() != 2)
      throw ConfigError(where + ": link.between names " + std::to_string(link.between.size()) +
                        " peers; expected two, for example between = [\"alpha\", \"beta\"]");
    const topology::PeerId a = index.find(link.between[0], where, "link.between");
    const topology::PeerId b = index.find(link.between[1], where, "link.between");
    if (a == b)
      throw ConfigError(where + ": link.between names '" + link.between[0] + "' twice; expected two peers");
    if (!seen.insert(std::minmax(a, b)).second)
      throw ConfigError(where + ": there is a [[link]] between '" + link.between[0] + "' and '" +
                        link.between[1] + "' already; expected one for both directions");
    draft.job.links.push_back({a, b, link.bandwidth, link.latency});
  }
}

void fill_edges(Draft& draft, const PeerIndex& index) {
  topology::GraphSpec& graph = draft.job.graph;
  const topology::GraphTraits& traits = topology::graph_kind(graph.kind).traits;
  const std::string where = draft.where("graph.kind") + ": graph.kind is " + in_quotes(graph.kind);
  if (traits.edges_are_in_a_file) {
    if (draft.job.graph_file.empty())
      throw ConfigError(where + " without graph.file; expected file = \"edges.txt\"");
    std::error_code error;
    if (!fs::is_regular_file(draft.job.graph_file, error))
      throw ConfigError(
          draft.where("graph.file") + ": graph.file: " +
          (fs::is_directory(draft.job.graph_file, error) ? "a folder, and no file, is" : "no such file") +
          " '" + draft.job.graph_file + "'; expected an edge list, GraphML, node-link JSON or METIS");
    graph.edges = topology::read_graph(draft.job.graph_file, index.names());
    return;
  }
  if (!traits.edges_are_written) return;
  if (draft.edges.empty() && draft.job.peers.size() > 1)
    throw ConfigError(where + " without graph.edges; expected edges = [[\"" + index.names()[0] + "\", \"" +
                      index.names()[1] + "\"], …]");
  for (const EdgeDraft& edge : draft.edges)
    graph.edges.push_back(
        {index.find(edge.from, edge.origin), index.find(edge.to, edge.origin), edge.weight});
}

void check_graph(Draft& draft) {
  draft.job.graph.peers = draft.job.peers.size();
  try {
    topology::make_schedule(draft.job.graph);
  } catch (const topology::GraphError& error) {
    throw ConfigError(draft.where("graph.kind") + ": graph: " + message_with_hint(error));
  }
}

Job finish_topology(Draft& draft) {
  fill_peers(draft);
  const PeerIndex index(draft.job);
  fill_links(draft, index);
  fill_edges(draft, index);
  check_graph(draft);
  check_access(draft);
  return draft.job;
}

// --- What refers to other keys of the job ---

void check_training(Draft& draft) {
  Job& job = draft.job;
  job.exchange.codec = compress::make_codec(job.exchange.codec)->spec();  // the default is no canonical one
  check_learning(draft);
  if (!job.learns_by_key() && optim::data_format_traits(job.data.format).needs_path && job.data.path.empty())
    throw ConfigError(draft.where("data.format") + ": data.format is " + in_quotes(job.data.format) +
                      " without data.path; expected path = \"…\" under [data]");
  optim::DataSpec data = job.data;
  if (job.learns_by_key()) data.text.clear();  // of samples, whose text is always hashed
  if (const auto fault = optim::contradiction(data))
    throw ConfigError(draft.where("data." + fault->member) + ": data." + fault->member + ": " + fault->what);
  try {
    optim::check_split(job.split, job.private_data);
  } catch (const optim::OptimError& error) {
    throw ConfigError(draft.where("data.private") + ": data.private: " + error.what());
  }
  try {
    optim::make_optimizer(job.optimizer, 16);
  } catch (const optim::OptimError& error) {
    throw ConfigError(draft.where("optimizer.schedule") + ": optimizer: " + message_with_hint(error));
  }
}

/// Hidden sizes of their own stay with the peers only where these differ; else they are the model's.
void settle_hidden(Draft& draft) {
  Job& job = draft.job;
  if (!job.heterogeneous()) return;
  const auto own =
      std::find_if(job.peers.begin(), job.peers.end(), [](const PeerEntry& p) { return !p.hidden.empty(); });
  const std::string where = draft.where("peers") + ": peer '" + own->name + "' has hidden sizes of its own";
  if (job.learns_by_key() || job.is_task() || !optim::model_traits(job.model.kind).hidden)
    throw ConfigError(where + ", and model.kind is " + in_quotes(job.model.kind) +
                      "; expected \"mlp\", or no peer.hidden");
  const auto& first = job.hidden_of(job.peers.front());
  if (std::all_of(job.peers.begin(), job.peers.end(),
                  [&](const auto& p) { return job.hidden_of(p) == first; })) {
    job.model.hidden = std::vector(first);
    for (PeerEntry& p : job.peers) p.hidden.clear();
  } else if (!job.initial.empty()) {
    throw ConfigError(where + ", and model.initial is one file for all; expected one of the two");
  }
}

void check_least_peers(const Draft& draft) {
  const Job& job = draft.job;
  if (job.run.min_peers > std::max<std::size_t>(1, job.peers.size()))
    throw ConfigError(draft.where("run.min_peers") + ": run.min_peers is " +
                      std::to_string(job.run.min_peers) + ", and the run has " +
                      std::to_string(job.peers.size()) + " peers; expected at most so many");
}

void check_slow(const Draft& draft) {
  const PeerIndex index(draft.job);
  std::set<std::string> seen;
  for (const auto& [name, factor] : draft.job.sim.slow) {
    index.find(name, draft.where("sim.slow"), "sim.slow");
    if (!seen.insert(name).second)
      throw ConfigError(draft.where("sim.slow") + ": sim.slow names '" + name +
                        "' twice; expected one factor");
  }
}

void check_attackers(const Draft& draft) {
  const std::string where = draft.where("sim.attackers");
  const PeerIndex index(draft.job);
  std::set<std::string> seen;
  for (const std::string& text : draft.job.sim.attackers) {
    std::string peer;
    try {
      peer = parse_attacker(text).peer;
    } catch (const ConfigError& error) {
      throw ConfigError(where + ": sim.attackers: " + error.what());
    }
    index.find(peer, where, "sim.attackers");
    if (!seen.insert(peer).second)
      throw ConfigError(where + ": sim.attackers names '" + peer + "' twice; expected one attack");
  }
  if (seen.size() == draft.job.peers.size())
    throw ConfigError(where + ": sim.attackers names every peer; expected an honest one to look at");
}

/// Who sleeps is silent and must not count as lost.
void check_night(const Draft& draft) {
  constexpr double kMargin_s = 1;  // from the last sign of life to the first after waking
  const SimSection& sim = draft.job.sim;
  const double most = draft.job.run.silence_timeout - kMargin_s;
  if (sim.night > 0 && sim.day * sim.night > most)
    throw ConfigError(
        draft.where("sim.night") + ": a night lasts sim.day x sim.night = " +
        number_text(sim.day * sim.night) + " s; expected at most " + number_text(most) +
        " s, run.silence_timeout less 1 s, so that a sleeping peer does not count as lost; raise "
        "run.silence_timeout or lower sim.night");
  if (sim.night > 0 && sim.day == 0)
    throw ConfigError(draft.where("sim.night") + ": sim.night is " + number_text(sim.night) +
                      " without sim.day; expected the length of a day, for example day = 10");
}

/// Keys of what is drawn, and of what is not.
void check_drawn(const Draft& draft) {
  const SimSection &sim = draft.job.sim, usual;
  if (sim.speeds == "equal" && sim.speed_spread != usual.speed_spread)
    throw ConfigError(draft.where("sim.speed_spread") + ": sim.speed_spread is " +
                      number_text(sim.speed_spread) +
                      " without sim.speeds; expected how speeds are drawn, for example speeds = \"uniform\"");
  if (sim.links == "equal") return;
  const auto refuse = [&](const std::string& key) {
    throw ConfigError(draft.where(key) + ": " + key + " makes no difference beside sim.links = \"" +
                      sim.links + "\", which draws it for each link; expected one of the two");
  };
  if (sim.bandwidth != usual.bandwidth) refuse("sim.bandwidth");
  if (sim.latency != usual.latency) refuse("sim.latency");
}

Draft begin(const std::string& path) {
  Draft draft;
  draft.origin = path;
  draft.job.path = path;
  draft.job.name = fs::path(path).stem().string();
  return draft;
}

}  // namespace

const std::string& Job::where(const std::string& key) const {
  const auto it = written.find(key);
  return it == written.end() ? path : it->second;
}

std::vector<std::string> Job::peer_names() const {
  std::vector<std::string> names;
  for (const PeerEntry& peer : peers) names.push_back(peer.name);
  return names;
}

bool Job::learns_by_key() const { return is_sparse_model(model.kind); }

bool Job::heterogeneous() const {
  return std::any_of(peers.begin(), peers.end(), [](const PeerEntry& p) { return !p.hidden.empty(); });
}

Job load_job(const std::string& path, std::span<const std::string> overrides,
             std::optional<std::size_t> peers) {
  Draft draft = begin(path);
  const Value document = read_document(path);
  const std::vector<Value> values = parse_overrides(overrides);
  const std::string topology = topology_path(document, values, folder_of(path));
  read_keys(document,
            {.folder = folder_of(path), .topology_keys = topology.empty(), .topology_path = topology}, draft);
  if (!topology.empty()) {
    draft.origin = topology;
    read_keys(read_document(topology), {.folder = folder_of(topology), .job_keys = false}, draft);
  }
  const FileWords file = words_of_file(draft);
  read_overrides(values, {}, draft);
  replace_peers(peers, draft);
  settle_unread(file, draft);
  finish_topology(draft);
  draft.origin = path;
  check_training(draft);
  settle_hidden(draft);
  check_least_peers(draft);
  check_slow(draft);
  check_attackers(draft);
  check_night(draft);
  check_drawn(draft);
  draft.job.written = draft.origins;
  return draft.job;
}

Job load_topology(const std::string& path, std::span<const std::string> overrides,
                  std::optional<std::size_t> peers) {
  Draft draft = begin(path);
  const std::vector<Value> values = parse_overrides(overrides);
  read_keys(read_document(path), {.folder = folder_of(path), .job_keys = false}, draft);
  const FileWords file = words_of_file(draft);
  read_overrides(values, {.job_keys = false}, draft);
  replace_peers(peers, draft);
  settle_unread(file, draft);
  return finish_topology(draft);
}

}  // namespace gossamer::node
