// Models of sparse samples by several processes: planted clicks, files, commands, folders that grow; the
// tables that they save.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "gossamer_test/catch.h"
#include "process.h"

namespace gossamer::test {
namespace {

using nlohmann::json;

std::string click_toml(const Ports& ports, std::size_t peers, const std::string& more) {
  return "peers = " + std::to_string(peers) + "\nbase_port = " + std::to_string(ports.first()) +
         "\n[graph]\nkind = \"ring\"\n[optimizer]\nbatch = 20\n" + more;
}

constexpr const char* kPlanted = R"(
[model]
kind = "lr"
[data]
format = "planted"
rows = 20000
test_rows = 5000
fields = 4
keys = 100
linear = 1.0
[run]
rounds = 200
)";

/// What a run of job.toml tells, which ends well.
json run_of(const Folder& folder, const std::vector<std::string>& more = {}) {
  std::filesystem::remove_all(folder.path("out"));
  std::vector<std::string> words{"run", "job.toml", "--json", "--quiet", "--out", "out"};
  words.insert(words.end(), more.begin(), more.end());
  const auto ended = gossamer(folder, words);
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  return json::parse(ended.out);
}

/// Lines of libsvm in which the first key tells whether it is a click.
std::string svm_lines(std::size_t count, std::size_t from = 0) {
  std::ostringstream text;
  for (std::size_t i = from; i < from + count; ++i)
    text << (i % 3 == 0 ? "+1 1:1 " : "-1 2:1 ") << 10 + i % 7 << ":1 " << 20 + i % 11 << ":0.5\n";
  return text.str();
}

std::string samples(const std::string& data, std::size_t rounds) {
  return "[model]\nkind = \"lr\"\n[data]\nformat = \"libsvm\"\n" + data +
         "[run]\nrounds = " + std::to_string(rounds) + "\nreport_every = 0.1\n";
}

}  // namespace

TEST_CASE("processes and the simulator learn the same tables, which can be looked into") {
  const Folder folder;
  const Ports ports(4);
  folder.write("job.toml", click_toml(ports, 4, kPlanted));
  const json summary = run_of(folder, {"--set", "table.codec=dense", "--set", "table.density=1"});
  const json& figures = summary.at("figures");
  CHECK(figures.at("auc") > 0.6);
  CHECK(figures.at("auc") <= figures.at("best_auc"));
  CHECK(figures.at("rows") > 300);
  const auto simulated = gossamer(folder, {"sim", "job.toml", "--json", "--quiet", "--set",
                                           "table.codec=dense", "--set", "table.density=1"});
  REQUIRE(simulated.status == 0);
  CHECK(json::parse(simulated.out).at("figures").at("auc") == figures.at("auc"));

  const auto dump = [&](const char* peer) {
    return gossamer(folder, {"table", "dump", std::string("out/peers/") + peer + ".table"}).out;
  };
  const std::string rows = dump("peer0");
  std::istringstream lines(rows);
  std::size_t count = 0;
  std::string last;
  for (std::string line; std::getline(lines, line); last = line) ++count;
  CHECK(static_cast<double>(count) == figures.at("rows").get<double>());
  CHECK(gossamer(folder, {"table", "get", "out/peers/peer0.table", last.substr(0, last.find('\t'))}).out ==
        last + "\n");
  const json stat = json::parse(gossamer(folder, {"table", "stat", "out/peers/peer0.table", "--json"}).out);
  CHECK(stat.at("rows") == count);
  const auto evaluated =
      gossamer(folder, {"evaluate", "job.toml", "--table", "out/peers/peer2.table", "--json"});
  INFO(evaluated.err);
  CHECK(json::parse(evaluated.out).at("auc") == figures.at("auc"));
  const auto missing = gossamer(folder, {"table", "get", "out/peers/peer0.table", "12"});
  CHECK(missing.status == 1);
  CHECK(missing.err.find("key 12 has no row") != std::string::npos);
}

