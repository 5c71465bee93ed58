#pragma once
// The keys of job and topology files: one table that drives reading, checking, printing and help
// (config_fields.h).
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "config_document.h"
#include "gossamer/node/job.h"

namespace gossamer::node::config {

/// Where the keys of a table were written, for messages about how they fit together.
struct Written {
  std::string origin;
  std::map<std::string, std::string> origins;  ///< by full key
  /// Of the key where it was written, else of the table.
  std::string where(const std::string& key) const;
};

struct EdgeEnd {
  std::string name;
  std::optional<std::uint64_t> index;  ///< instead of the name
};
struct EdgeDraft {
  std::string origin;
  EdgeEnd from, to;
  std::optional<float> weight;
};
struct PeerDraft : Written {
  PeerEntry entry;
};
struct LinkDraft : Written {
  std::vector<std::string> between;
  std::optional<double> bandwidth, latency;
};

/// A job as written, before names are looked up and the files that it names are read.
struct Draft : Written {
  Job job;
  std::string topology;                ///< path of the topology file, joined to the job file's folder
  std::string link_file;               ///< path of a table of links
  std::optional<std::uint64_t> count;  ///< peers = 4
  std::vector<EdgeDraft> edges;
  std::vector<PeerDraft> peers;
  std::vector<Value> of_each_peer;  ///< tables of keys of a peer
  std::vector<LinkDraft> links;
};

enum class Scope {
  kShared,
  kLocal,
  kInput
};  ///< local: may differ between peers; input: read, never printed
enum class Quantity { kPlain, kSeconds, kBandwidth, kBytes };
enum class Path {
  kNone,
  kAbsolute,
  kJoined
};  ///< relative to the file; made absolute, or joined to its folder

constexpr double kInfinity = std::numeric_limits<double>::infinity();
struct Interval {
  double low = -kInfinity, high = kInfinity;
  bool open_low = false, open_high = false;
};

/// What a key demands of its value beyond the type, and how help shows it.
struct Constraint {
  const char* unit = "";
  Interval range{};  ///< of a number, or of each number in a list
  Scope scope = Scope::kShared;
  Quantity quantity = Quantity::kPlain;
  const char* word = nullptr;                     ///< what an empty optional is called in a file
  std::vector<std::string> (*names)() = nullptr;  ///< the choices
  std::string (*check)(const std::string&) =
      nullptr;  ///< gives the canonical value or throws; default: in names
  Path path = Path::kNone;
  bool of_samples = false;  ///< makes a difference to models of sparse samples alone; printed of these alone
  bool number_too = false;  ///< a string that may be written as an integer
};

/// Where the value stands in its owner; the type of the reference is the type of the key. One function may
/// serve several keys, which differ in what they hand to it.
template <class Owner>
struct Field {
  template <class T>
  struct To {
    T& (*at)(Owner&, const void*);
    const void* which;
    T& operator()(Owner& owner) const { return at(owner, which); }
  };
  std::variant<To<std::string>, To<bool>, To<std::uint64_t>, To<std::uint16_t>, To<int>, To<double>,
               To<std::optional<std::uint64_t>>, To<std::optional<double>>, To<std::vector<std::uint64_t>>,
               To<std::vector<std::string>>, To<std::vector<std::pair<std::string, double>>>,
               To<std::optional<std::vector<double>>>, To<std::vector<FaultWindow>>,
               To<std::vector<EdgeDraft>>>
      access;
  template <class T>
  constexpr Field(T& (*at)(Owner&, const void*), const void* which = nullptr) : access(To<T>{at, which}) {}
};

template <class Owner>
struct Key {
  const char* name;  ///< in full: "exchange.codec"
  const char* help;
  Field<Owner> field;
  Constraint rule{};
};

/// Of [exchange] the keys of all methods, then those that belong to single ones (OwnKey).
std::span<const Key<Draft>> job_key_table();
std::span<const Key<Draft>> topology_key_table();
std::span<const Key<Draft>> run_keys();
/// Of models of sparse samples: those of one section, "model." "data." or "table.".
std::vector<Key<Draft>> sparse_keys(std::string_view section);
std::span<const Key<PeerDraft>> peer_key_table();
std::span<const Key<LinkDraft>> link_key_table();

}  // namespace gossamer::node::config
