#include "config_keys.h"

#include <algorithm>
#include <charconv>
#include <span>
#include <stdexcept>

#include "aggregation.h"
#include "exchange.h"
#include "gossamer/compress/codec.h"
#include "text.h"

namespace gossamer::node::config {
namespace {

using Words = std::vector<std::string>;

// --- Choices ---

template <class Row>
Words names_of(std::span<const Row> table) {
  Words names;
  for (const Row& row : table) names.emplace_back(row.name);
  return names;
}
Words model_names() { return names_of(optim::objective_table()); }
Words format_names() { return names_of(optim::data_format_table()); }
Words split_names() { return names_of(optim::split_table()); }
Words optimizer_names() { return names_of(optim::optimizer_table()); }
Words schedule_names() { return names_of(optim::rate_schedule_table()); }
Words method_names() { return names_of(method_table()); }
Words codec_names() { return names_of(compress::codec_table()); }
Words graph_names() { return names_of(topology::graph_table()); }
Words weight_names() { return {"metropolis", "uniform", "explicit"}; }

std::string check_split_name(const std::string& text) {
  optim::check_split(text);
  return text;
}
std::string check_codec(const std::string& text) { return compress::make_codec(text)->spec(); }

[[noreturn]] void refuse(const std::string& text, const std::string& expected) {
  throw std::invalid_argument("found " + in_quotes(text) + "; expected " + expected);
}

std::string check_peer_name(const std::string& text) {
  const bool right = std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
  if (!right || text.empty() || text.size() > 64)
    refuse(text, "1 to 64 letters, digits, dots, underscores or hyphens");
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
std::string check_address(const std::string& text) { return check_endpoint(text, false); }
std::string check_bind(const std::string& text) { return check_endpoint(text, true); }

std::string check_device(const std::string& text) {
  if (text == "cpu") return text;
  const bool numbered =
      text.size() > 5 && text.starts_with("cuda:") &&
      std::all_of(text.begin() + 5, text.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (numbered || text == "cuda")
    refuse(text, "\"cpu\": the data plane on a GPU does not exist yet in this version");
  refuse(text, "\"cpu\" or \"cuda:N\"");
}

// --- The keys ---

constexpr Interval kPositive{0, kInfinity, true}, kNotNegative{0}, kAtLeastOne{1};
constexpr Interval kProbability{0, 1, false, true}, kFraction{0, 1, true}, kShare{0, 1};

template <auto Member>
auto& draft(Draft& d) {
  return d.*Member;
}
template <auto Member>
auto& job(Draft& d) {
  return d.job.*Member;
}
template <auto Member>
auto& model(Draft& d) {
  return d.job.model.*Member;
}
template <auto Member>
auto& data(Draft& d) {
  return d.job.data.*Member;
}
template <auto Member>
auto& optimizer(Draft& d) {
  return d.job.optimizer.*Member;
}
template <auto Member>
auto& exchange(Draft& d) {
  return d.job.exchange.*Member;
}
template <auto Member>
auto& run(Draft& d) {
  return d.job.run.*Member;
}
template <auto Member>
auto& sim(Draft& d) {
  return d.job.sim.*Member;
}
template <auto Member>
auto& graph(Draft& d) {
  return d.job.graph.*Member;
}
template <auto Member>
auto& peer(PeerDraft& p) {
  return p.entry.*Member;
}
template <auto Member>
auto& link(LinkDraft& l) {
  return l.*Member;
}

constexpr Rule kLocalSeconds{
    .unit = "seconds", .range = kPositive, .scope = Scope::kLocal, .quantity = Quantity::kSeconds};
constexpr Rule kLocalTime{
    .unit = "seconds", .range = kNotNegative, .scope = Scope::kLocal, .quantity = Quantity::kSeconds};
constexpr Rule kLocalProbability{.range = kProbability, .scope = Scope::kLocal};
constexpr Rule kLocalPath{.scope = Scope::kLocal, .path = Path::kAbsolute};

constexpr Key<Draft> kJobKeys[] = {
    {"topology",
     "the topology file, relative to this one; or its tables stand in the job file",
     draft<&Draft::topology>,
     {.scope = Scope::kInput, .path = Path::kJoined}},

    {"model.kind", "what is trained", model<&optim::ObjectiveSpec::kind>, {.names = model_names}},
    {"model.hidden",
     "mlp: sizes of the hidden layers",
     model<&optim::ObjectiveSpec::hidden>,
     {.unit = "units", .range = kAtLeastOne}},
    {"model.initial", "safetensors file to start from; empty: drawn from run.seed", job<&Job::initial>,
     kLocalPath},

    {"data.format", "how the data is stored", data<&optim::DataSpec::format>, {.names = format_names}},
    {"data.path", "idx: folder; csv: training file; relative to this file", data<&optim::DataSpec::path>,
     kLocalPath},
    {"data.test_path", "csv: test file; empty: every 10th row of path is held out",
     data<&optim::DataSpec::test_path>, kLocalPath},
    {"data.label",
     "csv: label column: first, last, an index from 0 or a header name",
     data<&optim::DataSpec::label>,
     {.number_too = true}},
    {"data.split",
     "how the rows are shared out over the peers",
     job<&Job::split>,
     {.names = split_names, .check = check_split_name}},
    {"data.mean", "subtracted from every feature (idx: after byte/255)", data<&optim::DataSpec::mean>},
    {"data.scale", "every feature is divided by it", data<&optim::DataSpec::scale>, {.range = kPositive}},
    {"data.limit",
     "use the first training rows only; 0: all",
     data<&optim::DataSpec::limit>,
     {.unit = "rows"}},
    {"data.rows",
     "synthetic: training rows",
     data<&optim::DataSpec::rows>,
     {.unit = "rows", .range = kAtLeastOne}},
    {"data.test_rows",
     "synthetic: test rows",
     data<&optim::DataSpec::test_rows>,
     {.unit = "rows", .range = kAtLeastOne}},
    {"data.features", "synthetic: dimensions", data<&optim::DataSpec::features>, {.range = kAtLeastOne}},
    {"data.classes", "synthetic: Gaussian blobs", data<&optim::DataSpec::classes>, {.range = {2}}},
    {"data.separation",
     "synthetic: standard deviation of the blobs' centres",
     data<&optim::DataSpec::separation>,
     {.range = kNotNegative}},
    {"data.seed", "synthetic: seed of the data", data<&optim::DataSpec::seed>},

    {"optimizer.kind",
     "rule of the local step",
     optimizer<&optim::OptimizerSpec::kind>,
     {.names = optimizer_names}},
    {"optimizer.learning_rate",
     "step size",
     optimizer<&optim::OptimizerSpec::learning_rate>,
     {.range = kPositive}},
    {"optimizer.momentum",
     "momentum, nesterov, quasi_global: decay per step",
     optimizer<&optim::OptimizerSpec::momentum>,
     {.range = kProbability}},
    {"optimizer.beta1",
     "adam: decay of the mean",
     optimizer<&optim::OptimizerSpec::beta1>,
     {.range = kProbability}},
    {"optimizer.beta2",
     "adam: decay of the squares",
     optimizer<&optim::OptimizerSpec::beta2>,
     {.range = kProbability}},
    {"optimizer.epsilon",
     "adam: added to the root",
     optimizer<&optim::OptimizerSpec::epsilon>,
     {.range = kPositive}},
    {"optimizer.weight_decay",
     "adds weight_decay times x to the gradient (adam: decoupled)",
     optimizer<&optim::OptimizerSpec::weight_decay>,
     {.range = kNotNegative}},
    {"optimizer.schedule",
     "how the rate changes over the run",
     optimizer<&optim::OptimizerSpec::schedule>,
     {.names = schedule_names}},
    {"optimizer.step_every",
     "step: part of the run between drops",
     optimizer<&optim::OptimizerSpec::step_every>,
     {.unit = "of the run", .range = kShare}},
    {"optimizer.step_factor",
     "step: factor at each drop",
     optimizer<&optim::OptimizerSpec::step_factor>,
     {.range = kFraction}},
    {"optimizer.warmup",
     "part of the run with linearly rising rate",
     optimizer<&optim::OptimizerSpec::warmup>,
     {.unit = "of the run", .range = kProbability}},
    {"optimizer.batch",
     "rows per step of a peer that names no batch of its own",
     job<&Job::batch>,
     {.unit = "rows", .range = kAtLeastOne}},

    {"exchange.method", "how the peers agree", exchange<&ExchangeSection::method>, {.names = method_names}},
    {"exchange.codec",
     "how parcels are compressed, name:parameter=value (gossamer codec list)",
     exchange<&ExchangeSection::codec>,
     {.names = codec_names, .check = check_codec}},
    {"exchange.staleness",
     "how far a peer may run ahead of its neighbours; 0: synchronous",
     exchange<&ExchangeSection::staleness>,
     {.unit = "rounds", .range = kNotNegative, .word = "unbounded"}},
    {"exchange.gamma",
     "choco: consensus step; auto: the codec's",
     exchange<&ExchangeSection::gamma>,
     {.range = kFraction, .word = "auto"}},
    {"exchange.aggregate",
     "weighted by the mixing matrix, by samples, or a rule that bears f wrong peers: krum:f=3",
     exchange<&ExchangeSection::aggregate>,
     {.names = aggregate_names, .check = check_aggregate}},
    {"exchange.overlap", "dpsgd: compute while the parameters travel", exchange<&ExchangeSection::overlap>},
    {"exchange.dense_below",
     "layers of fewer entries go dense under codecs of several bits and sparse ones; 0: none",
     exchange<&ExchangeSection::dense_below>,
     {.unit = "entries"}},
    {"exchange.local_steps",
     "local_sgd: steps from one exchange to the next",
     exchange<&ExchangeSection::local_steps>,
     {.unit = "rounds", .range = {1, 100000}}},
    {"exchange.parcel",
     "largest parcel; larger layers are sliced",
     exchange<&ExchangeSection::parcel>,
     {.unit = "entries", .range = {16}}},

    {"run.epochs", "passes over the data", run<&RunSection::epochs>, {.unit = "epochs", .range = kPositive}},
    {"run.rounds", "instead of epochs, where above 0", run<&RunSection::rounds>, {.unit = "rounds"}},
    {"run.seed", "of everything random", run<&RunSection::seed>},
    {"run.evaluate_every",
     "between test evaluations by the first peer; 0: at the end only",
     run<&RunSection::evaluate_every>,
     {.unit = "epochs", .range = kNotNegative}},
    {"run.report_every", "between a peer's reports", run<&RunSection::report_every>, kLocalSeconds},
    {"run.join_timeout", "to wait for all peers to appear", run<&RunSection::join_timeout>, kLocalSeconds},
    {"run.drain_timeout", "that a finished peer serves the others", run<&RunSection::drain_timeout>,
     kLocalTime},
    {"run.silence_timeout", "without a sign of life after which a peer counts as lost",
     run<&RunSection::silence_timeout>, kLocalSeconds},
    {"run.threads",
     "compute threads of a peer; 0: cores / peers on this host, at least 1",
     run<&RunSection::threads>,
     {.range = {0, 4096}, .scope = Scope::kLocal}},

    {"sim.bandwidth",
     "of each link and direction",
     sim<&SimSection::bandwidth>,
     {.unit = "bit/s", .range = kPositive, .scope = Scope::kLocal, .quantity = Quantity::kBandwidth}},
    {"sim.latency", "of each frame", sim<&SimSection::latency>, kLocalTime},
    {"sim.jitter", "uniform, added to the latency", sim<&SimSection::jitter>, kLocalTime},
    {"sim.loss", "probability that a frame is lost", sim<&SimSection::loss>, kLocalProbability},
    {"sim.duplicate", "probability that a frame arrives twice", sim<&SimSection::duplicate>,
     kLocalProbability},
    {"sim.reorder", "probability that a frame is overtaken", sim<&SimSection::reorder>, kLocalProbability},
    {"sim.step_time", "of one gradient at optimizer.batch rows", sim<&SimSection::step_time>, kLocalSeconds},
    {"sim.step_jitter", "of step_time, uniform, up and down", sim<&SimSection::step_jitter>,
     kLocalProbability},
    {"sim.slow",
     "slow peers and their factor on step_time: [\"peer3=10\"]",
     sim<&SimSection::slow>,
     {.range = kPositive, .scope = Scope::kLocal}},
};

constexpr Key<Draft> kTopologyKeys[] = {
    {"peers",
     "that many local peers, peer0 and on, at base_port and on; or [[peer]] tables",
     draft<&Draft::count>,
     {.range = {1, 65535}, .scope = Scope::kInput}},
    {"base_port",
     "first port of local peers",
     job<&Job::base_port>,
     {.range = {1, 65535}, .scope = Scope::kLocal}},

    {"graph.kind", "who talks to whom", graph<&topology::GraphSpec::kind>, {.names = graph_names}},
    {"graph.weights",
     "rule of the mixing matrix",
     graph<&topology::GraphSpec::weights>,
     {.names = weight_names}},
    {"graph.degree",
     "random_regular, watts_strogatz: neighbours of each peer; tree: children; base: most neighbours in a "
     "round",
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
     "matching, equi_dyn: random rounds before they repeat",
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
};

constexpr Key<PeerDraft> kPeerKeys[] = {
    {"peer.name",
     "letters, digits, dot, underscore, hyphen",
     peer<&PeerEntry::name>,
     {.check = check_peer_name}},
    {"peer.address",
     "how others reach it: tcp://host:port",
     peer<&PeerEntry::address>,
     {.check = check_address}},
    {"peer.bind",
     "where it listens; default: address",
     peer<&PeerEntry::bind>,
     {.scope = Scope::kLocal, .check = check_bind}},
    {"peer.device",
     "\"cpu\"; \"cuda:N\" is for a later version",
     peer<&PeerEntry::device>,
     {.scope = Scope::kLocal, .check = check_device}},
    {"peer.batch", "rows per step; 0: optimizer.batch", peer<&PeerEntry::batch>, {.unit = "rows"}},
};

constexpr Key<LinkDraft> kLinkKeys[] = {
    {"link.between", "names of the two peers", link<&LinkDraft::between>, {.scope = Scope::kLocal}},
    {"link.bandwidth",
     "of this link in the simulator, each direction; default sim.bandwidth",
     link<&LinkDraft::bandwidth>,
     {.unit = "bit/s", .range = kPositive, .scope = Scope::kLocal, .quantity = Quantity::kBandwidth}},
    {"link.latency", "of this link in the simulator; default sim.latency", link<&LinkDraft::latency>,
     kLocalTime},
};

}  // namespace

std::span<const Key<Draft>> job_key_table() { return kJobKeys; }
std::span<const Key<Draft>> topology_key_table() { return kTopologyKeys; }
std::span<const Key<PeerDraft>> peer_key_table() { return kPeerKeys; }
std::span<const Key<LinkDraft>> link_key_table() { return kLinkKeys; }

}  // namespace gossamer::node::config
