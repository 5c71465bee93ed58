// What correct job and topology files mean, and how they are written out again.
#include <gossamer_test/catch.h>

#include <algorithm>

#include "config_files.h"
#include "difference.h"
#include "gossamer/compress/codec.h"
#include "gossamer/node/job.h"
#include "text.h"

using namespace gossamer;
using gossamer::test::Folder;
using Strings = std::vector<std::string>;

namespace {

constexpr const char* kNetwork = R"(
base_port = 8000

[graph]
kind = "edges"
directed = false
edges = [["alpha", "beta"], [1, 2]]

[[peer]]
name = "alpha"
address = "tcp://10.0.0.1:7001"
bind = "tcp://*:7001"
batch = 256

[[peer]]
name = "beta"
address = "tcp://[fe80::1]:7001"

[[peer]]
name = "gamma-3"
address = "tcp://host.example:7001"
device = "cpu"

[[link]]
between = ["alpha", "beta"]
bandwidth = "100mbit"
latency = "2.5ms"

[[link]]
between = ["beta", "gamma-3"]
latency = 1
)";

constexpr const char* kJob = R"(
topology = "network.toml"

[model]
kind = "mlp"
hidden = [64, 32]
initial = "start.safetensors"

[data]
format = "csv"
path = "rows.csv"
label = 4
split = "dirichlet:0.3"
scale = 2
text_as = "hash:32"
text = ["city", "7"]

[optimizer]
kind = "adam"
learning_rate = 1e-3
batch = 32
schedule = "step"
step_every = 0.25

[exchange]
method = "dpsgd"
codec = "qsgd:bits=8"
staleness = "unbounded"
gamma = 0.5
overlap = true

[run]
epochs = 3
join_timeout = "2min"

[sim]
bandwidth = 2e7
latency = "5ms"
slow = ["beta=10", "gamma-3=1.5"]
)";

node::Job load(const Folder& folder, const char* job, const Strings& overrides = {},
               std::optional<std::size_t> peers = std::nullopt) {
  folder.write("network.toml", kNetwork);
  return node::load_job(folder.write("job.toml", job), overrides, peers);
}

}  // namespace

TEST_CASE("a job says what its files say") {
  const Folder folder;
  const node::Job job = load(folder, kJob);
  CHECK(job.name == "job");
  CHECK(job.model.hidden == std::vector<std::size_t>{64, 32});
  CHECK(job.initial == folder.path("start.safetensors"));
  CHECK(job.data.path == folder.path("rows.csv"));
  CHECK(job.data.label == "4");
  CHECK(job.data.scale == 2.0);
  CHECK(job.data.text_as == "hash:32");
  CHECK(job.data.text == Strings{"city", "7"});
  CHECK(job.split == "dirichlet:0.3");
  CHECK(job.optimizer.learning_rate == 1e-3);
  CHECK(job.exchange.codec == compress::make_codec("qsgd:bits=8")->spec());
  CHECK_FALSE(job.exchange.staleness.has_value());
  CHECK(job.exchange.gamma == 0.5);
  CHECK(job.exchange.overlap);
  CHECK(job.run.join_timeout == 120.0);
  CHECK(job.sim.bandwidth == 2e7);
  CHECK(job.sim.latency == 0.005);
  CHECK(job.sim.slow == std::vector<std::pair<std::string, double>>{{"beta", 10.0}, {"gamma-3", 1.5}});
}

TEST_CASE("a job knows the peers of its topology file") {
  const Folder folder;
  const node::Job job = load(folder, kJob);
  CHECK(job.base_port == 8000);
  CHECK(job.peer_names() == Strings{"alpha", "beta", "gamma-3"});
  CHECK(job.peers[0].bind == "tcp://*:7001");
  CHECK(job.peers[1].bind == "tcp://[fe80::1]:7001");
  CHECK(job.peers[0].batch == 256);
  CHECK(job.peers[1].batch == 32);
  CHECK(job.graph.peers == 3);
  REQUIRE(job.graph.edges.size() == 2);
  CHECK(job.graph.edges[1].from == 1);
  CHECK(job.graph.edges[1].to == 2);
  REQUIRE(job.links.size() == 2);
  CHECK(job.links[0].bandwidth == 1e8);
  CHECK(job.links[0].latency == 0.0025);
  CHECK_FALSE(job.links[1].bandwidth.has_value());
}

