// What a probe found, as files: TOML, CSV, JSON.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "probe.h"
#include "text.h"

namespace gossamer::node {

std::string links_toml(const ProbeResult& result, const std::vector<std::string>& names) {
  std::string text = fmt::format(
      "# gossamer probe: {} of {} links between {} peers. Use it as links = \"…\" in a topology file.\n",
      result.pairs.size(), names.size() * (names.size() - 1) / 2, names.size());
  for (const PeerId p : result.silent) text += fmt::format("# {} did not answer.\n", names[p]);
  for (const auto& [peer, uplink] : result.uplinks)
    text += fmt::format("\n[[peer]]\nname = {}\nuplink = {}  # to all others at once\n",
                        in_quotes(names[peer]), in_quotes(bandwidth_text(rounded(uplink, 4))));
  for (const PairMeasure& pair : result.pairs)
    text += fmt::format("\n[[link]]\nbetween = [{}, {}]\nbandwidth = {}  # {} there, {} back\nlatency = {}\n",
                        in_quotes(names[pair.a]), in_quotes(names[pair.b]),
                        in_quotes(bandwidth_text(rounded(pair.bandwidth(), 4))),
                        bandwidth_text(rounded(pair.there, 4)), bandwidth_text(rounded(pair.back, 4)),
                        number_text(rounded(pair.latency, 4)));
  return text;
}

std::string links_csv(const ProbeResult& result, const std::vector<std::string>& names) {
  const auto matrix = [&](const std::string& what, auto value) {
    std::string text = what + "," + join(names, ",") + "\n";
    for (PeerId i = 0; i < names.size(); ++i) {
      text += names[i];
      for (PeerId j = 0; j < names.size(); ++j) {
        const auto pair = std::find_if(result.pairs.begin(), result.pairs.end(), [&](const PairMeasure& p) {
          return p.a == std::min(i, j) && p.b == std::max(i, j);
        });
        text += "," + (pair == result.pairs.end() ? "" : number_text(rounded(value(*pair), 4)));
      }
      text += "\n";
    }
    return text;
  };
  std::string text = matrix("bandwidth", [](const PairMeasure& p) { return p.bandwidth(); }) +
                     matrix("latency", [](const PairMeasure& p) { return p.latency; });
  if (result.uplinks.empty()) return text;
  text += "uplink," + join(names, ",") + "\nall";
  for (PeerId i = 0; i < names.size(); ++i)
    text += "," + (result.uplinks.contains(i) ? number_text(rounded(result.uplinks.at(i), 4)) : "");
  return text + "\n";
}

std::string to_json(const ProbeResult& result, const std::vector<std::string>& names) {
  nlohmann::ordered_json out{{"peers", names},
                             {"links", nlohmann::ordered_json::array()},
                             {"uplinks", nlohmann::ordered_json::object()},
                             {"silent", nlohmann::ordered_json::array()}};
  for (const PairMeasure& p : result.pairs)
    out["links"].push_back({{"between", {names[p.a], names[p.b]}},
                            {"bandwidth", p.bandwidth()},
                            {"bandwidth_there", p.there},
                            {"bandwidth_back", p.back},
                            {"latency", p.latency}});
  for (const auto& [peer, uplink] : result.uplinks) out["uplinks"][names[peer]] = uplink;
  for (const PeerId p : result.silent) out["silent"].push_back(names[p]);
  return out.dump();
}

ProbeResult probe_result(const std::string& json, const std::vector<std::string>& names) {
  const auto id = [&](const nlohmann::json& name) {
    return static_cast<PeerId>(std::find(names.begin(), names.end(), name.get<std::string>()) -
                               names.begin());
  };
  const auto in = nlohmann::json::parse(json);
  ProbeResult result;
  for (const auto& link : in.at("links")) {
    const auto number = [&](const char* key) { return link.at(key).get<double>(); };
    const auto& ends = link.at("between");
    result.pairs.push_back({id(ends.at(0)), id(ends.at(1)), number("latency"), number("bandwidth_there"),
                            number("bandwidth_back")});
  }
  for (const auto& [name, uplink] : in.at("uplinks").items()) result.uplinks[id(name)] = uplink.get<double>();
  for (const auto& name : in.at("silent")) result.silent.push_back(id(name));
  return result;
}

}  // namespace gossamer::node