/// Of two peers, and its samples.
void write_svm_job(const Folder& folder, const Ports& ports) {
  folder.write("train.svm", svm_lines(3000));
  folder.write("test.svm", svm_lines(500, 9000));
  folder.write("job.toml",
               click_toml(ports, 2, samples("path = \"train.svm\"\ntest_path = \"test.svm\"\n", 100)));
}

TEST_CASE("samples come from files, commands and folders that grow") {
  const Folder folder;
  const Ports ports(2);
  write_svm_job(folder, ports);
  CHECK(run_of(folder).at("figures").at("auc") > 0.99);
  folder.write("job.toml",
               click_toml(ports, 2, samples("command = \"cat train.svm\"\ntest_path = \"test.svm\"\n", 60)));
  CHECK(run_of(folder).at("figures").at("auc") > 0.99);

  std::filesystem::remove_all(folder.path("out"));
  std::filesystem::create_directory(folder.path("logs"));
  folder.write("logs/a.svm", svm_lines(1000));
  folder.write(
      "job.toml",
      click_toml(ports, 2, samples("path = \"logs\"\ntest_path = \"test.svm\"\nfollow = true\n", 120)));
  Process run(folder.path(""), "run", {"run", "job.toml", "--json", "--quiet", "--out", "out"});
  pause(1.5);  // all that is there has been learned from by now
  CHECK_FALSE(run.status().has_value());
  folder.write("logs/.b.tmp", svm_lines(6000, 1000));
  std::filesystem::rename(folder.path("logs/.b.tmp"), folder.path("logs/b.svm"));
  REQUIRE(run.wait(60).has_value());
  INFO(run.err());
  CHECK(run.status() == 0);
  CHECK(json::parse(run.out()).at("figures").at("auc") > 0.99);
}

TEST_CASE("a run that waits for samples ends at once when it is told to, with its rows saved, and goes on") {
  const Folder folder;
  const Ports ports(2);
  std::filesystem::create_directory(folder.path("logs"));
  folder.write("logs/a.svm", svm_lines(400));
  folder.write("job.toml", click_toml(ports, 2, samples("path = \"logs\"\nfollow = true\n", 5000)));
  Process run(folder.path(""), "run", {"run", "job.toml", "--quiet", "--out", "out"});
  pause(2);
  run.signal(SIGINT);
  REQUIRE(run.wait(15).has_value());
  CHECK(run.status() == 130);
  CHECK(says(run.err(), "to go on from there"));
  CHECK(std::filesystem::exists(folder.path("out/peers/peer0.table")));
  folder.write("logs/b.svm", svm_lines(6000, 1000));
  const auto rest = gossamer(
      folder, {"run", "--resume", "out", "--out", "rest", "--quiet", "--json", "--set", "run.rounds=100"});
  INFO(rest.err);
  CHECK(rest.status == 0);
  CHECK(says(rest.err, "going on from round 1"));  // and not after thousands without a sample
}

TEST_CASE("rows that table.memory has no room for are not left out without a word") {
  const Folder folder;
  const Ports ports(1);
  std::string lines;
  for (int i = 0; i < 20000; ++i) lines += std::to_string(i % 2) + " " + std::to_string(i + 1) + ":1\n";
  folder.write("a.svm", lines);
  folder.write("job.toml", click_toml(ports, 1, samples("path = \"a.svm\"\ntest_path = \"a.svm\"\n", 40)));
  run_of(folder, {"--set", "optimizer.batch=1000", "--set", "graph.kind=full"});
  const auto evaluated = [&](const std::string& memory) {
    return gossamer(folder, {"evaluate", "job.toml", "--table", "out/peers/peer0.table", "--set",
                             "graph.kind=full", "--set", "table.memory=" + memory});
  };
  REQUIRE(evaluated("0").status == 0);
  CHECK(evaluated("256KiB").out == evaluated("0").out);
  const auto begun =
      gossamer(folder, {"sim", "job.toml", "--set", "graph.kind=full", "--set", "table.memory=256KiB",
                        "--set", "table.initial=out/peers/peer0.table"});
  CHECK(begun.status == 2);
  CHECK(says(begun.err, "do not fit into table.memory"));
  // what was saved under a limit goes on under it
  run_of(folder,
         {"--set", "optimizer.batch=1000", "--set", "graph.kind=full", "--set", "table.memory=256KiB"});
  const auto again =
      gossamer(folder, {"sim", "job.toml", "--set", "graph.kind=full", "--set", "table.memory=256KiB",
                        "--set", "table.initial=out/peers/peer0.table", "--set", "run.rounds=1"});
  CHECK(again.status == 0);
  CHECK(says(again.out, "rows lost in loading"));
}

