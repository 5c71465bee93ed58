#include <algorithm>
#include <concepts>
#include <type_traits>

#include "config_draft.h"
#include "config_fields.h"
#include "text.h"

namespace gossamer::node::config {
namespace {

using Words = std::vector<std::string>;
using Text = std::optional<std::string>;

// --- What a type is called ---

std::string with_word(std::string type, const Constraint& rule) {
  return rule.word ? type + " or " + in_quotes(rule.word) : type;
}
std::string number_type(const Constraint& rule) {
  if (rule.quantity == Quantity::kSeconds) return "number or \"5ms\"";
  if (rule.quantity == Quantity::kBandwidth) return "number or \"100mbit\"";
  return "number";
}

template <class T>
std::string type_text(const Constraint& rule) {
  if constexpr (std::same_as<T, std::string>)
    return "string";
  else if constexpr (std::same_as<T, bool>)
    return "boolean";
  else if constexpr (std::integral<T>)
    return rule.quantity == Quantity::kBytes ? "integer or \"256MB\"" : "integer";
  else if constexpr (std::same_as<T, double>)
    return number_type(rule);
  else if constexpr (std::same_as<T, std::optional<std::uint64_t>>)
    return with_word("integer", rule);
  else if constexpr (std::same_as<T, std::optional<double>>)
    return with_word(number_type(rule), rule);
  else if constexpr (std::same_as<T, std::vector<std::uint64_t>>)
    return "list of integers";
  else if constexpr (std::same_as<T, std::vector<EdgeDraft>>)
    return "list of edges";
  else if constexpr (std::same_as<T, std::optional<std::vector<double>>>)
    return with_word("list of numbers", rule);
  else
    return "list of strings";
}

// --- Printing, one overload for each type; nothing = leave the key out ---

std::string number_print(double value, const Constraint& rule) {
  return rule.quantity == Quantity::kBandwidth ? in_quotes(bandwidth_text(value)) : number_text(value);
}
Text print(const std::string& value, const Constraint&) { return in_quotes(value); }
Text print(bool value, const Constraint&) { return value ? "true" : "false"; }
Text print(double value, const Constraint& rule) { return number_print(value, rule); }
template <std::integral T>
Text print(const T& value, const Constraint&) {
  return std::to_string(value);
}
std::string print_end(const EdgeEnd& end) {
  return end.index ? std::to_string(*end.index) : in_quotes(end.name);
}
Text print_item(const std::string& value) { return in_quotes(value); }
Text print_item(std::uint64_t value) { return std::to_string(value); }
Text print_item(double value) { return number_text(value); }
Text print_item(const std::pair<std::string, double>& slow) {
  return in_quotes(slow.first + "=" + number_text(slow.second));
}
Text print_item(const FaultWindow& window) {
  return in_quotes(window.where + "@" + number_text(window.begin) + "s+" + number_text(window.seconds) + "s");
}
Text print_item(const EdgeDraft& edge) {
  const std::string weight = edge.weight ? ", " + number_text(*edge.weight) : "";
  return "[" + print_end(edge.from) + ", " + print_end(edge.to) + weight + "]";
}
template <class T>
Text print(const std::vector<T>& list, const Constraint&) {
  Words items;
  for (const T& item : list) items.push_back(*print_item(item));
  return "[" + join(items, ", ") + "]";
}
template <class T>
Text print(const std::optional<T>& value, const Constraint& rule) {
  if (value) return print(*value, rule);
  return rule.word ? Text(in_quotes(rule.word)) : std::nullopt;
}

template <class Owner>
Text print_key(const Key<Owner>& key, Owner& owner) {
  return std::visit([&](auto access) -> Text { return print(access(owner), key.rule); }, key.field.access);
}

std::string last_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

bool learns_by_key(const Draft& draft) { return draft.job.learns_by_key(); }
template <class Owner>
bool learns_by_key(const Owner&) {
  return false;
}

template <class Owner>
void print_section(std::span<const Key<Owner>> keys, Owner owner, bool shared_only, std::string section,
                   std::string& out) {
  for (const Key<Owner>& key : keys) {
    if (key.rule.scope == Scope::kInput || (shared_only && key.rule.scope != Scope::kShared)) continue;
    if (key.rule.of_samples && !learns_by_key(owner)) continue;
    const Text value = print_key(key, owner);
    if (!value) continue;
    const std::string name = key.name;
    const std::size_t dot = name.find('.');
    if (dot != std::string::npos && name.substr(0, dot) != section) {
      section = name.substr(0, dot);
      out += "\n[" + section + "]\n";
    }
    out += last_part(name) + " = " + *value + "\n";
  }
}

template <class Owner>
void add_help(std::span<const Key<Owner>> keys, std::vector<KeyHelp>& out) {
  Owner defaults;
  for (const Key<Owner>& key : keys) {
    std::string type = std::visit(
        [&](auto access) { return type_text<std::remove_cvref_t<decltype(access(defaults))>>(key.rule); },
        key.field.access);
    std::string help = key.help;
    if (key.rule.names) help += "; one of " + join(key.rule.names(), ", ");
    out.push_back({key.name, std::move(type), print_key(key, defaults).value_or(""), key.rule.unit, help});
  }
}

}  // namespace

namespace {

constexpr std::size_t kTopLevelKeys = 3;  ///< of the topology: they stand before any table

void print_graph_and_peers(const Draft& draft, bool shared_only, std::string& out) {
  print_section(topology_key_table().subspan(kTopLevelKeys), draft, shared_only, "", out);
  for (const PeerDraft& peer : draft.peers) {
    out += "\n[[peer]]\n";
    print_section(peer_key_table(), peer, shared_only, "peer", out);
  }
  for (const LinkDraft& link : draft.links) {
    if (shared_only) break;
    out += "\n[[link]]\n";
    print_section(link_key_table(), link, shared_only, "link", out);
  }
}

}  // namespace

std::string print_keys(const Draft& draft, bool shared_only) {
  std::string out;
  print_section(topology_key_table().first(kTopLevelKeys), draft, shared_only, "", out);
  print_section(job_key_table(), draft, shared_only, "", out);
  print_graph_and_peers(draft, shared_only, out);
  return out;
}

std::string print_topology_keys(const Draft& draft) {
  std::string out;
  print_section(topology_key_table().first(kTopLevelKeys), draft, false, "", out);
  print_graph_and_peers(draft, false, out);
  return out.substr(out.find_first_not_of('\n'));
}

std::string value_text(const Key<Draft>& key, Draft& draft) { return print_key(key, draft).value_or(""); }

void reset_key(std::string_view name, Draft& draft) {
  Draft defaults;
  for (const auto& table : {job_key_table(), topology_key_table()})
    for (const Key<Draft>& key : table)
      if (name == key.name)
        std::visit([&](auto access) { access(draft) = access(defaults); }, key.field.access);
}

std::vector<KeyHelp> help_of_job() {
  std::vector<KeyHelp> keys;
  add_help(job_key_table(), keys);
  return keys;
}

std::vector<KeyHelp> help_of_topology() {
  std::vector<KeyHelp> keys;
  add_help(topology_key_table(), keys);
  add_help(peer_key_table(), keys);
  add_help(link_key_table(), keys);
  return keys;
}

}  // namespace gossamer::node::config

namespace gossamer::node {

std::string to_toml(const Job& job, bool shared_only) {
  return config::print_keys(config::draft_of(job, shared_only), shared_only);
}

std::string access_toml(const Job& job) {
  if (!job.access.locked()) return {};
  std::vector<std::string> allow;
  for (const std::string& entry : job.access.allow) allow.push_back(in_quotes(entry));
  return "[access]\nallow = [" + join(allow, ", ") + "]\nauthority = " + in_quotes(job.access.authority) +
         "\n";
}

std::string to_topology_toml(const Job& job) {
  return config::print_topology_keys(config::draft_of(job, false));
}

std::vector<KeyHelp> job_keys() { return config::help_of_job(); }
std::vector<KeyHelp> topology_keys() { return config::help_of_topology(); }

}  // namespace gossamer::node
