#pragma once
// A Job is what a user wrote: a job file with its topology file, checked and with every default filled in.
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gossamer/node/errors.h"
#include "gossamer/node/exchange_settings.h"
#include "gossamer/optim/data.h"
#include "gossamer/optim/model.h"
#include "gossamer/optim/optimizer.h"
#include "gossamer/optim/planted_clicks.h"
#include "gossamer/optim/sample_stream.h"
#include "gossamer/optim/sparse.h"
#include "gossamer/optim/table.h"
#include "gossamer/topology/schedule.h"

namespace gossamer::node {

struct PeerEntry {
  std::string name;
  std::string address;  ///< how others reach it: tcp://host:port; empty: not at all, it can only dial out
  std::string bind;     ///< where it listens; default: address
  std::string device = "cpu";  ///< where it computes: or cuda:N, auto
  std::string device_at;       ///< where that was written; empty: nowhere
  std::size_t batch = 0;       ///< rows per step; 0 in the file = optimizer.batch, filled in when loaded
  bool own_batch = false;      ///< it was written for this peer, be it the same as optimizer.batch
  std::optional<double> throughput;  ///< samples/s, as exchange.aggregate = "throughput" weighs it
  std::optional<double> uplink;      ///< bit/s that its links share on their way out; none: they do not meet
  std::vector<std::size_t>
      hidden{};  ///< mlp: in place of model.hidden; empty in all where all peers are alike
};

/// What the simulator should know of one link (both directions).
struct LinkEntry {
  topology::PeerId a, b;
  std::optional<double> bandwidth;  ///< bit/s
  std::optional<double> latency;    ///< seconds
};

struct RunSection {
  double epochs = 10;
  std::uint64_t rounds = 0;  ///< > 0: instead of epochs
  std::uint64_t seed = 1;
  double evaluate_every = 1;    ///< epochs between test evaluations by the first peer; 0 = only at the end
  double report_every = 0.5;    ///< seconds between a peer's reports
  double join_timeout = 60;     ///< seconds to wait for all peers to appear
  double drain_timeout = 60;    ///< seconds a finished peer serves the others
  std::uint64_t min_peers = 1;  ///< fewer end the run; 0 = all of them: nobody may be lost
  std::string on_partition = "continue";  ///< or majority, stop: what is done where the network falls apart
  double partition_timeout = 60;          ///< seconds that a side without a majority waits for the others
  std::uint64_t restart = 5;              ///< times that a local peer is started again where it crashes
  double silence_timeout = 3.5;  ///< seconds without a sign of life after which a peer counts as lost
  double stall_timeout = 900;    ///< seconds of waiting in one round that end a run; 0 = none do
  std::string checkpoint_every = "10min";  ///< rounds, or a time (parse_save_interval); "0": no checkpoints
  std::uint64_t keep = 3;                  ///< checkpoints, beside the best
  double grace = 10;                       ///< seconds in which a run that is told to end saves
  std::uint64_t skip_limit = 3;  ///< skipped steps in a row after which a run counts as diverged; 0 = any
  std::uint64_t mute_after = 3;  ///< payloads that do not decode after which their sender is muted; 0 = never
  std::uint64_t memory = 0;      ///< bytes that one peer may take before it warns; 0 = the machine's
  bool insecure = false;         ///< plain connections that others than this machine can reach
  bool shared_memory = true;     ///< neighbours of this machine read frames where they are
  int threads = 0;               ///< compute threads of one peer; 0 = cores / peers on this host, at least 1
};

/// Who may speak in a run; where nothing is said connections are plain.
struct AccessSection {
  std::vector<std::string> allow;  ///< "NAME=PUBLICKEY"; a peer that changes its key has two
  std::string authority;  ///< public key of whose certificates admit peers, also such that no file names
  std::string revoked;    ///< file of keys that admit nobody
  std::string key, certificate;  ///< this peer's files; empty: NAME.key, and NAME.cert where there is one
  bool locked() const { return !allow.empty() || !authority.empty(); }
};

/// A time in which a link's direction ("a>b") or a peer ("a") of the simulator for a while.
struct FaultWindow {
  std::string where;
  double begin = 0, seconds = 0;  ///< of virtual time
};

/// The simulated network and machines (gossamer sim).
struct SimSection {
  double bandwidth = 1e9;                       ///< bit/s of each link and direction
  double latency = 5e-4;                        ///< seconds
  double jitter = 0;                            ///< seconds, uniform, added to latency (reorders frames)
  double loss = 0, duplicate = 0, reorder = 0;  ///< probability per frame
  double stray = 0;         ///< probability that one from an earlier start of its sender comes before a frame
  double garble = 0;        ///< probability that bytes of a frame change on the way
  double forge = 0;         ///< probability that a wrong one in its sender's name comes before a frame
  double pose = 0;          ///< probability that one in another peer's name comes before a frame
  double step_time = 5e-3;  ///< seconds of virtual time for one gradient at optimizer.batch rows
  double step_jitter = 0.1;                          ///< relative, uniform ±
  std::vector<std::pair<std::string, double>> slow;  ///< peer name, factor on step_time
  std::vector<std::string> attackers;                ///< "peer3=noise:100": peers that send something wrong
  std::vector<FaultWindow> cut;                      ///< "a>b": frames from a to b are lost
  std::vector<FaultWindow> clog;                     ///< "a>b": frames from a to b are held until the end
  std::vector<FaultWindow> pause;                    ///< the peer does nothing
  std::vector<FaultWindow> crash;                    ///< the peer is gone; then it is started again
  double clock_skew = 0;         ///< by which share each peer's clock is fast or slow, at most
  std::string speeds = "equal";  ///< how factors on step_time are drawn for the peers (node/sim/profile.h)
  double speed_spread = 20;      ///< the slowest machine's step time, the quickest's being 1
  std::string links = "equal";   ///< class of the links whose bandwidth and latency are drawn
  double day = 0, night = 0;     ///< virtual seconds; share of each day that a peer sleeps, 0 = none
};

/// What is learned where the model is one of sparse samples (model.kind = "lr" …), beside what all jobs have.
struct SparseSection {
  optim::SparseModelSpec model;  ///< kind, hidden and fields are filled in from [model] and [data] later
  optim::SampleStreamSpec samples{.fields = 16};  ///< of each peer; format, path, seed … are [data]'s
  std::string test_command;
  optim::PlantedSpec planted;        ///< samples, fields, seed are [data]'s
  std::string initial;               ///< file of rows to start from; empty: none
  optim::TableSpec table;            ///< width and seed are filled in later
  std::string exchange = "touched";  ///< how peers exchange rows: a name of row_exchange_rows()
  std::string codec = "onebit_scaled:lambda=1,bound=0.9,bucket=512";  ///< canonical
  double density = 0.04;
  std::uint64_t unsent = std::uint64_t{1} << 20;  ///< rows
};

struct Job {
  std::string path;        ///< as given
  std::string name;        ///< file name without folder and extension
  optim::ModelSpec model;  ///< features and classes are filled in from the data later
  std::string task;        ///< model.file: whose model, data and loss are learned, where kind = "python"
  std::string precision = "fp32";  ///< of products of matrices on a CUDA device: fp32, tf32
  std::string initial;             ///< safetensors to start from; empty = drawn from run.seed
  optim::DataSpec data;
  std::string split = "local_shuffle";
  bool private_data = false;       ///< rows are their peer's alone, also while it is not there
  SparseSection sparse;            ///< of models that learn by key alone
  optim::OptimizerSpec optimizer;  ///< total_steps is filled in later
  std::size_t batch = 64;
  ExchangeSettings exchange;
  RunSection run;
  SimSection sim;
  AccessSection access;
  topology::GraphSpec graph;  ///< edges read from the file where kind = "file"
  std::string graph_file;     ///< path of the edge list, resolved against the topology file
  std::vector<PeerEntry> peers;
  std::string device = "cpu", device_at;  ///< as of PeerEntry, of peers that no file names
  std::vector<LinkEntry> links;
  std::uint16_t base_port = 7001;
  std::map<std::string, std::string>
      written;  ///< by key: where it stands, file:line:column or "--set KEY=VALUE"