TEST_CASE("a command that stalls keeps no run from ending, nor its rows from being saved") {
  const Folder folder;
  const Ports ports(2);
  folder.write("a.svm", svm_lines(400));
  folder.write(
      "job.toml",
      click_toml(ports, 2, samples("command = \"cat a.svm; exec sleep 50\"\nshuffle = false\n", 5000)));
  Process run(folder.path(""), "run", {"run", "job.toml", "--quiet", "--out", "out"});
  pause(2);
  run.signal(SIGINT);
  REQUIRE(run.wait(15).has_value());
  CHECK(run.status() == 130);
  for (const char* table : {"out/peers/peer0.table", "out/peers/peer1.table"})
    CHECK(std::filesystem::exists(folder.path(table)));
}

TEST_CASE("a run begins where another one ended, with its rows") {
  const Folder folder;
  const Ports ports(2);
  write_svm_job(folder, ports);
  const double auc = run_of(folder).at("figures").at("auc");
  const auto after = [&](const std::string& initial) {
    const auto ended = gossamer(folder, {"sim", "job.toml", "--json", "--quiet", "--set", "run.rounds=1",
                                         "--set", "model.initial=" + initial});
    INFO(ended.err);
    REQUIRE(ended.status == 0);
    return json::parse(ended.out).at("figures").at("auc").get<double>();
  };
  CHECK(after("out") > auc - 0.01);
  CHECK(after("out/peers/peer0.safetensors") > auc - 0.01);
  const auto alone = gossamer(folder, {"sim", "job.toml", "--set", "model.initial=out/model.safetensors"});
  CHECK(alone.status == 2);
  CHECK(says(alone.err, "has no table of rows beside its parameters"));
}

TEST_CASE("columns of samples in CSV may be named as text") {
  const Folder folder;
  const Ports ports(2);
  std::string lines = "click,zip,x\n";
  for (int i = 0; i < 2000; ++i) lines += std::to_string(i % 3 == 0) + "," + std::to_string(i % 3) + ",1\n";
  folder.write("a.csv", lines);
  folder.write("job.toml",
               "peers = 2\n[graph]\nkind = \"ring\"\n[model]\nkind = \"lr\"\n[data]\nformat = \"csv\"\n"
               "path = \"a.csv\"\ntest_path = \"a.csv\"\nlabel = \"click\"\ntext = [\"zip\"]\n"
               "[table]\nlearning_rate = 0.5\n[run]\nrounds = 60\n");
  const auto ended = gossamer(folder, {"sim", "job.toml", "--json", "--quiet"});
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  CHECK(json::parse(ended.out).at("figures").at("auc") == 1.0);
  // test data have the columns of what is trained on, with a header of their own or without
  folder.write("bare.csv", lines.substr(lines.find('\n') + 1));
  const auto bare =
      gossamer(folder, {"sim", "job.toml", "--json", "--quiet", "--set", "data.test_path=bare.csv"});
  REQUIRE(bare.status == 0);
  CHECK(json::parse(bare.out).at("figures").at("auc") == 1.0);
  folder.write("other.csv", "click,plz,x\n1,0,1\n");
  const auto other = gossamer(folder, {"sim", "job.toml", "--set", "data.test_path=other.csv"});
  CHECK(other.status == 2);
  CHECK(says(other.err, "other.csv:1: found the header \"click,plz,x\", expected \"click,zip,x\""));
}