TEST_CASE("what a file leaves out has its default") {
  const Folder folder;
  const node::Job job = node::load_job(folder.write("job.toml", "peers = 2\n"));
  const node::Job plain;
  CHECK(job.model.kind == plain.model.kind);
  CHECK(job.optimizer.learning_rate == plain.optimizer.learning_rate);
  CHECK(job.exchange.method == "choco");
  CHECK(job.exchange.codec == compress::make_codec("onebit_scaled")->spec());
  CHECK(job.exchange.staleness == 0u);
  CHECK_FALSE(job.exchange.gamma.has_value());
  CHECK(job.peers[1].name == "peer1");
  CHECK(job.peers[1].address == "tcp://127.0.0.1:7002");
  CHECK(job.peers[1].bind == job.peers[1].address);
  CHECK(job.peers[1].batch == job.batch);
}

TEST_CASE("overrides reach the keys of both files") {
  const Folder folder;
  const node::Job job = load(folder, kJob,
                             {"exchange.codec=dense", "exchange.staleness=4", "graph.kind=star",
                              "run.epochs = 2", "model.hidden=[8, 8]", "sim.latency=7ms", "sim.latency=8ms",
                              "data.label=\"last\"", "data.path=7", "base_port=9000"});
  CHECK(job.exchange.codec == "dense");
  CHECK(job.exchange.staleness == 4u);
  CHECK(job.graph.kind == "star");
  CHECK(job.graph.edges.empty());
  CHECK(job.run.epochs == 2.0);
  CHECK(job.model.hidden == std::vector<std::size_t>{8, 8});
  CHECK(job.sim.latency == 0.008);
  CHECK(job.data.label == "last");
  CHECK(job.data.path == (std::filesystem::current_path() / "7").string());
}

TEST_CASE("an override of a peer's key holds for every peer") {
  const Folder folder;
  const node::Job tables = load(folder, kJob, {"peer.device=auto", "peer.batch=5", "peer.device=cuda:1"});
  for (const node::PeerEntry& peer : tables.peers) {
    CHECK(peer.device == "cuda:1");
    CHECK(peer.device_at == "--set peer.device=cuda:1");
    CHECK(peer.batch == 5);
  }
  CHECK(tables.device == "cuda:1");  // also for one that no file names
  const Strings overrides{"graph.kind=ring", "sim.slow=[]", "peer.device=auto"};
  for (const node::PeerEntry& peer : load(folder, kJob, overrides, 3).peers) CHECK(peer.device == "auto");
}

TEST_CASE("local peers take the place of tables") {
  const Folder folder;
  const Strings overrides{"graph.kind=ring", "sim.slow=[]"};
  const node::Job job = load(folder, kJob, overrides, 5);
  CHECK(job.peers.size() == 5);
  CHECK(job.graph.peers == 5);
  CHECK(job.links.empty());
  CHECK(job.peers[4].address == "tcp://127.0.0.1:8004");
  CHECK(load(folder, kJob, {"graph.kind=ring", "sim.slow=[]", "peers=6"}).peers.size() == 6);
}

TEST_CASE("an override may name another topology") {
  const Folder folder;
  const std::string other = folder.write("other.toml", "peers = 7\n");
  CHECK(load(folder, kJob, {"topology=" + other, "sim.slow=[]"}).peers.size() == 7);
}

TEST_CASE("a job may hold its topology itself") {
  const Folder folder;
  const std::string text = "peers = 8\n[graph]\nkind = \"torus\"\nrows = 2\n[run]\nseed = 5\n";
  const node::Job job = node::load_job(folder.write("job.toml", text));
  CHECK(job.graph.kind == "torus");
  CHECK(job.peers.size() == 8);
  CHECK(job.run.seed == 5);
}

