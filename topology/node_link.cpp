// Node-link JSON: {"directed": false, "nodes": [{"id": 0}, …], "edges": [{"source": 0, "target": 1, "weight":
// 0.5}, …]}. networkx before 3.4 and D3 call the edges "links"; both are read, and both are written.
#include <nlohmann/json.hpp>

#include "graph_file.h"

namespace gossamer::topology {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void fail(const std::string& place, const std::string& what) {
  throw GraphError(place + ": " + what);
}

Json parse(const std::string& path) {
  try {
    return Json::parse(read_text(path));
  } catch (const Json::parse_error& error) {
    fail(path, std::string("not JSON: ") + error.what());  // which names line and column
  }
}

PeerId node(const std::string& place, const Json& object, const char* key, Names names) {
  if (!object.is_object() || !object.contains(key)) fail(place, std::string("has no \"") + key + "\"");
  const Json& value = object[key];
  if (!value.is_string() && !value.is_number_integer())
    fail(place, std::string("\"") + key + "\" is " + value.dump() + "; expected a name or a number");
  return find_node(place + ", " + key, value.is_string() ? value.get<std::string>() : value.dump(), names);
}

}  // namespace

EdgeSpecs read_node_link(const std::string& path, Names names) {
  const Json graph = parse(path);
  const auto list = [&](const char* key) {
    return graph.is_object() && graph.contains(key) && graph[key].is_array();
  };
  const char* key = list("edges") ? "edges" : "links";
  if (!list(key) || !list("nodes"))
    fail(path, "found no arrays \"nodes\" and \"edges\" (or \"links\"); expected node-link JSON");
  for (std::size_t i = 0; i < graph["nodes"].size(); ++i)
    node(path + ": node " + std::to_string(i), graph["nodes"][i], "id", names);
  const Json directed = graph.value("directed", Json(false));
  if (!directed.is_boolean()) fail(path, "\"directed\" is " + directed.dump() + "; expected true or false");
  EdgeSpecs edges;
  for (std::size_t i = 0; i < graph[key].size(); ++i) {
    const Json& edge = graph[key][i];
    const std::string place = path + ": edge " + std::to_string(i);
    const PeerId from = node(place, edge, "source", names), to = node(place, edge, "target", names);
    std::optional<float> weight;
    if (edge.contains("weight")) weight = to_weight(place, edge["weight"].dump());
    edges.push_back({from, to, weight});
    if (!directed.get<bool>() && from != to) edges.push_back({to, from, weight});
  }
  return edges;
}

std::string write_node_link(const MixingMatrix& w, Names names) {
  const auto id = [&](PeerId peer) { return names.empty() ? Json(peer) : Json(names[peer]); };
  Json nodes = Json::array(), edges = Json::array();
  for (PeerId i = 0; i < w.peers(); ++i) nodes.push_back({{"id", id(i)}});
  for_each_edge(w, [&](PeerId from, PeerId to, float weight) {
    edges.push_back({{"source", id(from)}, {"target", id(to)}, {"weight", weight}});
  });
  const Json out{{"directed", !w.symmetric()},
                 {"multigraph", false},
                 {"graph", Json::object()},
                 {"nodes", nodes},
                 {"edges", edges},
                 {"links", edges}};
  return out.dump(1) + "\n";
}

}  // namespace gossamer::topology
