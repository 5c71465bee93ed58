// Graph files of every format, written and read back, and wrong ones.
#include "gossamer/topology/formats.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "gossamer_test/catch.h"
#include "support.h"
#include "temporary_file.h"

namespace gossamer::topology::test {
namespace {

const std::vector<std::string> kNames{"alpha", "beta & co", "gamma<1>", "delta\"4\"",
                                      "5",     "six",       "seven",    "8"};

/// The mixing matrix of edges as read, with their own weights or Metropolis'.
MixingMatrix matrix_of(std::size_t peers, const Edges& edges, bool weights) {
  return make_schedule(edges_spec(peers, edges, weights ? "explicit" : "metropolis", true)).at(0);
}

Edges read(const std::string& text, const std::string& ending, std::span<const std::string> names) {
  return read_graph(TemporaryFile(text, ending).path(), names);
}

std::vector<std::string> numbers(std::size_t n) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < n; ++i) names.push_back(std::to_string(i));
  return names;
}

/// The error of a file with that text, without its path.
std::string error_in(const std::string& text, const std::string& ending) {
  const std::vector<std::string> names{"alpha", "beta", "gamma"};
  const TemporaryFile file(text, ending);
  const std::string message = error_of([&] { read_graph(file.path(), names); });
  REQUIRE(message.starts_with(file.path() + ":"));
  return message.substr(file.path().size());
}

std::string graphml(const std::string& body) {
  return "<?xml version='1.0'?>\n<graphml><key id='d1' for='edge' attr.name='weight' attr.type='double'/>\n" +
         body + "\n</graphml>";
}

}  // namespace

TEST_CASE("every format reads back what it wrote") {
  for (const FileFormat& format : file_format_table())
    for (const char* kind : {"ring", "star", "exponential", "tree", "watts_strogatz"}) {
      const std::string name = format.name;
      CAPTURE(name, kind);
      const MixingMatrix w = make_schedule(spec_of(kind, 8)).at(0);
      if (name == "metis" && !w.symmetric()) {
        REQUIRE(contains(error_of([&] { write_graph(w, {}, name); }), "directed"));
        continue;
      }
      const std::string ending =
          "." + std::string(format.endings).substr(0, std::string(format.endings).find(' '));
      const bool with_names = name != "edgelist" && name != "metis";  // names with blanks have no place there
      const std::vector<std::string> names = with_names ? kNames : numbers(8);
      Edges edges = read(write_graph(w, names, name), ending, names);
      if (name == "edgelist" && w.symmetric())  // which does not say that it is undirected
        for (std::size_t i = 0, n = edges.size(); i < n; ++i)
          edges.push_back({edges[i].to, edges[i].from, edges[i].weight});
      REQUIRE(matrix_of(8, edges, name != "metis").dense() == w.dense());
    }
}

TEST_CASE("byte order marks are skipped and long words quoted in part") {
  REQUIRE(read("\xEF\xBB\xBF"
               "0 1\n",
               ".txt", numbers(2))
              .size() == 1);
  REQUIRE(read("\xEF\xBB\xBF"
               "2 1\n2\n1\n",
               ".metis", numbers(2))
              .size() == 2);
  const std::string word(100000, 'x'), part = "found '" + std::string(60, 'x') + "…' (100000 bytes)";
  for (const auto& [text, ending] :
       {std::pair{word, ".txt"}, {"0 1 " + word, ".txt"}, {"0 1 2 " + word, ".txt"}, {word, ".metis"}})
    REQUIRE(contains(error_in(text, ending), part));
}

TEST_CASE("a format is known by the file's ending, or by name") {
  const std::vector<std::string> names = numbers(2);
  const std::string metis = "2 1\n2\n1\n", list = "0 1\n";
  REQUIRE(read(metis, ".graph", names).size() == 2);
  REQUIRE(read(list, ".whatever", names).size() == 1);
  REQUIRE(read(list, "", names).size() == 1);
  REQUIRE(read_graph(TemporaryFile(metis, ".txt").path(), names, "metis").size() == 2);
  REQUIRE(offers([&] { read_graph("x", names, "grapml"); }, "grapml", "graphml"));
}

