// A key of [model], [data], [optimizer] or [graph] is read by the kind that the job names, or refused.
#include <gossamer_test/catch.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <sstream>

#include "config_files.h"
#include "gossamer/node/job.h"
#include "gossamer/topology/placement.h"
#include "sparse_rows.h"

using namespace gossamer;
using gossamer::test::Folder;
using gossamer::test::says;

namespace {

using Strings = std::vector<std::string>;

/// A key that holds the name of a kind, and what its table says of each.
struct Choice {
  std::string section, key, called;
  std::vector<optim::NamedHelp> rows;
};

/// Another reader than that of rows of numbers.
constexpr const char* kCsvSamples = "csv of samples";

std::vector<Choice> choices() {
  const auto list = [](std::span<const optim::NamedHelp> table) {
    return std::vector<optim::NamedHelp>(table.begin(), table.end());
  };
  std::vector<optim::NamedHelp> graphs;
  for (const topology::GraphKind& kind : topology::graph_table())
    graphs.push_back({kind.name, kind.help, kind.reads});
  std::vector<optim::NamedHelp> formats = list(optim::data_format_table());
  for (optim::NamedHelp row : node::sample_rows()) {
    if (row.name == std::string("csv")) row.name = kCsvSamples;
    formats.push_back(row);
  }
  return {{"model", "kind", "model", list(node::model_rows())},
          {"data", "format", "data format", formats},
          {"table", "optimizer", "row optimiser", list(node::row_optimizer_rows())},
          {"table", "exchange", "exchange of rows", list(node::row_exchange_rows())},
          {"optimizer", "kind", "optimizer", list(optim::optimizer_table())},
          {"optimizer", "schedule", "schedule", list(optim::rate_schedule_table())},
          {"graph", "kind", "graph", graphs}};
}

/// Of every key that not all kinds read, a value that is not its default.
const std::map<std::string, std::string> kValues{{"model.hidden", "[3]"},
                                                 {"data.path", "\"rows\""},
                                                 {"data.test_path", "\"rows\""},
                                                 {"data.label", "\"first\""},
                                                 {"data.mean", "0.5"},
                                                 {"data.scale", "2"},
                                                 {"data.standardize", "true"},
                                                 {"data.text_as", "\"onehot\""},
                                                 {"data.text", "[\"0\"]"},
                                                 {"data.rows", "50"},
                                                 {"data.test_rows", "50"},
                                                 {"data.features", "5"},
                                                 {"data.classes", "3"},
                                                 {"data.separation", "2"},
                                                 {"data.limit", "7"},
                                                 {"data.seed", "7"},
                                                 {"data.command", "\"cat x\""},
                                                 {"data.test_command", "\"cat x\""},
                                                 {"data.follow", "true"},
                                                 {"data.shuffle", "false"},
                                                 {"data.shuffle_rows", "9"},
                                                 {"data.memory", "\"8MB\""},
                                                 {"data.max_bad", "9"},
                                                 {"data.fields", "3"},
                                                 {"data.namespaces", "[\"a\"]"},
                                                 {"data.keys", "9"},
                                                 {"data.power", "0.5"},
                                                 {"data.pair_factors", "2"},
                                                 {"data.linear", "0.5"},
                                                 {"data.pairs", "0.5"},
                                                 {"data.bias", "-1"},
                                                 {"data.drift", "5"},
                                                 {"model.factors", "3"},
                                                 {"model.deviation", "0.5"},
                                                 {"model.pooling", "\"concat\""},
                                                 {"model.file", "\"task.py\""},
                                                 {"table.learning_rate", "0.5"},
                                                 {"table.beta", "0.5"},
                                                 {"table.l1", "0.5"},
                                                 {"table.l2", "0.5"},
                                                 {"table.beta1", "0.5"},
                                                 {"table.beta2", "0.5"},
                                                 {"table.epsilon", "0.5"},
                                                 {"table.codec", "\"fp16\""},
                                                 {"table.density", "0.5"},
                                                 {"table.unsent", "50"},
                                                 {"optimizer.momentum", "0.5"},
                                                 {"optimizer.beta1", "0.5"},
                                                 {"optimizer.beta2", "0.5"},
                                                 {"optimizer.epsilon", "0.5"},
                                                 {"optimizer.step_every", "0.5"},
                                                 {"optimizer.step_factor", "0.5"},
                                                 {"graph.weights", "\"uniform\""},
                                                 {"graph.degree", "2"},
                                                 {"graph.rows", "2"},
                                                 {"graph.groups", "2"},
                                                 {"graph.probability", "0.5"},
                                                 {"graph.period", "3"},
                                                 {"graph.seed", "3"},
                                                 {"graph.directed", "false"},
                                                 {"graph.edges", "[[0, 1], [1, 0]]"},
                                                 {"graph.file", "\"edges.txt\""}};

std::string message_of(const std::string& path, const Strings& overrides = {}) {
  try {
    node::load_job(path, overrides);
  } catch (const node::ConfigError& error) {
    return error.what();
  }
  return {};
}

Strings words(const char* text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

/// A job of that kind which the program takes, but for keys that the test adds below it.
std::string job_of(const Choice& choice, const std::string& kind) {
  std::string text = "peers = 8\n";
  const auto is = [&](const char* section, const char* name) {
    return choice.section == section && kind == name;
  };
  const auto formats = node::sample_rows();
  const bool of_samples =
      is("data", kCsvSamples) ||
      (choice.section == "data" && kind != "csv" &&
       std::any_of(formats.begin(), formats.end(), [&](const auto& row) { return kind == row.name; }));
  if (of_samples || choice.section == "table") text += "[model]\nkind = \"lr\"\n";
  if (choice.section == "table" || (choice.section == "model" && node::is_sparse_model(kind)))
    text += "[data]\nformat = \"planted\"\n";
  text +=
      "[" + choice.section + "]\n" + choice.key + " = \"" + (is("data", kCsvSamples) ? "csv" : kind) + "\"\n";
  if (choice.section == "data" && kind != "synthetic" && kind != node::kPlanted)
    text += "path = \"elsewhere\"\n";
  if (is("optimizer", "step")) text += "step_every = 0.25\n";
  if (is("graph", "edges"))
    text += "edges = [[0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [5, 6], [6, 7], [7, 0]]\n";
  if (is("graph", "file")) text += "file = \"ring.txt\"\n";
  if (is("model", "python")) text += "file = \"task.py\"\n";
  return text;
}

void write_ring(const Folder& folder) {
  folder.write("ring.txt", "0 1\n1 2\n2 3\n3 4\n4 5\n5 6\n6 7\n7 0\n");
}

}  // namespace

TEST_CASE("every key that a kind names is a key of its section, and has a value here") {
  Strings known;
  for (const auto& keys : {node::job_keys(), node::topology_keys()})
    for (const node::KeyHelp& key : keys) known.push_back(key.key);
  for (const Choice& choice : choices())
    for (const optim::NamedHelp& row : choice.rows)
      for (const std::string& word : words(row.reads)) {
        const std::string key = choice.section + "." + word;
        INFO(row.name << " reads " << key);
        CHECK(std::find(known.begin(), known.end(), key) != known.end());
        CHECK(kValues.contains(key));
      }
}

TEST_CASE("a key that a kind does not read is refused with its place, its readers and its default") {
  const Folder folder;
  for (const Choice& choice : choices())
    for (const optim::NamedHelp& row : choice.rows)
      for (const auto& [key, value] : kValues) {
        const std::string word = key.substr(key.find('.') + 1);
        const bool of_section = key.substr(0, key.find('.')) == choice.section;
        if (!of_section || optim::reads(choice.rows, row.name, word)) continue;
        INFO(row.name << " and " << key);
        std::string text = job_of(choice, row.name);
        const auto line = std::to_string(std::count(text.begin(), text.end(), '\n') + 1);
        text += word + " = " + value + "\n";
        const std::string path = folder.write("job.toml", text);
        const std::string message = message_of(path);
        CHECK(says(message, path + ":" + line + ":" + std::to_string(word.size() + 4) + ": " + key + " = "));
        CHECK(says(message, "makes no difference to " + choice.called + " '" + row.name + "' (but to "));
        for (const optim::NamedHelp& other : choice.rows)
          if (optim::reads(choice.rows, other.name, word))
            CHECK(says(message.substr(message.find("but to")), other.name));
        CHECK(says(message, "leave the key out, or give it its default, "));
        const std::string plain = folder.write("plain.toml", job_of(choice, row.name));
        const std::string set = key + "=" + value;
        CHECK(says(message_of(plain, {set}), "--set " + set + ": " + key + " = "));
      }
}

TEST_CASE("data.seed is read by every format of rows that draws some") {
  const Folder folder;
  for (const char* format : {"synthetic", "csv", "idx"}) {
    INFO(format);
    std::string text = std::string("peers = 2\n[data]\nseed = 7\nformat = \"") + format + "\"\n";
    if (format != std::string("synthetic")) text += "path = \"elsewhere\"\nlimit = 9\n";
    CHECK(node::load_job(folder.write("job.toml", text)).data.seed == 7);
  }
}

TEST_CASE("a job of every kind reads back as it was printed, and a key may be given its default") {
  const Folder folder, elsewhere;
  write_ring(folder);
  for (const Choice& choice : choices())
    for (const optim::NamedHelp& row : choice.rows) {
      INFO(choice.called << " " << row.name);
      const std::string text =
          node::to_toml(node::load_job(folder.write("job.toml", job_of(choice, row.name))));
      CHECK(node::to_toml(node::load_job(elsewhere.write("again.toml", text))) == text);
    }
}

TEST_CASE("an override of a kind takes along what the file wrote for the former one") {
  const Folder folder;
  const std::string path = folder.write(
      "job.toml",
      "peers = 4\n[graph]\nkind = \"torus\"\nrows = 2\n[optimizer]\nkind = \"momentum\"\nmomentum = 0.5\n");
  const node::Job job = node::load_job(path, Strings{"graph.kind=ring", "optimizer.kind=sgd"});
  CHECK(job.graph.rows == 0);
  CHECK(job.optimizer.momentum == optim::OptimizerSpec{}.momentum);
  CHECK(node::load_job(path, Strings{"optimizer.kind=nesterov"}).optimizer.momentum == 0.5);
  CHECK(
      says(message_of(path, {"optimizer.kind=sgd", "optimizer.momentum=0.5"}),
           "--set optimizer.momentum=0.5: optimizer.momentum = 0.5 makes no difference to optimizer 'sgd'"));
  CHECK(says(message_of(path, {"optimizer.momentum=0.5", "optimizer.kind=sgd"}), "makes no difference"));
}

TEST_CASE("an override may name the kind that the file's keys were meant for") {
  const Folder folder;
  const std::string path = folder.write("job.toml", "peers = 4\n[model]\nkind = \"softmax\"\nhidden = [7]\n");
  CHECK(says(message_of(path), path + ":4:10: model.hidden = [7] makes no difference to model 'softmax'"));
  CHECK(says(message_of(path, {"model.kind=quadratic"}), ":4:10: model.hidden = [7]"));
  CHECK(node::load_job(path, Strings{"model.kind=mlp"}).model.hidden == std::vector<std::size_t>{7});
}

TEST_CASE("topology files are held to the same") {
  const Folder folder;
  const std::string path = folder.write("net.toml", "peers = 4\n[graph]\nkind = \"ring\"\ndegree = 2\n");
  CHECK_THROWS_WITH(node::load_topology(path), ContainsSubstring(path + ":4:10: graph.degree = 2"));
  const std::string job = folder.write("job.toml", "topology = \"net.toml\"\n");
  CHECK(says(message_of(job), path + ":4:10: graph.degree = 2"));
  CHECK(node::load_topology(path, Strings{"graph.kind=tree"}).graph.degree == 2);
}

TEST_CASE("topologies that are advised can be read") {
  const Folder folder;
  node::Job job = node::load_job(folder.write("job.toml", "peers = 8\n"));
  const topology::LinkTable links(8, {1e8, 1e-3});
  auto specs = topology::candidate_graphs(8);
  for (auto& spec : topology::candidate_edges(links, 1e6)) specs.push_back(std::move(spec));
  for (const topology::GraphSpec& spec : specs) {
    INFO(spec.kind);
    job.graph = spec;
    const std::string text = node::to_topology_toml(job);
    CHECK(node::to_topology_toml(node::load_topology(folder.write("net.toml", text))) == text);
  }
}

TEST_CASE("how long a peer may take is refused where it is waited for") {
  const Folder folder;
  const std::string path = folder.write("job.toml", "peers = 8\n[run]\nstraggler_k = 2\n");
  CHECK(says(message_of(path),
             "run.straggler_k = 2 makes no difference to run.straggler 'wait' (but to without, "
             "fewer)"));
  CHECK(
      message_of(path, {"run.straggler=fewer", "exchange.method=local_sgd", "exchange.codec=dense"}).empty());
}
