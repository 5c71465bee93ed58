#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "checkpoint.h"
#include "checkpoint_names.h"
#include "gossamer/node/errors.h"
#include "hash.h"
#include "text.h"

namespace gossamer::node {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kManifestVersion = 1;
constexpr const char* kManifestKind = "gossamer checkpoint";

[[noreturn]] void fail_manifest(const std::string& what) { throw StateError(what); }

std::string hex_of(std::uint64_t number) { return fmt::format("{:016x}", number); }

/// The end of a manifest, over all that stands before it.
std::string seal_of(std::string_view body) {
  return fmt::format(",\n \"xxh3\": \"{}\"\n}}\n", hex_of(hash_text(body)));
}

/// JSON has no infinite numbers.
Json number_json(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

double number_of(const Json& value, const std::string& what) {
  if (value.is_number()) return value.get<double>();
  if (value == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (value == "inf") return std::numeric_limits<double>::infinity();
  if (value == "-inf") return -std::numeric_limits<double>::infinity();
  fail_manifest(fmt::format("damaged: '{}' is no number", shortened(what)));
}

/// The members of an object; each must be there and of its kind.
class Members {
 public:
  explicit Members(const Json& object) : object_(object) {
    if (!object.is_object()) fail_manifest("damaged: expected a JSON object");
  }
  std::string text(const char* key) const { return at(key, Json::value_t::string).get<std::string>(); }
  std::uint64_t natural(const char* key) const {
    return at(key, Json::value_t::number_unsigned).get<std::uint64_t>();
  }
  double number(const char* key) const { return number_of(at(key), key); }
  std::uint64_t hex(const char* key) const {
    const std::string digits = text(key);
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number, 16);
    if (error != std::errc() || end != digits.data() + digits.size() || hex_of(number) != digits)
      fail_manifest(
          fmt::format("damaged: '{}' is '{}'; expected 16 hexadecimal digits", key, shortened(digits)));
    return number;
  }
  const Json& list(const char* key) const { return at(key, Json::value_t::array); }

 private:
  const Json& at(const char* key) const {
    const auto found = object_.find(key);
    if (found == object_.end()) fail_manifest(fmt::format("damaged: '{}' is missing", key));
    return *found;
  }
  const Json& at(const char* key, Json::value_t type) const {
    const Json& value = at(key);
    if (value.type() != type)
      fail_manifest(fmt::format("damaged: '{}' is of another kind: {}", key, value.type_name()));
    return value;
  }

  const Json& object_;
};

void check_kind(const Json& json) {
  const auto kind = json.is_object() ? json.find("kind") : json.end();
  if (!json.is_object() || kind == json.end() || *kind != kManifestKind)
    fail_manifest("is no manifest of a checkpoint");
  const std::uint64_t version = Members(json).natural("version");
  if (version > kManifestVersion)
    fail_manifest(
        fmt::format("version {} of a checkpoint's manifest; this program reads {}; use a newer gossamer",
                    version, kManifestVersion));
  if (version != kManifestVersion) fail_manifest(fmt::format("damaged: version {}", version));
}

void check_seal(std::string_view text) {
  const std::size_t size = seal_of({}).size();
  const std::string_view body = text.substr(0, text.size() - std::min(size, text.size()));
  if (text.substr(body.size()) != seal_of(body)) fail_manifest("damaged: it is not what was written");
}

CheckpointHead head_of(const Json& json) {
  const Members members(json);
  CheckpointHead head;
  head.peer = members.text("peer");
  std::unordered_set<std::string> distinct;
  for (const Json& name : members.list("peers")) {
    if (!name.is_string() || !names_a_peer(name.get_ref<const std::string&>()) ||
        !distinct.insert(name.get<std::string>()).second)
      fail_manifest("damaged: 'peers' holds what is no name, or one twice");
    head.peers.push_back(name.get<std::string>());
  }
  if (!distinct.contains(head.peer))
    fail_manifest(fmt::format("damaged: peer '{}' is none of its peers", shortened(head.peer)));
  head.round = members.natural("round");
  head.run = members.hex("run");
  head.share_done = members.number("share_done");
  head.epoch = members.number("epoch");
  head.job = members.text("job");
  head.learned = json.contains("learned");
  head.later_view = json.contains("later_view");
  for (const Json& figure : members.list("figures")) {
    const Members one(figure);
    head.figures.push_back({one.text("name"), one.number("value")});
  }
  return head;
}

std::vector<CheckpointFile> files_of(const Json& json, const std::string& peer) {
  std::vector<CheckpointFile> files;
  for (const Json& file : Members(json).list("files")) {
    const Members one(file);
    files.push_back({one.text("name"), one.natural("bytes"), one.hex("xxh3")});
  }
  if (files.size() != 2 || files[0].name != peer + kParametersSuffix || files[1].name != peer + kStateSuffix)
    fail_manifest(
        fmt::format("damaged: its files are not {0}{1} and {0}{2}", peer, kParametersSuffix, kStateSuffix));
  return files;
}

}  // namespace

std::uint64_t CheckpointEntry::bytes() const {
  std::uint64_t total = 0;
  for (const CheckpointFile& file : files) total += file.bytes;
  return total;
}

std::string to_json(const CheckpointEntry& entry) {
  const CheckpointHead& head = entry.head;
  Json json{{"kind", kManifestKind},
            {"version", kManifestVersion},
            {"peer", head.peer},
            {"round", head.round},
            {"run", hex_of(head.run)},
            {"share_done", number_json(head.share_done)},
            {"epoch", number_json(head.epoch)},
            {"figures", Json::array()},
            {"written", entry.written},
            {"files", Json::array()},
            {"peers", head.peers},
            {"job", head.job}};
  if (head.learned) json["learned"] = true;
  if (head.later_view) json["later_view"] = true;
  for (const optim::Figure& figure : head.figures)
    json["figures"].push_back({{"name", figure.name}, {"value", number_json(figure.value)}});
  for (const CheckpointFile& file : entry.files)
    json["files"].push_back({{"name", file.name}, {"bytes", file.bytes}, {"xxh3", hex_of(file.hash)}});
  std::string body = json.dump(1, ' ', false, Json::error_handler_t::replace);
  body.resize(body.size() - std::string_view("\n}").size());
  return body + seal_of(body);
}

CheckpointEntry parse_manifest(std::string_view json) {
  if (json.size() > kMostBytesOfManifest)
    fail_manifest(fmt::format("damaged: {} bytes; expected at most {}", json.size(), kMostBytesOfManifest));
  const Json parsed = Json::parse(json, nullptr, false);
  if (parsed.is_discarded()) fail_manifest("damaged: no JSON, or cut short");
  check_kind(parsed);
  check_seal(json);
  CheckpointEntry entry;
  entry.head = head_of(parsed);
  entry.files = files_of(parsed, entry.head.peer);
  entry.written = Members(parsed).text("written");
  return entry;
}

}  // namespace gossamer::node