TEST_CASE("graphml: directions and weights are the file's") {
  const std::string nodes = "<node id='alpha'/><node id='beta'/><node id='gamma'/>";
  const std::vector<std::string> names{"alpha", "beta", "gamma"};
  const Edges edges = read(
      graphml("<graph edgedefault='directed'>" + nodes +
              "<edge source='alpha' target='beta'><data key='d1'>0.25</data></edge>"
              "<edge source='beta' target='2' directed='false'><data key='other'>x</data></edge></graph>"),
      ".graphml", names);
  REQUIRE(edges.size() == 3);
  REQUIRE(edges[0].weight == 0.25F);
  REQUIRE(edges[0].to == 1);
  REQUIRE(edges[2].from == 2);
  REQUIRE(edges[2].to == 1);
  REQUIRE_FALSE(edges[1].weight);
}

TEST_CASE("graphml: edges without a weight have the default of its key") {
  const std::string file =
      "<graphml><key id='w' for='edge' attr.name='weight'><default>0.25</default></key><graph "
      "edgedefault='directed'><edge source='0' target='1'/><edge source='1' target='0'><data "
      "key='w'>0.5</data></edge></graph></graphml>";
  const Edges edges = read(file, ".graphml", numbers(2));
  REQUIRE(edges.at(0).weight == 0.25F);
  REQUIRE(edges.at(1).weight == 0.5F);
  REQUIRE(contains(error_in("<graphml><key id='w' for='edge' attr.name='weight'><default>x</default></key>"
                            "<graph/></graphml>",
                            ".graphml"),
                   ": <default> of weight: found 'x'"));
}

TEST_CASE("graphml: what is wrong is named") {
  REQUIRE(contains(error_in("<graphml><graph></graphml>", ".graphml"), ":1: "));
  REQUIRE(contains(error_in("<a/>", ".graphml"), "no <graphml>"));
  REQUIRE(contains(error_in(graphml("<graph><node id='delta'/></graph>"), ".graphml"), "found 'delta'"));
  REQUIRE(contains(error_in(graphml("<graph><edge source='alpha' target='betta'/></graph>"), ".graphml"),
                   "edge 1, target: found 'betta'; expected the name of a peer or a number from 0 to 2"));
  REQUIRE(contains(error_in(graphml("<graph><edge source='0' target='1'><data key='d1'>heavy</data></edge>"
                                    "</graph>"),
                            ".graphml"),
                   "edge 1: found 'heavy'"));
}

TEST_CASE("graphml: elements that nest too deep are refused, whatever hides it") {
  const auto times = [](std::size_t n, const std::string& text) {
    std::string all;
    for (std::size_t i = 0; i < n; ++i) all += text;
    return all;
  };
  const std::size_t deep = 100000;
  const auto refused = [&](const std::string& text) {
    return contains(error_in(text, ".graphml"), ": elements nest more than 256 deep; expected GraphML");
  };
  REQUIRE(refused(times(deep, "<a>")));
  REQUIRE(refused(times(deep, "<a>") + times(deep, "</a>")));
  REQUIRE(refused(times(deep, "<a b='/>' c=\"</a>\" >")));
  REQUIRE(refused(times(deep, "<a>/>")));
  REQUIRE(refused(times(deep, "<a><!-- > </a> -->")));
  REQUIRE(refused(times(deep, "<a><![CDATA[ > </a> ]]>")));
  REQUIRE(refused(times(deep, "<a><? > </a> ?>")));
  REQUIRE(refused(times(deep, "<a><!DOCTYPE a [ <b> </a> ]></a><a>")));
  REQUIRE(refused("<a\">" + times(deep, "<a>") + "\""));
  REQUIRE(refused("<!DOCTYPEx [>" + times(deep, "<a>") + "]>"));
  const std::string edges = times(300, "<edge source='alpha' target='beta'/>");
  REQUIRE(read(graphml("<!DOCTYPE a [ <!ELEMENT a (b)> ]><graph>" + edges + times(200, "<g>") +
                       times(200, "</g>") + "</graph>"),
               ".graphml", std::vector<std::string>{"alpha", "beta"})
              .size() == 600);
}

TEST_CASE("node-link json: links and edges, names and numbers") {
  const std::vector<std::string> names{"alpha", "beta", "gamma"};
  for (const char* key : {"edges", "links"}) {
    const Edges edges = read(std::string("{\"directed\": false, \"nodes\": [{\"id\": 0}], \"") + key +
                                 "\": [{\"source\": 0, \"target\": \"gamma\", \"weight\": 0.5}]}",
                             ".json", names);
    REQUIRE(edges.size() == 2);
    REQUIRE(edges[1].from == 2);
    REQUIRE(edges[1].weight == 0.5F);
  }
}

