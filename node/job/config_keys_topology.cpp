// The keys of topology files: peers, graph, links.
#include <algorithm>
#include <charconv>
#include <stdexcept>

#include "config_words.h"
#include "endpoint.h"
#include "text.h"

namespace gossamer::node::config {
namespace {

std::vector<std::string> graph_names() { return names_of(topology::graph_table()); }
std::vector<std::string> weight_names() { return names_of(topology::weights_table()); }

[[noreturn]] void refuse(const std::string& text, const std::string& expected) {
  throw std::invalid_argument("found " + in_quotes(text) + "; expected " + expected);
}

std::string check_peer_name(const std::string& text) {
  if (!names_a_peer(text)) refuse(text, kPeerName);
  return text;
}

std::string check_endpoint(const std::string& text, bool listens) {
  const std::string expected =
      listens ? "tcp://host:port or tcp://*:port (IPv6 in brackets)" : "tcp://host:port (IPv6 in brackets)";
  if (!text.starts_with("tcp://")) refuse(text, expected);
  const std::string_view rest = std::string_view(text).substr(6);
  const std::size_t colon = rest.rfind(':');
  if (colon == std::string_view::npos) refuse(text, expected + "; there is no port");
  const std::string_view host = rest.substr(0, colon), port = rest.substr(colon + 1);
  unsigned number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (error != std::errc() || end != port.data() + port.size() || number < 1 || number > 65535)
    refuse(text, expected + "; the port is a number from 1 to 65535");
  if (host == "*" && listens) return text;
  if (host == "*") refuse(text, expected + "; others cannot reach '*', which may stand in bind only");
  if (!listens && is_any_address(endpoint_of(text).host))
    refuse(text,
           expected + "; others cannot reach '" + std::string(host) + "', which may stand in bind only");
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (!bracketed && host.find(':') != std::string_view::npos)
    refuse(text, expected + ", for example tcp://[::1]:7001");
  const std::string_view letters = bracketed ? host.substr(1, host.size() - 2) : host;
  const bool right = std::all_of(letters.begin(), letters.end(), [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_' || c == '%' || (bracketed && c == ':');
  });
  if (letters.empty() || !right) refuse(text, expected);
  return text;
}
std::string check_address(const std::string& text) {
  return text.empty() ? text : check_endpoint(text, false);
}
std::string check_bind(const std::string& text) { return text.empty() ? text : check_endpoint(text, true); }

std::string check_device(const std::string& text) {
  constexpr std::size_t kFront = 5, kMostDigits = 3;
  const bool numbered =
      text.starts_with("cuda:") && text.size() > kFront && text.size() <= kFront + kMostDigits &&
      std::all_of(text.begin() + kFront, text.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (text == "cpu" || text == "auto" || numbered) return text;
  refuse(text, "\"cpu\", \"auto\" or \"cuda:N\", for example \"cuda:0\"");
}

template <auto Member>
auto& graph(Draft& d, const void*) {
  return d.job.graph.*Member;
}
template <auto Member>
auto& access(Draft& d, const void*) {
  return d.job.access.*Member;
}
template <auto Member>
auto& peer(PeerDraft& p, const void*) {
  return p.entry.*Member;
}
template <auto Member>
auto& link(LinkDraft& l, const void*) {
  return l.*Member;
}

constexpr Key<Draft> kTopologyKeys[] = {
    {"peers",
     "that many local peers, peer0 and on, at base_port and on; or [[peer]] tables",
     draft<&Draft::count>,
     {.range = {1, 65535}}},
    {"base_port", "first port of local peers", job<&Job::base_port>, {.range = {1, 65535}}},

    {"links",
     "a table of links as gossamer probe writes it (.toml, or .csv), relative to this file; [[link]] tables "
     "here "
     "go before",
     draft<&Draft::link_file>,
     {.scope = Scope::kInput, .path = Path::kJoined}},

    {"graph.kind", "who talks to whom", graph<&topology::GraphSpec::kind>, {.names = graph_names}},
    {"graph.weights",
     "rule of the mixing matrix",
     graph<&topology::GraphSpec::weights>,
     {.names = weight_names}},
    {"graph.degree",
     "random_regular, watts_strogatz: neighbours of each peer; tree: children; base, epidemic: most "
     "neighbours in a round",
     graph<&topology::GraphSpec::degree>,
     {.unit = "peers", .range = kAtLeastOne}},
    {"graph.rows",
     "torus: rows of the grid; 0: the most square",
     graph<&topology::GraphSpec::rows>,
     {.unit = "peers"}},
    {"graph.groups",
     "hierarchical: how many groups; 0: about the square root of the peers",
     graph<&topology::GraphSpec::groups>,
     {.unit = "groups"}},
    {"graph.probability",
     "erdos_renyi: of each edge; watts_strogatz: that an edge's end is moved; 0: 2 ln P / P, and 0.1",
     graph<&topology::GraphSpec::probability>,
     {.range = kShare}},
    {"graph.period",
     "matching, equi_dyn, epidemic: random rounds before they repeat",
     graph<&topology::GraphSpec::period>,
     {.unit = "rounds", .range = {1, 65536}}},
    {"graph.seed", "of the random kinds", graph<&topology::GraphSpec::seed>},
    {"graph.directed", "exponential, edges, file: false adds the reverse of every edge",
     graph<&topology::GraphSpec::directed>},
    {"graph.edges", "edges: [[\"a\", \"b\"], [\"a\", \"c\", 0.3]]: from, to, weight; names or indices",
     draft<&Draft::edges>},
    {"graph.file",
     "file: edge list, .graphml, .json (node-link) or .metis, relative to this file",
     job<&Job::graph_file>,
     {.scope = Scope::kInput, .path = Path::kJoined}},

    {"access.allow",
     "[\"NAME=PUBLICKEY\", …]: who may speak, as the peer of that name; while a peer changes its key it has "
     "two (gossamer "
     "keys). Read again on SIGHUP",
     access<&AccessSection::allow>,
     {.scope = Scope::kLocal}},
    {"access.authority",
     "public key of who signs certificates, which admit peers, also such that no file names",
     access<&AccessSection::authority>,
     {.scope = Scope::kLocal}},
    {"access.revoked",
     "file of keys that admit nobody, one a line (gossamer keys revoke); read again on SIGHUP",
     access<&AccessSection::revoked>,
     {.scope = Scope::kLocal, .path = Path::kAbsolute}},
    {"access.key",
     "file of a peer's secret key, which it alone may read; empty: NAME.key",
     access<&AccessSection::key>,
     {.scope = Scope::kLocal, .path = Path::kAbsolute}},
    {"access.certificate",
     "file of a peer's certificate; empty: NAME.cert, where there is one",
     access<&AccessSection::certificate>,
     {.scope = Scope::kLocal, .path = Path::kAbsolute}},
};

constexpr Key<PeerDraft> kPeerKeys[] = {
    {"peer.name",
     "letters, digits, dot, underscore, hyphen",
     peer<&PeerEntry::name>,
     {.check = check_peer_name}},
    {"peer.address",
     "how others reach it: tcp://host:port; empty where bind is",
     peer<&PeerEntry::address>,
     {.check = check_address}},
    {"peer.bind",
     "where it listens; default: address; \"\": nowhere, it can only dial out, and its neighbours must "
     "listen",
     peer<&PeerEntry::bind>,
     {.scope = Scope::kLocal, .check = check_bind}},
    {"peer.device",
     "where it computes: \"cpu\", \"cuda:N\" (mlp, softmax), or \"auto\": this machine's peers in turn on "
     "the devices found, those that join by their names, else cpu; gossamer sim computes on the cpu",
     peer<&PeerEntry::device>,
     {.scope = Scope::kLocal, .check = check_device}},
    {"peer.batch", "rows per step; 0: optimizer.batch", peer<&PeerEntry::batch>, {.unit = "rows"}},
    {"peer.throughput",
     "what exchange.aggregate = 'throughput' weighs this peer by; a run prints what it reaches",
     peer<&PeerEntry::throughput>,
     {.unit = "samples/s", .range = kPositive}},
    {"peer.uplink",
     "that all it sends at once shares, for the simulator and advise; default: each link by itself",
     peer<&PeerEntry::uplink>,
     {.unit = "bit/s", .range = kPositive, .scope = Scope::kLocal, .quantity = Quantity::kBandwidth}},
    {"peer.hidden",
     "mlp: sizes of this peer's hidden layers; empty: model.hidden",
     peer<&PeerEntry::hidden>,
     {.unit = "units", .range = kAtLeastOne}},
};

constexpr Key<LinkDraft> kLinkKeys[] = {
    {"link.between", "names of the two peers", link<&LinkDraft::between>, {.scope = Scope::kLocal}},
    {"link.bandwidth",
     "of this link for the simulator and advise, each direction; default sim.bandwidth",
     link<&LinkDraft::bandwidth>,
     {.unit = "bit/s", .range = kPositive, .scope = Scope::kLocal, .quantity = Quantity::kBandwidth}},
    {"link.latency", "of this link for the simulator and advise; default sim.latency",
     link<&LinkDraft::latency>, kLocalTime},
};

}  // namespace

std::span<const Key<Draft>> topology_key_table() { return kTopologyKeys; }
std::span<const Key<PeerDraft>> peer_key_table() { return kPeerKeys; }
std::span<const Key<LinkDraft>> link_key_table() { return kLinkKeys; }

}  // namespace gossamer::node::config