  /// Of the key where it was written, else the job's path.
  const std::string& where(const std::string& key) const;
  std::vector<std::string> peer_names() const;
  const std::vector<std::size_t>& hidden_of(const PeerEntry& peer) const {
    return peer.hidden.empty() ? model.hidden : peer.hidden;
  }
  std::size_t least_peers() const { return run.min_peers == 0 ? peers.size() : run.min_peers; }
  bool heterogeneous() const;  ///< some peers' models have hidden sizes of their own
  bool learns_by_key() const;  ///< the model is one of sparse samples, with a table
  bool is_task() const {
    return model.kind == "python";
  }  ///< what is learned stands in a Python file, and a Python learns it
};

/// Reads JOB and the topology file that it names (`topology = "ring4.toml"`, relative to the job file), or a
/// job that holds [graph] and peers itself. overrides: "exchange.codec=dense", "graph.kind=star", "peers=16"
/// (any key of either file; the value is TOML, or a bare string). peers: replaces the peers by that many
/// local ones (sim --peers). Checks keys, types, ranges and names, and that keys of [model], [data],
/// [optimizer] and [graph] that have other values than their defaults are read by the kinds that the job
/// names (an override of a kind takes the file's keys of the former kind along); throws ConfigError for the
/// first wrong one.
Job load_job(const std::string& path, std::span<const std::string> overrides = {},
             std::optional<std::size_t> peers = std::nullopt);
/// A topology file alone: name, graph, peers, links, base_port are filled in.
Job load_topology(const std::string& path, std::span<const std::string> overrides = {},
                  std::optional<std::size_t> peers = std::nullopt);

/// The job with every key written out, in a fixed order, those of sparse samples where it learns from them;
/// load_job reads it back. Where shared_only, keys that may differ between peers (paths, time-outs, threads,
/// devices, bind addresses, [sim]) are left out, and each peer's batch is a number; else it is 0 where it
/// follows optimizer.batch.
std::string to_toml(const Job& job, bool shared_only = false);

/// The keys that say who may speak, as part of a topology file; empty where connections are plain.
std::string access_toml(const Job& job);

/// The topology alone, as a topology file: peers, graph and links.
std::string to_topology_toml(const Job& job);

struct KeyHelp {
  std::string key;       ///< "exchange.codec"
  std::string type;      ///< "string", "integer", "number", "boolean", "list of integers" …
  std::string fallback;  ///< default, as TOML
  std::string unit;      ///< "seconds", "rows", "bit/s"; "" where none
  std::string help;      ///< one line
};
std::vector<KeyHelp> job_keys();
std::vector<KeyHelp> topology_keys();

}  // namespace gossamer::node