TEST_CASE("an edge list is read from beside its topology file") {
  const Folder folder;
  std::filesystem::create_directory(folder.path("nets"));
  folder.write("nets/edges.txt", "0 1\n1 2\n2 0\n");
  folder.write("nets/net.toml", "peers = 3\n[graph]\nkind = \"file\"\nfile = \"edges.txt\"\n");
  const node::Job job = node::load_job(folder.write("job.toml", "topology = \"nets/net.toml\"\n"));
  CHECK(job.graph.edges.size() == 3);
  const std::string text = node::to_toml(job);
  const node::Job again = node::load_job(folder.write("again.toml", text));
  CHECK(again.graph.edges.size() == 3);
  CHECK(node::to_toml(again) == text);
}

TEST_CASE("a job written out reads back as the same") {
  const Folder folder, elsewhere;
  for (const char* text :
       {kJob, "peers = 3\n[exchange]\nstaleness = 2\n[optimizer]\nlearning_rate = 0.1234567890123\n",
        "peers = 3\n[exchange]\ndensity_warmup = [0.25, 0.0625]\nlayer_density = [\"fc*=0.5\"]\n",
        "peers = 3\n[exchange]\ndensity_warmup = \"on\"\n"}) {
    const std::string written = node::to_toml(load(folder, text));
    const node::Job again = node::load_job(elsewhere.write("written.toml", written));
    CHECK(node::to_toml(again) == written);
    CHECK(node::to_toml(again, true) == node::to_toml(load(folder, text), true));
  }
}

TEST_CASE("a batch is written for the peers alone that have one of their own") {
  const Folder folder;
  const std::string text =
      "[optimizer]\nbatch = 8\n[[peer]]\nname = \"a\"\naddress = \"tcp://h:1\"\nbatch = 8\n"
      "[[peer]]\nname = \"b\"\naddress = \"tcp://h:2\"\n[[peer]]\nname = \"c\"\naddress = "
      "\"tcp://h:3\"\nbatch = 5\n";
  const auto batches = [&](const std::string& written, const Strings& overrides) {
    std::vector<std::size_t> all;
    for (const node::PeerEntry& p : node::load_job(folder.write("job.toml", written), overrides).peers)
      all.push_back(p.batch);
    return all;
  };
  const node::Job job = node::load_job(folder.write("job.toml", text));
  CHECK(batches(node::to_toml(job), {}) == std::vector<std::size_t>{8, 8, 5});
  CHECK(batches(node::to_toml(job), {"optimizer.batch=16"}) == std::vector<std::size_t>{8, 16, 5});
  folder.write("net.toml", node::to_topology_toml(job));
  CHECK(batches("topology = \"net.toml\"\n[optimizer]\nbatch = 16\n", {}) ==
        std::vector<std::size_t>{8, 16, 5});
  // what peers compare does not say who wrote it
  const node::Job again = node::load_job(folder.write("again.toml", node::to_toml(job, true)));
  CHECK(node::to_toml(again, true) == node::to_toml(job, true));
  CHECK(batches(node::to_toml(again, true), {}) == std::vector<std::size_t>{8, 8, 5});
}

TEST_CASE("a peer that listens nowhere has no address, at every other peer too") {
  const Folder folder;
  const std::string text =
      "[[peer]]\nname = \"a\"\naddress = \"tcp://h:1\"\n[[peer]]\nname = \"b\"\nbind = \"\"\n[[peer]]\nname "
      "= "
      "\"c\"\nbind = \"\"\n";
  const node::Job job = node::load_job(folder.write("job.toml", text));
  CHECK(job.peers[1].address.empty());
  CHECK(job.peers[1].bind.empty());
  for (const bool shared : {false, true}) {
    const node::Job again = node::load_job(folder.write("again.toml", node::to_toml(job, shared)));
    CHECK(again.peers[2].address.empty());
    CHECK(node::to_toml(again, shared) == node::to_toml(job, shared));
  }
}

TEST_CASE("the weights of edges read back to the bit") {
  const Folder folder;
  const std::string text =
      "peers = 2\n[graph]\nkind = \"edges\"\nweights = \"explicit\"\nedges = [[0, 1, 0.3], [1, 0, 0.3]]\n";
  const node::Job job = node::load_job(folder.write("job.toml", text));
  const node::Job again = node::load_job(folder.write("again.toml", node::to_toml(job)));
  CHECK(job.graph.edges[0].weight == 0.3f);
  CHECK(again.graph.edges[0].weight == 0.3f);
}

