// Wrong job and topology files, and what is said of each.
#include <gossamer_test/catch.h>

#include "config_files.h"
#include "gossamer/node/job.h"
#include "setup.h"

using namespace gossamer;
using gossamer::test::Folder;
using gossamer::test::says;

namespace {

struct Wrong {
  const char* text;      ///< the file
  const char* expected;  ///< stands in the message
};

constexpr const char* kRing = "peers = 4\n[graph]\nkind = \"ring\"\n";

// Each stands below `topology = "ring.toml"`, as line 2 and on; ring.toml is kRing.
constexpr Wrong kJobs[] = {
    {"[exchange]\ncodek = \"dense\"",
     "job.toml:3:1: unknown key 'exchange.codek'; did you mean 'exchange.codec'? (gossamer help job lists "
     "every key)"},
    {"[exchnage]\ncodec = \"dense\"", "job.toml:2:2: unknown key 'exchnage'; did you mean 'exchange'?"},
    {"exchange = \"choco\"", "job.toml:2:1: exchange is the string \"choco\"; expected a table [exchange]"},
    {"[run]\nlearning_rate = 0.1",
     "job.toml:3:1: unknown key 'run.learning_rate'; did you mean 'optimizer.learning_rate'?"},
    {"[run]\ntopology = \"x.toml\"",
     "job.toml:3:1: unknown key 'run.topology'; 'topology' stands at the top of the file, before [run]"},
    {"[run]\nmin_peers = 5",
     "job.toml:3:13: run.min_peers is 5, and the run has 4 peers; expected at most so many"},
    {"[run]\non_partition = \"wait\"",
     "job.toml:3:16: run.on_partition is the string \"wait\"; expected one of continue, majority, stop"},
    {"[run]\npartition_timeout = \"-1s\"", "job.toml:3:21: run.partition_timeout"},
    {"[graph]\nkind = \"star\"", "'graph' belongs to the topology, and this job takes that from"},
    {"peers = 3", "job.toml:2:1: 'peers' belongs to the topology"},
    {"[model]\nkind = \"mpl\"",
     "job.toml:3:8: model.kind is the string \"mpl\"; expected one of softmax, quadratic, mlp, lr, fm, ffm, "
     "dnn, wide_deep, deepfm, python; "
     "did you mean 'mlp'?"},
    {"[model]\nkind = 3",
     "job.toml:3:8: model.kind is 3; expected a string (softmax, quadratic, mlp, lr, fm, ffm, dnn, "
     "wide_deep, deepfm, python)"},
    {"[model]\nkind = \"python\"", "job.toml:3:8: model.kind is \"python\" without model.file"},
    {"[model]\nhidden = [256, 0]", "job.toml:3:16: model.hidden is 0; expected an integer of at least 1"},
    {"[model]\nhidden = 256", "job.toml:3:10: model.hidden is 256; expected a list of integers"},
    {"[model]\nhidden = [2.5]", "job.toml:3:11: model.hidden is 2.5; expected an integer"},
    {"[data]\nformat = \"cvs\"", "did you mean 'csv'?"},
    {"[data]\nformat = \"idx\"", "job.toml:3:10: data.format is \"idx\" without data.path"},
    {"[data]\nformat = \"csv\"\npath = \"a\"\nmean = 2\nstandardize = true",
     "job.toml:5:8: data.mean: found data.standardize = true beside it"},
    {"[data]\nformat = \"csv\"\npath = \"a\"\ntext = [\"city\"]",
     "job.toml:5:8: data.text: found columns of text, and data.text_as = \"refuse\"; expected"},
    {"[data]\nformat = \"csv\"\npath = \"a\"\ntext_as = \"hash:1\"", "job.toml:5:11: data.text_as: "},
    {"[data]\nformat = \"csv\"\npath = \"a\"\ntext_as = \"one_hot\"", "did you mean 'onehot'?"},
    {"[data]\nstandardize = true",
     "job.toml:3:15: data.standardize = true makes no difference to data format 'synthetic' (but to csv)"},
    {"[data]\nsplit = \"dirichlet:0\"", "job.toml:3:9: data.split: "},
    {"[data]\nscale = 0", "job.toml:3:9: data.scale is 0; expected a number above 0"},
    {"[data]\nlimit = -1", "job.toml:3:9: data.limit is -1; expected an integer of at least 0"},
    {"[data]\nclasses = 1", "job.toml:3:11: data.classes is 1; expected an integer of at least 2"},
    {"[data]\nlabel = -1", "job.toml:3:9: data.label is -1; expected a string"},
    {"[optimizer]\nkind = \"SDG\"", "did you mean 'sgd'?"},
    {"[optimizer]\nlearning_rate = \"fast\"",
     "job.toml:3:17: optimizer.learning_rate is the string \"fast\"; expected a number above 0"},
    {"[optimizer]\nlearning_rate = nan",
     "job.toml:3:17: optimizer.learning_rate is nan; expected a number above 0"},
    {"[optimizer]\nmomentum = 1", "job.toml:3:12: optimizer.momentum is 1; expected a number in [0, 1)"},
    {"[optimizer]\nbatch = 0", "job.toml:3:9: optimizer.batch is 0; expected an integer of at least 1"},
    {"[optimizer]\nschedule = \"cosin\"", "did you mean 'cosine'?"},
    {"[optimizer]\nschedule = \"step\"", "job.toml:3:12: optimizer: "},
    {"[exchange]\nmethod = \"chocco\"", "did you mean 'choco'?"},
    {"[exchange]\ncodec = \"qsgd:bits=5\"", "job.toml:3:9: exchange.codec: "},
    {"[exchange]\nstaleness = -1",
     "job.toml:3:13: exchange.staleness is -1; expected an integer of at least 0 or \"unbounded\""},
    {"[exchange]\nstaleness = \"none\"",
     "is the string \"none\"; expected an integer of at least 0 or \"unbounded\""},
    {"[exchange]\ngamma = 1.5",
     "job.toml:3:9: exchange.gamma is 1.5; expected a number in (0, 1] or \"auto\""},
    {"[exchange]\noverlap = \"yes\"",
     "job.toml:3:11: exchange.overlap is the string \"yes\"; expected true or false"},
    {"[exchange]\naggregate = \"weight\"", "did you mean 'weighted'?"},
    {"[run]\nepochs = 0", "job.toml:3:10: run.epochs is 0; expected a number above 0"},
    {"[run]\nepochs = 2024-01-01", "job.toml:3:10: run.epochs is a date or time; expected a number"},
    {"[run]\nseed = 99999999999999999999", "job.toml:3:"},
    {"[run]\nthreads = 5000000000",
     "job.toml:3:11: run.threads is 5000000000; expected an integer in [0, 4096]"},
    {"[run]\njoin_timeout = \"5 parsecs\"", "in seconds, or a text such as \"5ms\""},
    {"[sim]\nloss = 1", "job.toml:3:8: sim.loss is 1; expected a number in [0, 1)"},
    {"[sim]\nbandwidth = \"100MB\"",
     "job.toml:3:13: sim.bandwidth is the string \"100MB\"; expected a number above 0 in "
     "bit/s, or a text such as \"100mbit\""},
    {"[sim]\nlatency = \"-5ms\"",
     "job.toml:3:11: sim.latency is the string \"-5ms\"; expected a number of at least 0"},
    {"[sim]\nslow = [\"peer9=10\"]",
     "job.toml:3:8: sim.slow names \"peer9\", which is no peer; expected one of peer0"},
    {"[sim]\nslow = [\"peer1\"]",
     "job.toml:3:9: sim.slow is the string \"peer1\"; expected a list of name=number"},
    {"[sim]\nslow = [\"peer1=0\"]",
     "job.toml:3:9: sim.slow is the string \"peer1=0\"; expected a number in [0.001, 1000000]"},
    {"[sim]\nslow = [\"peer0=3\", \"peer1=1e300\"]",
     "job.toml:3:20: sim.slow is the string \"peer1=1e300\"; expected a number in [0.001, 1000000]"},
    {"[sim]\nslow = [\"peer1=1e999\"]", "job.toml:3:9: sim.slow is the string \"peer1=1e999\"; expected"},
    {"[exchange]\ndensity_warmup = \"off\"",
     "exchange.density_warmup is the string \"off\"; expected a list of numbers, for example [0.25, 0.05], "
     "or "
     "\"on\""},
    {"[exchange]\ndensity_warmup = [0.25, 2]", "expected a number in (0, 1]"},
    {"[exchange]\nlayer_density = [\"fc1\"]", "expected a list of name=number"},
    {"[sim]\nspeeds = \"unifrm\"",
     "sim.speeds is the string \"unifrm\"; expected one of equal, uniform, lognormal; did you mean "
     "'uniform'?"},
    {"[sim]\nspeed_spread = 0.5", "sim.speed_spread is 0.5; expected a number in [1, 1000000]"},
    {"[sim]\nspeed_spread = 5", "job.toml:3:16: sim.speed_spread is 5 without sim.speeds; expected"},
    {"[sim]\nlinks = \"mobile\"\nbandwidth = \"1mbit\"",
     "job.toml:4:13: sim.bandwidth makes no difference beside sim.links = \"mobile\""},
    {"[sim]\nlinks = \"mixed\"\nlatency = 1", "sim.latency makes no difference beside sim.links"},
    {"[sim]\nlinks = \"wifi\"", "expected one of equal, datacentre, broadband, mobile, mixed"},
    {"[sim]\nnight = 0.2", "sim.night is 0.2 without sim.day; expected the length of a day"},
    {"[sim]\nday = -1", "sim.day is -1; expected a number of at least 0"},
    {"[sim]\nday = 10\nnight = 1", "sim.night is 1; expected a number in [0, 1)"},
    {"[sim]\nday = 10\nnight = 0.5",
     "a night lasts sim.day x sim.night = 5 s; expected at most 2.5 s, run.silence_timeout less 1 s"},
    {"[run]\nseed = 1\nseed = 2", "job.toml:4:"},
    {"[run\nseed = 1", "job.toml:2:5: not valid TOML"},
    {"[model]\nkind = \"mlp\nhidden = [8]", "; is the closing quote missing?"},
    {"[optimizer]\nbatch = 64.0", "optimizer.batch is 64.0; expected an integer of at least 1"},
    {"[optimizer]\nepsilon = 1e-46", "optimizer.epsilon is 1e-46; expected a number of at least 1e-38"},
    {"[run]\nseed = ", "job.toml:3:"},
};

constexpr Wrong kTopologies[] = {
    {"", "net.toml: no peers; expected 'peers = 4' at the top"},
    {"[graph]\nkind = \"ring\"\npeers = 4",
     "net.toml:3:1: unknown key 'graph.peers'; 'peers' stands at the top of the file, before [graph]"},
    {"[graph]\nbase_port = 1", "net.toml:2:1: unknown key 'graph.base_port'; 'base_port' stands at the top"},
    {"peers = 0", "net.toml:1:9: peers is 0; expected an integer in [1, 65535]"},
    {"peers = 4\nbase_port = 65534",
     "net.toml:1:9: 4 peers from base_port 65534 on would need ports above 65535"},
    {"peers = 4\nbase_port = 70000", "net.toml:2:13: base_port is 70000; expected an integer in [1, 65535]"},
    {"peers = 2\n[[peer]]\nname = \"a\"\naddress = \"tcp://h:1\"",
     "net.toml:1:9: both peers and [[peer]] tables"},
    {"[[peers]]\nname = \"a\"", "peers is a list; expected an integer; one table for each peer is [[peer]]"},
    {"[peer]\nname = \"a\"", "peer is a table; expected tables, each under a line [[peer]]"},
    {"[[peer]]\nnam = \"a\"", "net.toml:2:1: unknown key 'peer.nam'; did you mean 'peer.name'?"},
    {"[[peer]]\naddress = \"tcp://h:1\"", "net.toml:1:1: this [[peer]] has no name"},
    {"[[peer]]\nname = \"a\"", "net.toml:1:1: peer 'a' has no address"},
    {"[[peer]]\nname = \"a\"\naddress = \"tcp://h:1\"\nbind = \"\"",
     "net.toml:4:8: peer 'a' has bind = \"\" beside an address; expected both, or neither"},
    {"[[peer]]\nname = \"a\"\naddress = \"\"\nbind = \"tcp://h:1\"",
     "net.toml:4:8: peer 'a' has a bind without an address"},
    {"[[peer]]\nname = \"a b\"", "net.toml:2:8: peer.name: found \"a b\"; expected 1 to 64 letters"},
    {"[[peer]]\nname = \"\"", "net.toml:2:8: peer.name: found \"\""},
    {"[[peer]]\nname = \"a\"\naddress = \"tcp://h:1\"\n[[peer]]\nname = \"a\"\naddress = \"tcp://h:2\"",
     "net.toml:5:8: peer.name 'a' stands at"},
    {"[[peer]]\nname = \"a\"\naddress = \"tcp://h:1\"\n[[peer]]\nname = \"b\"\naddress = \"tcp://h:1\"",
     "net.toml:6:11: peer.address 'tcp://h:1' is that of peer 'a' already"},
    {"[[peer]]\naddress = \"h:7001\"",
     "net.toml:2:11: peer.address: found \"h:7001\"; expected tcp://host:port"},
    {"[[peer]]\naddress = \"tcp://h\"", "there is no port"},
    {"[[peer]]\naddress = \"tcp://h:0\"", "the port is a number from 1 to 65535"},
    {"[[peer]]\naddress = \"tcp://h:70000\"", "the port is a number from 1 to 65535"},
    {"[[peer]]\naddress = \"tcp://::1:7001\"", "IPv6 in brackets), for example tcp://[::1]:7001"},
    {"[[peer]]\naddress = \"tcp://*:7001\"", "which may stand in bind only"},
    {"[[peer]]\naddress = \"tcp://0.0.0.0:7001\"",
     "net.toml:2:11: peer.address: found \"tcp://0.0.0.0:7001\"; expected tcp://host:port (IPv6 in "
     "brackets); "
     "others cannot reach '0.0.0.0', which may stand in bind only"},
    {"[[peer]]\naddress = \"tcp://[::]:7001\"", "which may stand in bind only"},
    {"[[peer]]\naddress = \"tcp://0:7001\"", "which may stand in bind only"},
    {"[[peer]]\ndevice = \"cuda\"",
     "net.toml:2:10: peer.device: found \"cuda\"; expected \"cpu\", \"auto\" or \"cuda:N\""},
    {"[[peer]]\ndevice = \"cuda:1000\"", "net.toml:2:10: peer.device: found \"cuda:1000\""},
    {"[[peer]]\ndevice = \"gpu\"",
     "net.toml:2:10: peer.device: found \"gpu\"; expected \"cpu\", \"auto\" or \"cuda:N\""},
    {"[[peer]]\nbatch = -5", "net.toml:2:9: peer.batch is -5; expected an integer of at least 0"},
    {"peers = 2\n[[link]]\nbetween = [\"peer0\", \"peer7\"]",
     "net.toml:3:11: link.between names \"peer7\", which is no peer; expected one of peer0, peer1"},
    {"peers = 2\n[[link]]\nbetween = [\"peer0\"]", "net.toml:3:11: link.between names 1 peers; expected two"},
    {"peers = 2\n[[link]]\nlatency = 1", "net.toml:2:1: link.between names 0 peers; expected two"},
    {"peers = 2\n[[link]]\nbetween = [\"peer0\", \"peer0\"]", "names 'peer0' twice"},
    {"peers = 2\n[[link]]\nbetween = [\"peer0\", \"peer1\"]\n[[link]]\nbetween = [\"peer1\", \"peer0\"]",
     "net.toml:5:11: there is a [[link]] between 'peer1' and 'peer0' already"},
    {"peers = 4\n[graph]\nkind = \"rign\"",
     "net.toml:3:8: graph.kind is the string \"rign\"; expected one of ring, "},
    {"peers = 4\n[graph]\nweights = \"metro\"", "did you mean 'metropolis'?"},
    {"peers = 4\n[graph]\nkind = \"torus\"\nrows = 3", "net.toml:3:8: graph: "},
    {"peers = 4\n[graph]\nkind = \"edges\"", "net.toml:3:8: graph.kind is \"edges\" without graph.edges"},
    {"peers = 4\n[graph]\nkind = \"edges\"\nedges = [[0, 1], [1, 4]]",
     "net.toml:4:18: graph.edges names peer 4; expected an index from 0 to 3 or a name"},
    {"peers = 4\n[graph]\nkind = \"edges\"\nedges = [[\"peer0\", \"pere1\"]]",
     "net.toml:4:10: graph.edges names \"pere1\", which is no peer"},
    {"peers = 4\n[graph]\nedges = [[0]]", "net.toml:3:10: graph.edges is a list; expected a list of edges"},
    {"peers = 4\n[graph]\nedges = [[0, 1, 1.5]]", "graph.edges is 1.5; expected a weight in [0, 1]"},
    {"peers = 4\n[graph]\nedges = [[0, -1]]",
     "graph.edges is -1; expected a peer's name, or its index from 0"},
    {"peers = 4\n[graph]\nkind = \"edges\"\ndirected = false\nedges = [[0, 1], [2, 3]]",
     "net.toml:3:8: graph: "},
    {"peers = 4\n[graph]\nkind = \"file\"", "net.toml:3:8: graph.kind is \"file\" without graph.file"},
    {"peers = 4\n[graph]\nkind = \"file\"\nfile = \"nowhere.txt\"", "net.toml:4:8: graph.file: no such file"},
    {"peers = 4\n[optimizer]\nbatch = 3", "'optimizer' belongs to a job file"},
    {"peers = 4\nq = \xff\xfe", "net.toml:2:"},
};

std::string message_of(const std::string& path, std::vector<std::string> overrides = {}) {
  try {
    path.ends_with("net.toml") ? node::load_topology(path, overrides) : node::load_job(path, overrides);
  } catch (const node::ConfigError& error) {
    return error.what();
  }
  return "nothing was wrong";
}

std::string overridden(const Folder& folder, const std::string& text) {
  folder.write("ring.toml", kRing);
  return message_of(folder.write("job.toml", "topology = \"ring.toml\"\n"), {text});
}

}  // namespace

