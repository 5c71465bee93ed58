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

/// Behind the next `end`, from `at` on.
std::size_t behind(std::string_view text, std::string_view end, std::size_t at) {
  const std::size_t found = text.find(end, at);
  return found == text.npos ? text.size() : found + end.size();
}

/// Behind the '>' of the tag whose name begins at `at`; attributes may hold others.
std::size_t behind_tag(std::string_view text, std::size_t at) {
  char quote = 0;
  for (at = text.find_first_of(" \t\r\n/>?", at); at < text.size(); ++at) {
    const char c = text[at];
    if (quote == 0 && c == '>') return at + 1;
    if (quote == 0 && (c == '"' || c == '\''))
      quote = c;
    else if (c == quote)
      quote = 0;
  }
  return text.size();
}

/// Behind the '>' of <!DOCTYPE …>, between whose brackets others may stand.
std::size_t behind_doctype(std::string_view text, std::size_t at) {
  for (std::size_t depth = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (depth == 0 && c == '>') return at + 1;
    if (c == '[') ++depth;
    if (c == ']' && depth > 0) --depth;
  }
  return text.size();
}

/// Throws where elements nest so deep that the parser, which recurses, would end the program. What is no tag
/// is skipped as the parser skips it.
void check_nesting(const std::string& path, std::string_view text) {
  constexpr std::size_t kDeepest = 256;
  std::size_t depth = 0;
  for (std::size_t at = text.find('<'); at < text.size(); at = text.find('<', at)) {
    const std::string_view rest = text.substr(at);
    const auto begins = [&](std::string_view with) { return rest.starts_with(with); };
    if (begins("</")) {
      depth -= depth > 0 ? 1 : 0;
      at += 2;
    } else if (begins("<!--")) {
      at = behind(text, "-->", at + 4);
    } else if (begins("<![CDATA[")) {
      at = behind(text, "]]>", at + 9);
    } else if (begins("<?")) {
      at = behind(text, "?>", at + 2);
    } else if (begins("<!DOCTYPE ") || begins("<!DOCTYPE\t") || begins("<!DOCTYPE\r") ||
               begins("<!DOCTYPE\n")) {
      at = behind_doctype(text, at + 10);
    } else if (begins("<!")) {
      at = behind(text, ">", at + 2);
    } else {
      at = behind_tag(text, at + 1);
      if (!text.substr(0, at).ends_with("/>") && ++depth > kDeepest)
        throw GraphError(path + ": elements nest more than " + std::to_string(kDeepest) +
                         " deep; expected GraphML, whose edges stand in one <graph>");
    }
  }
}

pt::ptree parse(const std::string& path) {
  std::istringstream text(read_text(path));
  check_nesting(path, text.view());
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

/// The id under which edges carry their weight, empty where none is declared, and the weight of those that
/// carry none.
struct WeightKey {
  std::string id;
  std::optional<float> fallback;
};

WeightKey weight_key(const std::string& path, const pt::ptree& graphml) {
  for (const auto& [tag, key] : graphml)
    if (tag == "key" && attribute(key, "attr.name") == "weight" && attribute(key, "for") != "node") {
      WeightKey found{attribute(key, "id"), std::nullopt};
      if (const auto text = key.get_optional<std::string>("default"); text && !text->empty())
        found.fallback = to_weight(path + ": <default> of weight", *text);
      return found;
    }
  return {};
}

std::optional<float> weight_of(const std::string& place, const pt::ptree& edge, const WeightKey& key) {
  for (const auto& [tag, data] : edge)
    if (tag == "data" && !key.id.empty() && attribute(data, "key") == key.id)
      return to_weight(place, data.data());
  return key.fallback;
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
  const WeightKey key = weight_key(path, tree.get_child("graphml"));
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
