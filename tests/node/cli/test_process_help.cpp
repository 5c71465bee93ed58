// Help, lists and reports: what a newcomer types first.
#include <filesystem>

#include "gossamer_test/catch.h"
#include "process.h"

namespace gossamer::test {
namespace {

struct Case {
  std::vector<std::string> words, mentions;
};

void check(const Folder& folder, const Case& c) {
  std::string line = "gossamer";
  for (const auto& w : c.words) line += " " + w;
  INFO(line);
  const auto ended = gossamer(folder, c.words);
  CHECK(ended.status == 0);
  CHECK(ended.err.empty());
  for (const auto& m : c.mentions) CHECK(says(ended.out, m));
}

TEST_CASE("help of the program and of every command") {
  const Folder folder;
  const std::vector<Case> cases{
      {{"--help"}, {"run", "peer", "sim", "topology", "codec", "evaluate", "help"}},
      {{"--version"}, {"gossamer "}},
      {{"run", "--help"}, {"JOB", "--set", "--json", "--quiet", "--join-timeout", "--drain-timeout"}},
      {{"peer", "--help"}, {"JOB", "--name", "--out", "--session", "--join-timeout", "--drain-timeout"}},
      {{"sim", "--help"},
       {"JOB", "--peers", "--seed", "--crash", "--attack", "--loss", "--latency", "--model"}},
      {{"topology", "--help"}, {"show", "convert"}},
      {{"topology", "convert", "--help"}, {"--to", "--out", "--round"}},
      {{"topology", "show", "--help"}, {"--json"}},
      {{"codec", "--help"}, {"list"}},
      {{"codec", "list", "--help"}, {"codec"}},
      {{"evaluate", "--help"}, {"JOB", "MODEL", "--json"}},
      {{"checkpoint", "--help"}, {"list", "show", "verify", "prune"}},
      {{"checkpoint", "prune", "--help"}, {"RUN", "--keep", "--dry-run"}},
      {{"status", "--help"}, {"ADDRESS", "--json", "--timeout"}},
      {{"help"}, {"gossamer help job"}},
      {{"help", "run"}, {"--join-timeout"}},
      {{"help", "topology", "advise"}, {"gossamer topology advise", "--heterogeneity"}},
      {{"help", "job", "codec"}, {"exchange.codec"}},
      {{"help", "topology", "peer"}, {"peer.address"}},
  };
  for (const auto& c : cases) check(folder, c);
}

TEST_CASE("help of what there is not is refused") {
  const Folder folder;
  const auto said = [&](const std::string& topic, const std::string& name) {
    const auto ended = gossamer(folder, {"help", topic, name});
    CHECK(ended.status == 2);
    CHECK(ended.out.empty());
    return ended.err;
  };
  CHECK(says(said("job", "exchange.codek"), "no key 'exchange.codek'; did you mean 'exchange.codec'?"));
  CHECK(says(said("topology", "show me"), "help topology: no key 'show me'"));
  CHECK(says(said("codec", "lits"), "help codec: no 'lits' of it"));
  CHECK(says(said("aggregate", "krum"), "help aggregate: no 'krum' of it"));
}

TEST_CASE("help of the files and lists of what there is") {
  const Folder folder;
  folder.write("ring.toml", "peers = 4\n[graph]\nkind = \"ring\"\n");
  const std::vector<Case> cases{
      {{"help", "job"},
       {"model.kind", "exchange.codec", "onebit_scaled", "run.join_timeout", "seconds", "choco"}},
      {{"help", "topology"}, {"base_port", "graph.kind", "one_peer_exponential", "peer.address"}},
      {{"help", "aggregate"}, {"krum", "nnm+", "centered_clip", "sign_flip"}},
      {{"codec", "list"}, {"dense", "fp16", "onebit", "onebit_scaled", "qsgd", "topk"}},
      {{"topology", "show", "ring.toml"},
       {"spectral gap", "doubly stochastic", "peer3", "assumed: gossip, in which every out-neighbour"}},
      {{"topology", "show", "ring.toml", "--set", "graph.kind=base"}, {"consensus to 1e-6", "1 round"}},
      {{"topology", "convert", "ring.toml", "--to", "metis"}, {"4 4\n2 4\n1 3\n2 4\n1 3\n"}},
      {{"topology", "convert", "ring.toml", "--to", "graphml"}, {"edgedefault=\"undirected\"", "peer3"}},
      {{"topology", "convert", "ring.toml", "--to", "json"}, {"\"directed\": false"}},
      {{"topology", "convert", "ring.toml", "--to", "edgelist"}, {"peer0 peer1 0.3333"}},
  };
  for (const auto& c : cases) check(folder, c);
}

TEST_CASE("explicit weights that a format has no place for are told") {
  const Folder folder;
  const std::string graph =
      "peers = 3\n[graph]\nkind = \"edges\"\ndirected = false\nedges = [[0, 1, 0.25], [1, 2, 0.5]]\n";
  folder.write("explicit.toml", graph + "weights = \"explicit\"\n");
  folder.write("plain.toml", graph);
  const auto said = [&](const char* file, const char* format) {
    const auto ended = gossamer(folder, {"topology", "convert", file, "--to", format});
    CHECK(ended.status == 0);
    return ended.err;
  };
  CHECK(says(said("explicit.toml", "metis"), "metis files are written without weights"));
  CHECK(said("explicit.toml", "json").empty());
  CHECK(said("plain.toml", "metis").empty());
}

TEST_CASE("compare names its columns and tells codecs of one name apart") {
  const Folder folder;
  folder.write("job.toml",
               "peers = 2\n[graph]\nkind = \"ring\"\n[model]\nkind = \"softmax\"\n[data]\nrows = 64\n"
               "[optimizer]\nbatch = 4\n[run]\nrounds = 2\nthreads = 1\n");
  const auto simulate = [&](const std::string& codec, const std::string& into) {
    const auto ended = gossamer(folder, {"sim", "job.toml", "-q", "--json", "--set",
                                         "exchange.codec=" + codec, "--set", "exchange.dense_below=0"});
    REQUIRE(ended.status == 0);
    std::filesystem::create_directories(folder.path(into));
    folder.write(into + "/summary.json", ended.out);
  };
  simulate("qsgd:bits=4", "a/four-bits-of-a-very-long-name");
  simulate("qsgd:bits=8", "a/eight");
  simulate("dense", "b/eight");
  const auto table = [&](std::vector<std::string> runs) {
    runs.insert(runs.begin(), "compare");
    return gossamer(folder, runs).out;
  };
  const std::string sweep =
      table({"a/four-bits-of-a-very-long-name/", "./a/eight", "a/eight/summary.json", "b/eight"});
  INFO(sweep);
  CHECK(sweep.starts_with(std::string(21, ' ') + "four-bits-of-a-very-long-name            a/eight" +
                          "       summary.json            b/eight\n" + "codec" + std::string(34, ' ') +
                          "qsgd:bits=4        qsgd:bits=8        qsgd:bits=8              dense\n"));
  CHECK(
      says(table({"a/eight", "b/eight"}), "\ncodec                              qsgd              dense\n"));
  CHECK_FALSE(says(sweep, " 0.0 "));  // seconds, MB sent
}

}  // namespace
}  // namespace gossamer::test
