// What advice predicts, against the simulator; tables of links; jobs that follow advice.
#include "advice.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "gossamer_test/catch.h"
#include "model_parts.h"
#include "plan.h"
#include "probe.h"
#include "sim_job.h"

namespace gossamer::node::test {
namespace {

using gossamer::test::Folder;
using gossamer::test::says;

/// Bandwidths from 1 to 100 Mbit/s, latencies from 1 to 50 ms, evenly in their logarithms.
std::vector<LinkEntry> random_links(std::size_t peers, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> bandwidth(6, 8), latency(-3, -1.3);
  std::vector<LinkEntry> links;
  for (PeerId a = 0; a < peers; ++a)
    for (PeerId b = a + 1; b < peers; ++b)
      links.push_back({a, b, std::pow(10, bandwidth(random)), std::pow(10, latency(random))});
  return links;
}

/// A model of 17 000 parameters in two layers on links of that seed.
Question question_of(std::size_t peers, unsigned seed, const Settings& settings = {}) {
  Question question;
  question.job =
      small_job(Settings{"peers=" + std::to_string(peers), "model.kind=mlp", "model.hidden=[64]",
                         "data.features=256", "data.classes=10", "sim.step_jitter=0", "sim.step_time=0.02"} +
                settings);
  question.job.links = random_links(peers, seed);
  question.layers = prepare(question.job).layers;
  return question;
}

/// Until the last peer has done its last round.
double seconds_of(Job job, std::uint64_t rounds) {
  job.run.rounds = rounds;
  Run run(std::move(job));
  double end = 0;
  run.simulation.on_report = [&](PeerId, double now, const Report& report) {
    if (report.share_done >= 1) end = std::max(end, now);
  };
  REQUIRE(run.go().all(Outcome::finished));
  return end;
}

/// Between a short and a long run: joining takes as long in both.
double simulated_seconds_per_round(const Question& question, const Advice& advice) {
  const Job job = follow(question.job, advice);
  // Where nobody waits, the run may end a round or so late.
  const std::uint64_t periods = (7 + advice.period) / advice.period * (advice.waits ? 1 : 8);
  const std::uint64_t rounds = periods * advice.period;
  return (seconds_of(job, 2 * rounds) - seconds_of(job, rounds)) / static_cast<double>(rounds);
}

/// Predicted over simulated seconds per round, ascending: of every `stride`th graph of each method that is
/// advised.
std::vector<double> ratios(const Question& question, std::size_t stride) {
  std::vector<double> found;
  std::map<std::string, std::size_t> number;
  for (const Advice& a : advise(question)) {
    if (a.period > 64 || ++number[a.method] % stride != 0) continue;
    found.push_back(a.cost.seconds / simulated_seconds_per_round(question, a));
    INFO(a.graph << " " << a.method << " " << a.codec << " " << a.cost.seconds);
    CHECK(found.back() > 0.9);
    CHECK(found.back() < 1.1);
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

TEST_CASE("predicted seconds per round are those of the simulator") {
  Question question = question_of(6, 1);
  question.methods = {"dpsgd", "choco", "allreduce", "gradient_tracking"};
  const std::vector<double> found = ratios(question, 2);
  REQUIRE(found.size() > 40);
  CHECK(found[found.size() / 2] == Approx(1).margin(0.01));
}

TEST_CASE("rounds of methods with a code or a calendar of their own cost what is predicted") {
  Question question = question_of(6, 2);
  question.job.exchange.local_steps = 4;
  question.methods = {"pairwise", "push_sum", "moniqua", "diloco", "noloco", "sparse_loco", "local_sgd"};
  CHECK(ratios(question, 4).size() > 25);
  // Halves of the model at their own times, used two rounds later.
  question = question_of(6, 2,
                         {"exchange.method=diloco", "exchange.local_steps=4", "exchange.codec=dense",
                          "exchange.fragments=2", "exchange.outer_delay=2"});
  question.job.exchange.codec = "onebit_scaled";
  question.methods = {"diloco", "noloco", "sparse_loco"};
  CHECK(ratios(question, 4).size() > 10);
}

TEST_CASE("pairs that wait for nobody cost a step, and agree the sooner the better their links are") {
  Question question = question_of(8, 1);
  question.methods = {"pairwise"};
  question.job.links.clear();
  double before = INFINITY;
  for (const double bandwidth : {1e5, 1e6, 1e7, 1e9}) {
    question.job.sim.bandwidth = bandwidth;
    for (const Advice& a : advise(question)) {
      CHECK(a.cost.seconds == Approx(question.job.sim.step_time));
      CHECK_FALSE(a.waits);
      CHECK(settings(question.job, a).back() == "exchange.staleness=unbounded");
      if (a.graph != "full") continue;
      CHECK(a.delay < before);
      before = a.delay;
    }
  }
}

TEST_CASE("outer methods count a round in so many local steps") {
  Question question = question_of(8, 1);
  question.job.exchange.local_steps = 5;
  question.methods = {"diloco", "noloco", "sparse_loco"};
  std::map<std::string, Advice> full, ring;
  for (const Advice& a : advise(question))
    (a.graph == "full" ? full : ring).insert_or_assign(a.method + a.codec, a);
  const std::string coded = question.job.exchange.codec;
  CHECK(full.at("diloco" + coded).delay == Approx(5));
  CHECK(full.at("diloco" + coded).bytes_per_round < full.at("dilocodense").bytes_per_round / 8);
  CHECK(full.at("sparse_loco" + coded).delay == 5);
  CHECK(full.at("sparse_loco" + coded).consensus_rounds == 5);
  CHECK(full.at("nolocodense").delay > 5);
  CHECK(ring.contains("dilocodense"));
  CHECK_FALSE(ring.contains("diloco" + coded));  // beside a full graph it averages whole vectors
  CHECK_FALSE(ring.contains("sparse_loco" + coded));
}

TEST_CASE("the pick is within a tenth of the best by simulation") {
  Question question = question_of(8, 3);
  question.methods = {"dpsgd", "choco", "allreduce"};
  const std::vector<Advice> ranked = advise(question);
  const auto score = [&](const Advice& a) { return a.rounds * simulated_seconds_per_round(question, a); };
  double best = INFINITY;
  for (const Advice& a : ranked)
    if (a.period <= 16) best = std::min(best, score(a));
  CHECK(score(ranked.front()) <= 1.1 * best);
}

TEST_CASE("a shared uplink slows a peer with many neighbours, in the model and in the simulator") {
  Question question = question_of(6, 1);
  question.job.links.clear();
  question.job.sim.bandwidth = 1e7;
  question.methods = {"dpsgd"};
  const auto of_star = [&] {
    for (const Advice& a : advise(question))
      if (a.graph == "star") return a;
    throw std::runtime_error("no star");
  };
  const Advice apart = of_star();
  for (PeerEntry& peer : question.job.peers) peer.uplink = 1e7;
  const Advice shared = of_star();
  CHECK(shared.cost.seconds > 2.5 * apart.cost.seconds);
  CHECK(simulated_seconds_per_round(question, shared) == Approx(shared.cost.seconds).epsilon(0.15));
}

TEST_CASE("advice is followed") {
  Question question = question_of(8, 1);
  for (const Advice& a : advise(question)) {
    const Job job = follow(question.job, a);
    INFO(a.graph << " " << a.method);
    CHECK(make_plan(job, 0).schedule.peers() == 8);
    // every link is still between the peers of these names
    const auto before = link_table(question.job), after = link_table(job);
    for (PeerId i = 0; i < 8; ++i)
      for (PeerId j = 0; j < 8; ++j) {
        REQUIRE(job.peers[i].name == question.job.peers[a.order[i]].name);
        if (i != j) REQUIRE(after.at(i, j).bandwidth == before.at(a.order[i], a.order[j]).bandwidth);
      }
  }
  const Folder folder;
  const Advice best = advise(question).front();
  question.job.peers[2].batch = question.job.batch + 1;
  const std::string text = to_topology_toml(follow(question.job, best));
  const Job written = load_topology(folder.write("best.toml", text));
  for (const PeerEntry& p : written.peers)  // the others follow the job that it is used with
    CHECK(p.own_batch == (p.name == question.job.peers[2].name));
  CHECK(written.peers[3].name == question.job.peers[best.order[3]].name);
  CHECK(written.graph.kind == best.spec.kind);
  CHECK(written.links.size() == 28);
}

TEST_CASE("compressed methods win over slow links and dense ones over fast links") {
  Question question = question_of(8, 1);
  question.methods = {"dpsgd", "choco"};
  question.job.links.clear();
  question.job.sim.bandwidth = 1e6;
  CHECK(advise(question).front().method == "choco");
  question.job.sim.bandwidth = 1e11;
  CHECK(advise(question).front().method == "dpsgd");
}

TEST_CASE("heterogeneous data asks for more mixing") {
  Question question = question_of(8, 1);
  question.methods = {"dpsgd"};
  const auto rounds_on = [&](const std::string& graph) {
    for (const Advice& a : advise(question))
      if (a.graph == graph) return a.rounds;
    return 0.0;
  };
  const double alike = rounds_on("ring");
  CHECK(alike > 1000);
  question.heterogeneity = 1;
  CHECK(rounds_on("ring") > 1.1 * alike);
  CHECK(rounds_on("full") == Approx(1000));
}

TEST_CASE("methods that cannot be ranked are refused") {
  Question question = question_of(4, 1);
  const auto message = [&](const std::string& method) {
    question.methods = {method};
    try {
      advise(question);
    } catch (const ConfigError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  CHECK(says(message("chocco"), "did you mean 'choco'?"));
  CHECK(says(message("none"), "what its rounds cost is not known; expected some of allreduce"));
  question.job.exchange.staleness = 2;
  CHECK(says(message("allreduce"), "needs exchange.staleness = 0"));
}

TEST_CASE("sizes of messages") {
  const auto layers = equal_layers(1000, 3);
  REQUIRE(layers.size() == 3);
  CHECK(layers[0].size + layers[1].size + layers[2].size == 1000);
  Job job = small_job({"exchange.codec=dense"});
  const auto parts = model_parts(job, layers);
  REQUIRE(parts.size() == 3);
  CHECK(parts[0].ready == Approx(1.0 / 3 + 2.0 / 9));
  CHECK(parts[2].ready == Approx(1));
  CHECK(parts[0].bytes > 4 * 333);
  job.exchange.overlap = true;
  CHECK(model_parts(job, layers)[2].ready == 0);
  const auto codec = compress::make_codec("onebit");
  CHECK(payload_bytes(*codec, 100'000'000) == Approx(100e6 / 8).epsilon(0.1));
  CHECK(wire_framing().header > 0);
}

// --- Tables of links

TEST_CASE("latency is what the way takes, whatever other work adds to most round trips") {
  CHECK(latency_of({0.5}) == 0.25);
  CHECK(latency_of({0.9, 0.03, 0.5, 0.02, 0.7, 0.021, 0.4, 0.6}) == 0.0105);
}

TEST_CASE("a table of links in CSV or TOML") {
  const Folder folder;
  folder.write("links.csv",
               "bandwidth,peer0,peer1,peer2\npeer0,,100mbit,\npeer1,1e8,,2e6\npeer2,,2mbit,\n\n"
               "latency,peer2,peer0,peer1\npeer0,5ms,,\npeer2,,0.005,1ms\n");
  folder.write("links.toml", "[[link]]\nbetween = [\"peer0\", \"peer1\"]\nbandwidth = \"1mbit\"\n");
  const auto topology = folder.write("t.toml",
                                     "peers = 3\nlinks = \"links.csv\"\n[[link]]\nbetween = [\"peer2\", "
                                     "\"peer1\"]\nbandwidth = 5e6\n");
  const auto table = link_table(load_topology(topology));
  CHECK(table.at(0, 1).bandwidth == 1e8);
  CHECK(table.at(1, 0).bandwidth == 1e8);
  CHECK(table.at(0, 2).latency == 0.005);
  CHECK(table.at(2, 1).bandwidth == 5e6);  // stated by the topology itself
  const auto other = load_topology(topology, std::vector<std::string>{"links=" + folder.path("links.toml")});
  CHECK(link_table(other).at(1, 0).bandwidth == 1e6);
}

TEST_CASE("what a probe found comes back from its files") {
  const std::vector<std::string> names{"peer0", "peer1", "peer2"};
  const ProbeResult found{{{0, 1, 0.005, 2e7, 3e7}, {1, 2, 0.25, 5e6, 4e6}}, {{0, 2.5e7}, {2, 4e6}}, {}};
  const Folder folder;
  folder.write("links.toml", links_toml(found, names));
  folder.write("links.csv", links_csv(found, names));
  for (const char* file : {"links.toml", "links.csv"}) {
    INFO(file);
    const Job job =
        load_topology(folder.write("t.toml", "peers = 3\nlinks = \"" + std::string(file) + "\"\n"));
    const auto table = link_table(job);
    CHECK(job.links.size() == 2);
    CHECK(table.at(1, 0).bandwidth == 2e7);
    CHECK(table.at(1, 2).bandwidth == 4e6);
    CHECK(table.at(2, 1).latency == 0.25);
    CHECK(table.uplink(0) == 2.5e7);
    CHECK(std::isinf(table.uplink(1)));
    CHECK(table.uplink(2) == 4e6);
  }
  const ProbeResult back = probe_result(to_json(found, names), names);
  CHECK(back.uplinks == found.uplinks);
  CHECK(back.pairs.size() == 2);
  // What the topology says of an uplink stands.
  const Job stated = load_topology(folder.write(
      "s.toml",
      "links = \"links.toml\"\n[[peer]]\nname = \"peer0\"\naddress = \"tcp://127.0.0.1:7001\"\nuplink = 1e6\n"
      "[[peer]]\nname = \"peer1\"\naddress = \"tcp://127.0.0.1:7002\"\n[[peer]]\nname = \"peer2\"\naddress = "
      "\"tcp://127.0.0.1:7003\"\n"));
  CHECK(link_table(stated).uplink(0) == 1e6);
  CHECK(link_table(stated).uplink(2) == 4e6);
}

TEST_CASE("wrong tables of links are refused with file and line") {
  struct Wrong {
    const char *file, *text, *expected;
  };
  const Wrong wrongs[] = {
      {"l.csv", "bandwidth,peer0,peer1\npeer0,,-5\n", "l.csv:2: bandwidth from \"peer0\" to \"peer1\" is -5"},
      {"l.csv", "bandwidth,peer0,peer1\npeer0,,0\n", "l.csv:2: "},
      {"l.csv", "bandwidth,peer0,peer1\npeer0,,5ms\n", "expected bit/s above 0"},
      {"l.csv", "latency,peer0,peer1\npeer0,,nan\n", "l.csv:2: "},
      {"l.csv", "bandwidth,peer0,peer1\npeer0,,5\npeer1,6,\n", "l.csv:3: bandwidth from \"peer1\""},
      {"l.csv", "bandwidth,peer0,peer1\npeer0,,5\npeer1,6,\n", "at line 2 5 the other way"},
      {"l.csv", "bandwidth,peer0,peer1\npeer0,,5,7\n", "l.csv:2: the row of \"peer0\" has 3 values"},
      {"l.csv", "bandwidth,peer0,peer9\npeer0,,5\n",
       "l.csv:2: link.between names \"peer9\", which is no peer"},
      {"l.csv", "bandwidth,peer0,peer1\npeer0,,5\npeer0,,5\n", "l.csv:3: "},
      {"l.csv", "peer0,peer1\n", "l.csv:1: the first word is \"peer0\""},
      {"l.csv", "\n", "l.csv: no matrix"},
      {"l.csv", "uplink,peer0,peer1\npeer0,5,5\n", "l.csv:2: the row of uplinks begins with \"peer0\""},
      {"l.csv", "uplink,peer0,peer1\nall,5,0\n", "l.csv:2: uplink of \"peer1\" is 0; expected bit/s above 0"},
      {"l.csv", "uplink,peer0,peer9\nall,5,5\n", "l.csv:2: peer.name names \"peer9\", which is no peer"},
      {"l.toml", "[[peer]]\nname = \"peer0\"\n", "says what it sends to all others at once; expected name"},
      {"l.toml", "[[peer]]\nname = \"peer9\"\nuplink = 1e6\n", "names \"peer9\", which is no peer"},
      {"l.toml", "peers = 3\n", "l.toml:1:1: found \"peers\""},
      {"l.toml", "[[link]]\nbetween = [\"peer0\", \"peer1\"]\nbandwidth = -1\n",
       "l.toml:3:13: link.bandwidth is -1"},
      {"l.toml", "[[link]]\nbetween = [\"peer0\", \"peer9\"]\n", "l.toml:2:"},
  };
  for (const Wrong& wrong : wrongs) {
    const Folder folder;
    folder.write(wrong.file, wrong.text);
    const auto topology = folder.write("t.toml", "peers = 3\nlinks = \"" + std::string(wrong.file) + "\"\n");
    std::string message;
    try {
      load_topology(topology);
    } catch (const ConfigError& e) {
      message = e.what();
    }
    CHECK(says(message, wrong.expected));
  }
  const Folder folder;
  const auto missing = folder.write("t.toml", "peers = 3\nlinks = \"none.csv\"\n");
  CHECK_THROWS_AS(load_topology(missing), ConfigError);
}

}  // namespace gossamer::node::test
