// Whose samples are trained when a process dies.
#include <csignal>
#include <fstream>
#include <set>
#include <sstream>

#include "gossamer_test/catch.h"
#include "process.h"

namespace gossamer::test {
namespace {

/// Lines of libsvm, each with a key of its own: its number.
std::string lines_with_keys(std::size_t from, std::size_t end) {
  std::ostringstream text;
  for (std::size_t i = from; i < end; ++i) text << (i % 3 == 0 ? "+1 " : "-1 ") << i << ":1\n";
  return text.str();
}

void append(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::app) << text; }

/// Of the keys from … end − 1, how many the table has rows of.
std::size_t keys_in(const Folder& folder, const std::string& table, std::size_t from, std::size_t end) {
  std::istringstream dump(gossamer(folder, {"table", "dump", table}).out);
  std::size_t count = 0, key = 0;
  for (std::string line; std::getline(dump, line);)
    if (std::istringstream(line) >> key && key >= from && key < end) ++count;
  return count;
}

}  // namespace

TEST_CASE("what a killed peer would have read of a growing file the others read") {
  const Folder folder;
  const Ports ports(3);
  folder.write("train.svm", lines_with_keys(1000, 4000));
  folder.write(
      "job.toml",
      "peers = 3\nbase_port = " + std::to_string(ports.first()) +
          "\n[graph]\nkind = \"full\"\n[optimizer]\nbatch = 20\n[model]\nkind = \"lr\"\n"
          "[data]\nformat = \"libsvm\"\npath = \"train.svm\"\nfollow = true\n"
          "[exchange]\nmethod = \"dpsgd\"\ncodec = \"dense\"\n[table]\ncodec = \"dense\"\ndensity = 1\n"
          "[run]\nrounds = 100000\nmin_peers = 1\nevaluate_every = 0\n");
  Peers peers(folder, "job.toml", 3);
  peers.start_all();
  REQUIRE(peers.train_within(30));
  pause(2);
  peers[1].signal(SIGKILL);
  REQUIRE(peers[0].says_within(20, "2 of 3 peers go on"));
  REQUIRE(peers[2].says_within(20, "2 of 3 peers go on"));
  append(folder.path("train.svm"), lines_with_keys(5000, 8000));
  pause(4);
  for (const std::size_t p : {0, 2}) peers[p].signal(SIGINT);
  for (const std::size_t p : {0, 2}) {
    REQUIRE(peers[p].wait(30).has_value());
    INFO(peers[p].err());
    CHECK(keys_in(folder, "peer" + std::to_string(p) + ".table", 5000, 8000) > 2800);
  }
}

}  // namespace gossamer::test