TEST_CASE("every wrong job is refused with its place and the reason") {
  const Folder folder;
  folder.write("ring.toml", kRing);
  for (const Wrong& wrong : kJobs) {
    const std::string path =
        folder.write("job.toml", std::string("topology = \"ring.toml\"\n") + wrong.text + "\n");
    INFO(wrong.text);
    CHECK(says(message_of(path), wrong.expected));
  }
}

TEST_CASE("every wrong topology is refused with its place and the reason") {
  const Folder folder;
  for (const Wrong& wrong : kTopologies) {
    const std::string path = folder.write("net.toml", std::string(wrong.text) + "\n");
    INFO(wrong.text);
    CHECK(says(message_of(path), wrong.expected));
  }
}

TEST_CASE("what is long is quoted in part") {
  const Folder folder;
  folder.write("ring.toml", kRing);
  const std::string size = "… (5000000 bytes)", word(5'000'000, 'x');
  const auto job = [&](const std::string& text) {
    return message_of(folder.write("job.toml", "topology = \"ring.toml\"\n" + text + "\n"));
  };
  const auto topology = [&](const std::string& text) {
    return message_of(folder.write("net.toml", text + "\n"));
  };
  const std::pair<std::string, std::string> messages[] = {
      {job("[run]\nseed = \"" + word + "\""), "job.toml:3:8: run.seed is the string \"xxxx"},
      {job("[run]\n" + word + " = 1"), "job.toml:3:1: unknown key 'run.xxxx"},
      {job("[exchange]\ncodec = \"" + word + "\""), "job.toml:3:9: "},
      {job("[exchange]\naggregate = \"" + word + "\""), "job.toml:3:13: "},
      {job("[sim]\nslow = [\"" + word + "=2\"]"), "job.toml:3:8: sim.slow names \"xxxx"},
      {job("[sim]\nattackers = [\"" + word + "\"]"), "job.toml:3:13: "},
      {topology("[[peer]]\nname = \"" + word + "\""), "net.toml:2:8: peer.name is the string \"xxxx"},
      {topology("[[peer]]\nname = \"a\"\naddress = \"tcp://" + word + "\""), "net.toml:3:11: peer.address"},
      {topology("peers = 4\n[graph]\nkind = \"" + word + "\""),
       "net.toml:3:8: graph.kind is the string \"xxx"}};
  for (const auto& [message, expected] : messages) {
    INFO(expected);
    CHECK(says(message.substr(0, 3000), expected));
    CHECK(message.size() < 3000);
  }
  CHECK(says(messages[0].first, size));
}

