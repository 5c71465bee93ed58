// GraphML (Brandes et al. 2002, graphml.graphdrawing.org): one <graph>, whose edges may carry the attribute
// "weight". Boost's XML parser keeps no lines once it has parsed; what is wrong with an edge is therefore
// said by its number.
#include <boost/property_tree/ptree.hpp>
#include <boost/property_tree/xml_parser.hpp>
#include <sstream>

#include "graph_file.h"

namespace gossamer::topology {
namespace {

namespace pt = boost::property_tree;

pt::ptree parse(const std::string& path) {
  std::istringstream text(read_text(path));
  pt::ptree tree;
  try {
    pt::read_xml(text, tree);
  } catch (const pt::xml_parser_error& error) {
    throw GraphError(path + ":" + std::to_string(error.line()) + ": " + error.message() +
                     "; expected GraphML, which is XML");
  }
  return tree;
}

std::string attribute(const pt::ptree& element, const std::string& name) {
  return element.get(pt::path("<xmlattr>|" + name, '|'), std::string());  // names may hold dots
}

/// The id under which edges carry their weight; empty where none is declared.
std::string weight_key(const pt::ptree& graphml) {
  for (const auto& [tag, key] : graphml)
    if (tag == "key" && attribute(key, "attr.name") == "weight" && attribute(key, "for") != "node")
      return attribute(key, "id");
  return {};
}

std::optional<float> weight_of(const std::string& place, const pt::ptree& edge, const std::string& key) {
  for (const auto& [tag, data] : edge)
    if (tag == "data" && !key.empty() && attribute(data, "key") == key) return to_weight(place, data.data());
  return std::nullopt;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  return out;
}

}  // namespace

EdgeSpecs read_graphml(const std::string& path, Names names) {
  const pt::ptree tree = parse(path);
  const auto graph = tree.get_child_optional("graphml.graph");
  if (!graph) throw GraphError(path + ": found no <graphml> with a <graph> in it; expected GraphML");
  const std::string key = weight_key(tree.get_child("graphml"));
  const bool undirected = attribute(*graph, "edgedefault") != "directed";
  EdgeSpecs edges;
  std::size_t number = 0;
  for (const auto& [tag, element] : *graph) {
    if (tag == "node") {
      find_node(path + ": node", attribute(element, "id"), names);
      continue;
    }
    if (tag != "edge") continue;
    const std::string place = path + ": edge " + std::to_string(++number);
    const PeerId from = find_node(place + ", source", attribute(element, "source"), names);
    const PeerId to = find_node(place + ", target", attribute(element, "target"), names);
    const std::optional<float> weight = weight_of(place, element, key);
    edges.push_back({from, to, weight});
    const std::string own = attribute(element, "directed");
    if (from != to && (own.empty() ? undirected : own == "false")) edges.push_back({to, from, weight});
  }
  return edges;
}

std::string write_graphml(const MixingMatrix& w, Names names) {
  std::string out =
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">\n"
      "  <key id=\"weight\" for=\"edge\" attr.name=\"weight\" attr.type=\"double\"/>\n";
  out += std::string("  <graph edgedefault=\"") + (w.symmetric() ? "undirected" : "directed") + "\">\n";
  for (PeerId i = 0; i < w.peers(); ++i) out += "    <node id=\"" + escaped(node_name(i, names)) + "\"/>\n";
  for_each_edge(w, [&](PeerId from, PeerId to, float weight) {
    out += "    <edge source=\"" + escaped(node_name(from, names)) + "\" target=\"" +
           escaped(node_name(to, names)) + "\"><data key=\"weight\">" + weight_text(weight) +
           "</data></edge>\n";
  });
  return out + "  </graph>\n</graphml>\n";
}

}  // namespace gossamer::topology
