#include "gossamer/topology/formats.h"
#include "gossamer_test/catch.h"
#include "support.h"
#include "temporary_file.h"

namespace gossamer::topology::test {
namespace {

const std::vector<std::string> kNames{"alpha", "beta", "gamma", "delta"};

Edges read(const std::string& text) { return read_graph(TemporaryFile(text).path(), kNames); }

void check_edges(const std::string& text, const Edges& expected) {
  CAPTURE(text);
  const Edges edges = read(text);
  REQUIRE(edges.size() == expected.size());
  for (std::size_t i = 0; i < edges.size(); ++i) {
    REQUIRE(edges[i].from == expected[i].from);
    REQUIRE(edges[i].to == expected[i].to);
    REQUIRE(edges[i].weight == expected[i].weight);
  }
}

/// The message must hold `place` (line:column) right after the path, and `part`.
void check_error(const std::string& text, const std::string& place, const std::string& part) {
  CAPTURE(text, place, part);
  const TemporaryFile file(text);
  const std::string message = error_of([&] { read_graph(file.path(), kNames); });
  CAPTURE(message);
  REQUIRE(message.rfind(file.path() + ":" + place + ": ", 0) == 0);
  REQUIRE(contains(message, part));
}

}  // namespace

TEST_CASE("edge lists hold numbers or names") {
  check_edges("0 1\n1 2\n", {{0, 1, {}}, {1, 2, {}}});
  check_edges("alpha beta\ngamma 3", {{0, 1, {}}, {2, 3, {}}});
  check_edges("  0\t1  \r\n", {{0, 1, {}}});
}

TEST_CASE("names come before numbers in edge lists") {
  const std::vector<std::string> names{"1", "0"};
  const TemporaryFile file("0 1\n");
  REQUIRE(read_graph(file.path(), names).front().from == 1);
}

TEST_CASE("edge lists hold comments and blank lines") {
  check_edges("", {});
  check_edges("# a comment\n\n   \n0 1 # another\n#0 2\n", {{0, 1, {}}});
  check_edges("0 1 0.5#tight\n", {{0, 1, 0.5F}});
}

TEST_CASE("edge lists hold weights") {
  check_edges("0 1 0.5\n1 2 1\n2 3 2.5e-1", {{0, 1, 0.5F}, {1, 2, 1.0F}, {2, 3, 0.25F}});
  check_edges("0 1 -0.5", {{0, 1, -0.5F}});  // make_schedule refuses it
  check_edges("0 1 1e-60", {{0, 1, 0.0F}});
}

TEST_CASE("edge lists hold attributes") {
  check_edges("0 1 {}\n0 2 { }\n", {{0, 1, {}}, {0, 2, {}}});
  check_edges("0 1 {'weight': 0.5}\n0 2 {\"weight\":0.25}", {{0, 1, 0.5F}, {0, 2, 0.25F}});
  check_edges("0 1 {'color': 'red', 'weight': 1, 'x': [1, {'weight': 3}], 'it': \"s}, 'weight': 4\"}",
              {{0, 1, 1.0F}});
  check_edges("0 1 {'quote\\'s': 'a\\'b', 'weight': 0.5, 'pair': (1, 2)}", {{0, 1, 0.5F}});
  check_edges("0 1 {'color': 'red'}", {{0, 1, {}}});
}

TEST_CASE("errors in edge lists say where and what") {
  check_error("0 1\n0 gama\n", "2:3", "found 'gama'");
  check_error("0 1\n\n# x\n  4 1\n", "4:3", "found '4'");
  check_error("0 1\n0 1.5\n", "2:3", "from 0 to 3");
  check_error("-1 2\n", "1:1", "found '-1'");
  check_error("99999999999999999999 2\n", "1:1", "found '9999");
  check_error("0\n", "1:2", "found one node");
  check_error("0 # 1\n", "1:3", "found one node");
  check_error("0 1 heavy\n", "1:5", "found 'heavy'; expected a weight");
  check_error("0 1 0.5x\n", "1:5", "0.5x");
  check_error("0 1 nan\n", "1:5", "finite");
  check_error("0 1 inf\n", "1:5", "finite");
  check_error("0 1 1e300\n", "1:5", "finite");
  check_error("0 1 0.5 0.5\n", "1:9", "expected the end of the line");
  check_error("0 1 {} x\n", "1:8", "expected the end of the line");
}

TEST_CASE("errors in the attributes of edge lists say where and what") {
  check_error("0 1 {'weight': 'a lot'}\n", "1:16", "found ''a'; expected a weight");
  check_error("0 1 {'weight': }\n", "1:16", "expected a weight");
  check_error("0 1 {'weight' 0.5}\n", "1:15", "expected ':' after 'weight'");
  check_error("0 1 {weight: 0.5}\n", "1:6", "in quotes");
  check_error("0 1 {'weight': 0.5\n", "1:5", "no end of '{'");
  check_error("0 1 {'weight: 0.5}\n", "1:6", "no closing quote");
  check_error("0 1 {'weight': 0.5 'x': 1}\n", "1:20", "expected ',' or '}'");
  check_error("0 1 {'x': (1, 2\n", "1:5", "no end of '{'");
}

TEST_CASE("a file that cannot be read is named") {
  const std::string missing = error_of([] { read_graph("/nowhere/edges.txt", kNames); });
  REQUIRE(contains(missing, "/nowhere/edges.txt: cannot be read (No such file or directory)"));
  REQUIRE(contains(error_of([] { read_graph("/tmp", kNames); }), "/tmp: cannot be read"));
}

TEST_CASE("an edge of no peers is refused") {
  const TemporaryFile file("0 1\n");
  REQUIRE(contains(error_of([&] { read_graph(file.path(), {}); }), "there are no peers"));
}

TEST_CASE("a file graph is made from its edge list") {
  GraphSpec spec =
      edges_spec(4, read("alpha beta 0.5\nbeta gamma 0.25\ngamma delta 0.5\n"), "explicit", false);
  spec.kind = "file";
  REQUIRE(make_schedule(spec).at(0).self_weight(1) == 0.25F);
}

}  // namespace gossamer::topology::test