TEST_CASE("wrong overrides are named as they were written") {
  const Folder folder;
  CHECK(says(overridden(folder, "exchange.codek=dense"),
             "--set exchange.codek=dense: unknown key 'exchange.codek'; did you mean 'exchange.codec'?"));
  CHECK(says(overridden(folder, "data.namespaces=[1,2]"),
             "--set data.namespaces=[1,2]: data.namespaces is 1; expected a string"));
  CHECK(says(overridden(folder, "exchange.staleness=-1"), "--set exchange.staleness=-1: "));
  CHECK(says(overridden(folder, "run.epochs"), "expected KEY=VALUE"));
  CHECK(says(overridden(folder, "=3"), "expected KEY=VALUE"));
  CHECK(says(overridden(folder, "graph.kind=rign"), "did you mean 'ring'?"));
  CHECK(says(overridden(folder, "peer=3"), "expected tables, each under a line [[peer]]"));
  CHECK(says(overridden(folder, "peer.batch=-3"),
             "--set peer.batch=-3: peer.batch is -3; expected an integer"));
  CHECK(
      says(overridden(folder, "peer.devise=cpu"), "unknown key 'peer.devise'; did you mean 'peer.device'?"));
  CHECK(says(overridden(folder, "run.seed=1\n[sim]\nloss=0.5"), "run.seed is the string"));
  CHECK(says(overridden(folder, "exchange..codec=dense"), "unknown key 'exchange.'"));
}