TEST_CASE("node-link json: what is wrong is named") {
  REQUIRE(contains(error_in("{\n\"nodes\": [,]}", ".json"), "line 2"));
  REQUIRE(contains(error_in("[]", ".json"), "no arrays \"nodes\""));
  REQUIRE(contains(error_in("{\"directed\": \"yes\", \"nodes\": [], \"edges\": []}", ".json"),
                   ": \"directed\" is \"yes\"; expected true or false"));
  const auto with_edge = [](const std::string& edge) { return "{\"nodes\": [], \"edges\": [" + edge + "]}"; };
  REQUIRE(contains(error_in(with_edge("{\"source\": 0}"), ".json"), "edge 0: has no \"target\""));
  REQUIRE(contains(error_in(with_edge("{\"source\": 0, \"target\": 9}"), ".json"), "found '9'"));
  REQUIRE(contains(error_in(with_edge("{\"source\": [], \"target\": 1}"), ".json"),
                   "expected a name or a number"));
  REQUIRE(contains(error_in(with_edge("{\"source\": 0, \"target\": 1, \"weight\": \"x\"}"), ".json"),
                   "expected a weight"));
}

TEST_CASE("metis: comments, weights, vertices without neighbours") {
  const std::vector<std::string> names = numbers(4);
  const std::string text =
      "% a comment\n4 2 111 2\n7 1 1 2 10 3 20\n% between\n7 1 1 1 10\n7 1 1 1 20\n7 1 1\n";
  const Edges edges = read(text, ".metis", names);
  REQUIRE(edges.size() == 4);
  REQUIRE(edges[1].to == 2);
  REQUIRE(edges[1].weight == 20.0F);
  REQUIRE(read("4 0\n\n\n\n\n", ".metis", names).empty());
}

TEST_CASE("metis: what is wrong is named by line and column") {
  REQUIRE(contains(error_in("", ".metis"), "no header"));
  REQUIRE(contains(error_in("2 1\n2\n1\n", ".metis"), ":1:1: found 2 vertices; expected 3"));
  REQUIRE(contains(error_in("3 1\n2\n1 x\n\n", ".metis"), ":3:3: found 'x'"));
  REQUIRE(contains(error_in("3 1\n2\n1\n", ".metis"), "found 2 lines of vertices; expected 3"));
  REQUIRE(contains(error_in("3 1\n4\n\n\n", ".metis"), ":2:1: found vertex 4; there are 3"));
  REQUIRE(contains(error_in("3 1\n2\n\n\n", ".metis"), "vertex 1 lists 2, which does not list it"));
  REQUIRE(contains(error_in("3 1 1\n2 5\n1 6\n\n", ".metis"), "another weight"));
  REQUIRE(contains(error_in("3 2\n2\n1\n\n", ".metis"), "2 ends of edges; the header's 2 edges have 4"));
  REQUIRE(contains(error_in("3 1 2\n2\n1\n\n", ".metis"), "fmt 2"));
  REQUIRE(contains(error_in("3 1\n2\n1\n\n3\n", ".metis"), ":5:1: found a line behind"));
}

TEST_CASE("networkx reads what is written, and the other way round") {
  if (std::system("python3 -c 'import networkx' 2>/dev/null") != 0) {
    WARN("python3-networkx is not installed: skipped");
    return;
  }
  const MixingMatrix w = make_schedule(spec_of("watts_strogatz", 8)).at(0);
  const std::vector<std::string> names = numbers(8);
  const char* readers[][3] = {
      {"graphml", "networkx.read_graphml(a)", "networkx.write_graphml(g, b)"},
      {"json", "networkx.node_link_graph(json.load(open(a)))",
       "json.dump(networkx.node_link_data(g), open(b, 'w'))"},
      {"edgelist", "networkx.read_weighted_edgelist(a)", "networkx.write_weighted_edgelist(g, b)"}};
  for (const auto& [format, read_it, write_it] : readers) {
    CAPTURE(format);
    const TemporaryFile ours(write_graph(w, names, format)), theirs("");
    const std::string command =
        std::string("python3 -W ignore -c \"import json, networkx, sys; a, b = sys.argv[1:]; g = ") +
        read_it + "; assert g.number_of_nodes() == 8; " + write_it + "\" " + ours.path() + " " +
        theirs.path();
    REQUIRE(std::system(command.c_str()) == 0);
    Edges edges = read_graph(theirs.path(), names, format);
    if (std::string(format) == "edgelist")
      for (std::size_t i = 0, n = edges.size(); i < n; ++i)
        edges.push_back({edges[i].to, edges[i].from, edges[i].weight});
    REQUIRE(matrix_of(8, edges, true).dense() == w.dense());
  }
}

}  // namespace gossamer::topology::test
