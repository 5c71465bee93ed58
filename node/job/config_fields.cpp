#include "config_fields.h"

#include <algorithm>
#include <cmath>
#include <concepts>
#include <filesystem>
#include <type_traits>

#include "hints.h"
#include "text.h"

namespace gossamer::node::config {
namespace {

using Kind = Value::Kind;
using Words = std::vector<std::string>;
using NamedNumbers = std::vector<std::pair<std::string, double>>;

/// Bytes of a text with a check of its own, which quotes it.
constexpr std::size_t kMostChecked = 1000;

/// What a message needs to know of a key.
struct Row {
  std::string name;
  const Constraint& rule;
  const Source& source;
};

[[noreturn]] void fail(const Value& value, const Row& row, const std::string& expected) {
  throw ConfigError(value.origin + ": " + row.name + " is " + describe(value) + "; expected " + expected);
}

std::string with_word(std::string type, const Constraint& rule) {
  return rule.word ? type + " or " + in_quotes(rule.word) : type;
}
/// "an integer of at least 1", "a number in (0, 1]".
std::string expected_number(std::string what, const Constraint& rule) {
  const Interval& range = rule.range;
  if (std::isfinite(range.low) && std::isfinite(range.high)) {
    what += std::string(" in ") + (range.open_low ? "(" : "[") + number_text(range.low) + ", " +
            number_text(range.high) + (range.open_high ? ")" : "]");
  } else if (std::isfinite(range.low)) {
    what += (range.open_low ? " above " : " of at least ") + number_text(range.low);
  }
  if (rule.quantity == Quantity::kSeconds) what += " in seconds, or a text such as \"5ms\"";
  if (rule.quantity == Quantity::kBytes) what += " of bytes, or a text such as \"256MB\"";
  if (rule.quantity == Quantity::kBandwidth) what += " in bit/s, or a text such as \"100mbit\"";
  return with_word(what, rule);
}

bool within(double x, const Interval& range) {
  return std::isfinite(x) && (range.open_low ? x > range.low : x >= range.low) &&
         (range.open_high ? x < range.high : x <= range.high);
}

// --- Reading, one overload for each type of a key ---

double number_of(const Value& value, const Row& row, const char* what = "a number") {
  double number = value.number;
  if (value.is(Kind::kString) && row.rule.quantity != Quantity::kPlain) {
    const auto quantity =
        row.rule.quantity == Quantity::kSeconds ? parse_duration(value.text) : parse_bandwidth(value.text);
    if (!quantity) fail(value, row, expected_number(what, row.rule));
    number = *quantity;
  } else if (!value.is(Kind::kNumber) && !value.is(Kind::kInteger)) {
    fail(value, row, expected_number(what, row.rule));
  }
  if (!within(number, row.rule.range)) fail(value, row, expected_number(what, row.rule));
  return number;
}

template <std::integral T>
T integer_of(const Value& value, const Row& row) {
  Constraint rule = row.rule;
  if (std::is_unsigned_v<T>) rule.range.low = std::max(rule.range.low, 0.0);
  if (value.is(Kind::kString) && rule.quantity == Quantity::kBytes)
    if (const auto bytes = parse_bytes(value.text);
        bytes && within(static_cast<double>(*bytes), rule.range) && std::in_range<T>(*bytes))
      return static_cast<T>(*bytes);
  if (!value.is(Kind::kInteger) || !within(value.number, rule.range) || !std::in_range<T>(value.integer))
    fail(value, row, expected_number("an integer", rule));
  return static_cast<T>(value.integer);
}

bool is_word(const Value& value, const Row& row) {
  return row.rule.word && value.is(Kind::kString) && value.text == row.rule.word;
}

void read(const Value& value, const Row& row, bool& out) {
  if (!value.is(Kind::kBoolean)) fail(value, row, "true or false");
  out = value.boolean;
}
void read(const Value& value, const Row& row, double& out) { out = number_of(value, row); }
template <std::integral T>
void read(const Value& value, const Row& row, T& out) {
  out = integer_of<T>(value, row);
}
void read(const Value& value, const Row& row, std::optional<double>& out) {
  if (is_word(value, row))
    out.reset();
  else
    out = number_of(value, row);
}
void read(const Value& value, const Row& row, std::optional<std::uint64_t>& out) {
  if (value.is(Kind::kList) && row.name == "peers")
    fail(value, row, "an integer; one table for each peer is [[peer]]");
  if (is_word(value, row))
    out.reset();
  else
    out = integer_of<std::uint64_t>(value, row);
}

std::string string_of(const Value& value, const Row& row) {
  if (value.is(Kind::kString)) return value.text;
  const bool scalar = !value.is(Kind::kList) && !value.is(Kind::kTable);
  if (value.from_override && scalar && !value.text.empty())
    return value.text;  // --set data.path=7 means the name
  if (row.rule.number_too && value.is(Kind::kInteger) && value.integer >= 0)
    return std::to_string(value.integer);
  std::string expected = "a string";
  if (row.rule.names) expected += " (" + join(row.rule.names(), ", ") + ")";
  fail(value, row, expected);
}

std::string resolved(const std::string& text, const Row& row, const Value& value) {
  namespace fs = std::filesystem;
  if (text.empty() || text == "-" || row.rule.path == Path::kNone) return text;
  const fs::path folder = value.from_override ? fs::path() : fs::path(row.source.folder);
  const fs::path joined = (folder / text).lexically_normal();
  if (row.rule.path == Path::kJoined) return joined.string();
  return fs::absolute(joined).lexically_normal().string();
}

void read(const Value& value, const Row& row, std::string& out) {
  const std::string text = string_of(value, row);
  if (row.rule.check) {
    if (text.size() > kMostChecked) fail(value, row, "at most " + std::to_string(kMostChecked) + " bytes");
    try {
      out = row.rule.check(text);
    } catch (const std::exception& error) {
      throw ConfigError(value.origin + ": " + row.name + ": " + message_with_hint(error));
    }
    return;
  }
  if (row.rule.names) {
    const Words names = row.rule.names();
    if (std::find(names.begin(), names.end(), text) == names.end())
      fail(value, row, "one of " + join(names, ", ") + did_you_mean(text, names));
  }
  out = resolved(text, row, value);
}

const std::vector<Value>& items_of(const Value& value, const Row& row, std::string_view expected) {
  if (!value.is(Kind::kList)) fail(value, row, std::string(expected));
  return value.items;
}

void read(const Value& value, const Row& row, std::vector<std::uint64_t>& out) {
  out.clear();
  for (const Value& item : items_of(value, row, "a list of integers, for example [256, 128]"))
    out.push_back(integer_of<std::uint64_t>(item, row));
}
void read(const Value& value, const Row& row, std::optional<std::vector<double>>& out) {
  if (is_word(value, row)) return out.reset();
  out.emplace();
  for (const Value& item :
       items_of(value, row, with_word("a list of numbers, for example [0.25, 0.05],", row.rule)))
    out->push_back(number_of(item, row));
}
void read(const Value& value, const Row& row, Words& out) {
  out.clear();
  for (const Value& item : items_of(value, row, "a list of strings")) out.push_back(string_of(item, row));
}
void read(const Value& value, const Row& row, NamedNumbers& out) {
  const std::string expected = "a list of name=number, for example [\"peer3=10\"]";
  out.clear();
  for (const Value& item : items_of(value, row, expected)) {
    const std::size_t equals = item.text.rfind('=');
    if (!item.is(Kind::kString) || equals == std::string::npos || equals == 0) fail(item, row, expected);
    double factor = 0;
    std::size_t used = 0;
    const std::string number = item.text.substr(equals + 1);
    try {
      factor = std::stod(number, &used);
    } catch (const std::logic_error&) {
      fail(item, row, expected);
    }
    if (used != number.size() || !within(factor, row.rule.range))
      fail(item, row, expected_number("a number", row.rule));
    out.emplace_back(item.text.substr(0, equals), factor);
  }
}
void read(const Value& value, const Row& row, std::vector<FaultWindow>& out) {
  const std::string expected = "a list of where@begin+length, for example [\"peer3@1.5s+500ms\"]";
  out.clear();
  for (const Value& item : items_of(value, row, expected)) {
    const std::size_t at = item.text.rfind('@');
    const std::size_t plus = at == std::string::npos ? at : item.text.find('+', at);
    if (!item.is(Kind::kString) || plus == std::string::npos || at == 0) fail(item, row, expected);
    const auto begin = parse_duration(item.text.substr(at + 1, plus - at - 1));
    const auto seconds = parse_duration(item.text.substr(plus + 1));
    if (!begin || !seconds || !(*begin >= 0) || !within(*seconds, row.rule.range)) fail(item, row, expected);
    out.push_back({item.text.substr(0, at), *begin, *seconds});
  }
}

EdgeEnd edge_end(const Value& value, const Row& row) {
  if (value.is(Kind::kString)) return {value.text, std::nullopt};
  if (!value.is(Kind::kInteger) || value.integer < 0) fail(value, row, "a peer's name, or its index from 0");
  return {"", static_cast<std::uint64_t>(value.integer)};
}
void read(const Value& value, const Row& row, std::vector<EdgeDraft>& out) {
  const std::string expected = "a list of edges, for example [[\"a\", \"b\"], [\"b\", \"c\", 0.3]]";
  out.clear();
  for (const Value& item : items_of(value, row, expected)) {
    if (!item.is(Kind::kList) || item.items.size() < 2 || item.items.size() > 3) fail(item, row, expected);
    EdgeDraft edge{item.origin, edge_end(item.items[0], row), edge_end(item.items[1], row), std::nullopt};
    if (item.items.size() == 3) {
      const Constraint weight{.range = {0, 1}};
      edge.weight = static_cast<float>(number_of(item.items[2], {row.name, weight, row.source}, "a weight"));
    }
    out.push_back(std::move(edge));
  }
}

// --- Documents ---

template <class Owner>
const Key<Owner>* find_key(std::span<const Key<Owner>> keys, const std::string& name) {
  const auto it = std::find_if(keys.begin(), keys.end(), [&](const auto& k) { return name == k.name; });
  return it == keys.end() ? nullptr : &*it;
}

template <class Owner>
void read_key(const Key<Owner>& key, const Value& value, const Source& source, Owner& owner) {
  const Row row{key.name, key.rule, source};
  std::visit([&](auto access) { read(value, row, access(owner)); }, key.field.access);
  owner.origins[key.name] = value.origin;
}

template <class Owner>
void add_names(std::span<const Key<Owner>> keys, Words& names) {
  for (const auto& key : keys) {
    names.emplace_back(key.name);
    const std::string section = names.back().substr(0, names.back().find('.'));
    if (std::find(names.begin(), names.end(), section) == names.end()) names.push_back(section);
  }
}

Words known_names(const Source& source) {
  Words names;
  if (source.job_keys) add_names(job_key_table(), names);
  if (source.topology_keys) {
    add_names(topology_key_table(), names);
    add_names(peer_key_table(), names);
    add_names(link_key_table(), names);
  }
  return names;
}

bool contains(const Words& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string last_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

/// Why a key is wrong here: it stands in another place, in the other file, or nowhere.
std::string unknown_key(const std::string& name, const Source& source) {
  const Words names = known_names(source);
  const std::string leaf = last_part(name);
  const bool job_file = source.job_keys;
  if (leaf != name && (leaf == "peers" || leaf == "base_port" || leaf == "topology"))
    return "unknown key '" + name + "'; '" + leaf + "' stands at the top of the file, before [" +
           name.substr(0, name.rfind('.')) + "]";
  const Words everywhere = known_names({});
  if (contains(everywhere, name))
    return job_file ? "'" + name + "' belongs to the topology, and this job takes that from " +
                          in_quotes(source.topology_path) + "; expected it there, or no 'topology' here"
                    : "'" + name +
                          "' belongs to a job file; expected keys of a topology file "
                          "(gossamer help topology lists every key)";
  std::string hint = did_you_mean(name, names);
  if (const auto same =
          std::find_if(names.begin(), names.end(), [&](const auto& n) { return last_part(n) == leaf; });
      same != names.end())
    hint = "; did you mean '" + *same + "'?";
  return "unknown key '" + shortened(name) + "'" + hint + " (gossamer help " +
         (job_file ? "job" : "topology") + " lists every key)";
}

template <class RowDraft>
void read_row(const Value& table, const std::string& section, std::span<const Key<RowDraft>> keys,
              const Source& source, RowDraft& row) {
  for (const Entry& entry : table.entries) {
    const std::string name = section + "." + entry.key;
    const auto* key = find_key(keys, name);
    if (!key) throw ConfigError(entry.origin + ": " + unknown_key(name, source));
    read_key(*key, entry.value, source, row);
  }
}

template <class RowDraft>
void read_rows(const Value& value, const std::string& section, std::span<const Key<RowDraft>> keys,
               const Source& source, std::vector<RowDraft>& out) {
  const std::string expected = "; expected tables, each under a line [[" + section + "]]";
  if (!value.is(Kind::kList))
    throw ConfigError(value.origin + ": " + section + " is " + describe(value) + expected);
  out.clear();
  for (const Value& item : value.items) {
    if (!item.is(Kind::kTable))
      throw ConfigError(item.origin + ": " + section + " holds " + describe(item) + expected);
    RowDraft& row = out.emplace_back();
    row.origin = item.origin;
    read_row(item, section, keys, source, row);
  }
}

void read_table(const Value& table, const std::string& prefix, const Source& source, const Words& names,
                Draft& draft) {
  for (const Entry& entry : table.entries) {
    const std::string name = prefix + entry.key;
    const Key<Draft>* key = source.job_keys ? find_key(job_key_table(), name) : nullptr;
    if (!key && source.topology_keys) key = find_key(topology_key_table(), name);
    if (key) {
      read_key(*key, entry.value, source, draft);
    } else if (is_of_each_peer(entry) && source.topology_keys) {
      draft.of_each_peer.push_back(entry.value);
    } else if (name == "peer" && source.topology_keys) {
      read_rows(entry.value, name, peer_key_table(), source, draft.peers);
      draft.origins[name] = entry.origin;
    } else if (name == "link" && source.topology_keys) {
      read_rows(entry.value, name, link_key_table(), source, draft.links);
    } else if (contains(names, name) && name.find('.') == std::string::npos) {
      if (!entry.value.is(Kind::kTable))
        throw ConfigError(entry.origin + ": " + name + " is " + describe(entry.value) +
                          "; expected a table [" + name + "]");
      read_table(entry.value, name + ".", source, names, draft);
    } else {
      throw ConfigError(entry.origin + ": " + unknown_key(name, source));
    }
  }
}

}  // namespace

bool is_of_each_peer(const Entry& entry) {
  return entry.key == "peer" && entry.value.from_override && entry.value.is(Kind::kTable);
}

void read_peer(const Value& table, PeerDraft& peer) { read_row(table, "peer", peer_key_table(), {}, peer); }

std::string Written::where(const std::string& key) const {
  const auto it = origins.find(key);
  return it == origins.end() ? origin : it->second;
}

void read_keys(const Value& document, const Source& source, Draft& draft) {
  read_table(document, "", source, known_names(source), draft);
}

bool is_job_document(const Value& document) {
  const Words topology = known_names({.job_keys = false});
  Words job;
  add_names(job_key_table(), job);
  return std::any_of(document.entries.begin(), document.entries.end(),
                     [&](const Entry& e) { return contains(job, e.key) && !contains(topology, e.key); });
}

}  // namespace gossamer::node::config