TEST_CASE("keys of very many parts are refused and strings with dots are not") {
  const Folder folder;
  folder.write("ring.toml", kRing);
  const std::string top = "topology = \"ring.toml\"\n";
  std::string key = "a";
  for (int i = 0; i < 100000; ++i) key += ".a";
  const std::string expected = ": a key has more than 16 parts; expected keys such as exchange.codec";
  for (const std::string& text :
       {key + " = 1", "[" + key + "]", "[[ " + key + " ]]", "a = {b = 1, " + key + " = 2}",
        "a = \"\"\"x\"\"\"\"\n" + key + " = 1", "a = '#' # \"\n\"" + key + "\" . " + key + " = 1"}) {
    const std::string message = message_of(folder.write("job.toml", top + text + "\n"));
    INFO(text.substr(0, 40));
    CHECK(says(message.substr(0, 300), expected));
  }
  CHECK(says(overridden(folder, key + "=1").substr(0, 300), "--set a.a.a"));
  CHECK(says(overridden(folder, "exchange={" + key + "=1}"), "exchange is the string"));
  const std::string dots(100, '.');
  CHECK(message_of(
            folder.write(
                "job.toml",
                top + "# " + dots + "\n[optimizer]\nlearning_rate = [" +
                    "[0, 0.1], [0.1, 0.1], [0.2, 0.1], [0.3, 0.1], [0.4, 0.1], [0.5, 0.1], [0.6, 0.1]]\n" +
                    "[data]\npath = \"\\\"" + dots + "\"\n[run]\nseed = '" + dots + "'\n"))
            .find("parts") == std::string::npos);
}