TEST_CASE("wrong samples and tables are named") {
  const Folder folder;
  const Ports ports(2);
  folder.write("train.svm", svm_lines(300) + "1 7:x\n" + svm_lines(300));
  folder.write("job.toml", click_toml(ports, 2, samples("path = \"train.svm\"\nmax_bad = 0\n", 20)));
  const auto bad = gossamer(folder, {"run", "job.toml", "--quiet", "--out", "out"});
  CHECK(bad.status != 0);
  CHECK(bad.err.find("train.svm:301:") != std::string::npos);
  CHECK(bad.err.find("max_bad") != std::string::npos);
  std::filesystem::remove_all(folder.path("out"));
  const auto passed_over =
      gossamer(folder, {"run", "job.toml", "--json", "--quiet", "--out", "out", "--set", "data.max_bad=5"});
  REQUIRE(passed_over.status == 0);
  CHECK(json::parse(passed_over.out).at("figures").at("bad_lines") > 0);

  const auto said = [&](const std::vector<std::string>& words) {
    const auto ended = gossamer(folder, words);
    CHECK(ended.status == 2);
    return ended.err;
  };
  CHECK(said({"sim", "job.toml", "--set", "data.path=none.svm"}).find("none.svm") != std::string::npos);
  CHECK(said({"sim", "job.toml", "--set", "data.test_path=none.svm"}).find("none.svm") != std::string::npos);
  CHECK(says(said({"sim", "job.toml", "--set", "data.path=none.svm"}), "--set data.path=none.svm: "));
  CHECK(says(said({"sim", "job.toml", "--set", "data.path=", "--set", "data.command=cat train.svm", "--set",
                   "data.follow=true"}),
             "data.follow waits for what is appended"));
  folder.write("empty.svm", "# nothing\n");
  CHECK(says(said({"sim", "job.toml", "--set", "data.test_path=empty.svm"}), "empty.svm holds no sample"));
  CHECK(says(said({"run", "job.toml", "--set", "peers=1", "--set", "data.path=-"}),
             "found \"-\", standard input"));
  CHECK(said({"sim", "job.toml", "--set", "data.follow=true", "--set", "run.rounds=0"})
            .find("run.rounds = N") != std::string::npos);
  CHECK(said({"sim", "job.toml", "--set", "data.path=-"}).find("standard input") != std::string::npos);
  CHECK(said({"sim", "job.toml", "--set", "data.split=global_shuffle"}).find("dirichlet:ALPHA") !=
        std::string::npos);
  CHECK(said({"table", "stat", "train.svm"}).find("gossamer table 1") != std::string::npos);
  CHECK(said({"table", "stat", "nowhere"}).find("nowhere") != std::string::npos);
  CHECK(said({"table", "get", "out/peers/peer0.table", "x"}).find("'x' is no key") != std::string::npos);
  CHECK(said({"sim", "job.toml", "--set", "table.initial=train.svm"}).find("gossamer table 1") !=
        std::string::npos);
  CHECK(said({"evaluate", "job.toml"}).find("--table FILE") != std::string::npos);
  // cut short
  std::ifstream in(folder.path("out/peers/peer0.table"), std::ios::binary);
  std::ostringstream whole;
  whole << in.rdbuf();
  folder.write("short.table", whole.str().substr(0, whole.str().size() - 20));
  CHECK(said({"table", "stat", "short.table"}).find("short.table") != std::string::npos);
  // a table of another shape
  CHECK(said({"sim", "job.toml", "--set", "model.kind=fm", "--set", "table.initial=out/peers/peer0.table"})
            .find("peer0.table") != std::string::npos);
}

}  // namespace gossamer::test