TEST_CASE("what is local to a peer stands apart from what is shared") {
  const Folder folder;
  const std::string shared = node::to_toml(load(folder, kJob), true);
  for (const char* local : {"[sim]", "path", "initial", "bind", "device", "threads", "join_timeout",
                            "drain_timeout", "[[link]]"}) {
    INFO(local);
    CHECK(shared.find(local) == std::string::npos);
  }
  const Strings overrides{"sim.latency=1", "run.threads=3", "data.path=/elsewhere.csv", "run.join_timeout=1"};
  CHECK(node::to_toml(load(folder, kJob, overrides), true) == shared);
}

TEST_CASE("the first difference names the key and both values") {
  const Folder folder;
  const auto shared = [&](const Strings& overrides, std::optional<std::size_t> peers = std::nullopt) {
    return node::to_toml(node::load_job(folder.write("job.toml", "peers = 3\n"), overrides, peers), true);
  };
  const std::string here = shared({});
  CHECK(node::first_difference(here, here).empty());
  CHECK(node::first_difference(here, shared({"exchange.method=dpsgd"})) ==
        "exchange.method: here \"choco\", there \"dpsgd\"");
  CHECK(node::first_difference(here, shared({}, 4)) == "peers: here 3, there 4");
  CHECK(node::first_difference(shared({}, 4), here) == "peers: here 4, there 3");
  CHECK(node::first_difference(here, shared({"base_port=9000"})) == "base_port: here 7001, there 9000");
  const auto table = [&](const std::string& address) {
    const std::string text = "[[peer]]\nname = \"a\"\naddress = \"" + address + "\"\n";
    return node::to_toml(load(folder, text.c_str()), true);
  };
  CHECK(node::first_difference(table("tcp://h:1"), table("tcp://h:2")) ==
        "peer[0].address: here \"tcp://h:1\", there \"tcp://h:2\"");
}

TEST_CASE("help names every key once with its default") {
  Strings names;
  for (const auto& keys : {node::job_keys(), node::topology_keys()})
    for (const node::KeyHelp& key : keys) {
      names.push_back(key.key);
      CHECK_FALSE(key.help.empty());
      CHECK_FALSE(key.type.empty());
    }
  std::sort(names.begin(), names.end());
  CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
  CHECK(names.size() > 60);
  const auto keys = node::job_keys();
  const auto bandwidth =
      std::find_if(keys.begin(), keys.end(), [](const node::KeyHelp& k) { return k.key == "sim.bandwidth"; });
  REQUIRE(bandwidth != keys.end());
  CHECK(bandwidth->fallback == "\"1gbit\"");
  CHECK(bandwidth->unit == "bit/s");
}

TEST_CASE("quantities are read with their units") {
  CHECK(node::parse_bandwidth("100mbit") == 1e8);
  CHECK(node::parse_bandwidth("1.5 Gbit/s") == 1.5e9);
  CHECK(node::parse_bandwidth("56kbit") == 56e3);
  CHECK_FALSE(node::parse_bandwidth("10").has_value());
  CHECK_FALSE(node::parse_bandwidth("mbit").has_value());
  CHECK(node::parse_duration("5ms") == 0.005);
  CHECK(node::parse_duration("7us") == 7e-6);
  CHECK(node::parse_duration("2 min") == 120.0);
  CHECK_FALSE(node::parse_duration("1e999s").has_value());
  CHECK(node::bandwidth_text(1e9) == "1gbit");
  CHECK(node::parse_bandwidth(node::bandwidth_text(123456789.25)) == 123456789.25);
}

TEST_CASE("the nearest name is one that could have been meant") {
  const Strings names{"ring", "torus", "random_regular", "star"};
  CHECK(node::nearest("rign", names) == "ring");
  CHECK(node::nearest("RING", names) == "ring");
  CHECK(node::nearest("random", names) == "random_regular");
  CHECK(node::nearest("hypercube", names).empty());
  CHECK(node::nearest("", names).empty());
  CHECK(node::edit_distance("abcd", "abdc") == 1);
}