TEST_CASE("what is no file of text is refused") {
  const Folder folder;
  CHECK(says(message_of(folder.path("nowhere.toml")), "nowhere.toml: no such file; expected a TOML file"));
  CHECK(says(message_of("/dev/zero"), "/dev/zero: larger than 64 MiB; expected a TOML file"));
  CHECK(says(message_of(folder.path("")), "is a folder"));
  CHECK(says(message_of(folder.write("binary.toml", std::string(6, '\0'))), "is no text"));
  CHECK(says(message_of(folder.write("job.toml", "topology = \"gone.toml\"\n")), "gone.toml: no such file"));
  CHECK(says(message_of(folder.write("job.toml", "")), "job.toml: no peers"));
}

TEST_CASE("the number of peers given beside the files is checked") {
  const Folder folder;
  const std::string path = folder.write("net.toml", kRing);
  CHECK_THROWS_AS(node::load_topology(path, {}, 0), node::ConfigError);
  CHECK_THROWS_AS(node::load_topology(path, {}, 65536), node::ConfigError);
}

TEST_CASE("sizes beyond this machine's memory are refused with their place") {
  const Folder folder;
  const auto said_of = [&](const std::string& text) {
    try {
      node::prepare(node::load_job(folder.write("job.toml", std::string(kRing) + text + "\n")));
    } catch (const node::ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(
      says(said_of("[data]\nclasses = 2147483648\nfeatures = 4000"), "job.toml:5:11: data synthetic: found"));
  CHECK(says(said_of("[data]\nfeatures = 4000\nrows = 64\n[optimizer]\nbatch = 2147483647"),
             "job.toml:8:9: 2147483647 rows a step (peer 'peer0') take"));
  CHECK(says(said_of("[model]\nkind = \"mlp\"\nhidden = [16777216, 16777216]"), "job.toml:6:10: 281475"));
}
