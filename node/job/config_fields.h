#pragma once
// These functions read and print drafts by the table of keys.
#include <string>
#include <string_view>

#include "config_document.h"
#include "config_keys.h"

namespace gossamer::node::config {

/// Which keys a document may hold, and what its paths are relative to.
struct Source {
  std::string folder{};  ///< "" = the working directory
  bool job_keys = true;
  bool topology_keys = true;
  std::string topology_path{};  ///< of a job that names one; for the message
};

/// Copies a document's values into the draft, checking keys, types, ranges and names. A later call overwrites
/// what an earlier one read; lists of tables are replaced. Throws ConfigError for the first wrong entry.
void read_keys(const Value& document, const Source& source, Draft& draft);

/// --set peer.KEY=VALUE, which holds for every peer.
bool is_of_each_peer(const Entry& entry);
void read_peer(const Value& table, PeerDraft& peer);

/// True where a top-level key of the document belongs into job files only.
bool is_job_document(const Value& document);

/// The draft's values as TOML, in the order of the tables; see to_toml.
std::string print_keys(const Draft& draft, bool shared_only);

/// Peers, graph and links alone; see to_topology_toml.
std::string print_topology_keys(const Draft& draft);

/// A key's value in the draft, as TOML; the draft stays as it is.
std::string value_text(const Key<Draft>& key, Draft& draft);
/// Gives the key of that name its default.
void reset_key(std::string_view name, Draft& draft);

std::vector<KeyHelp> help_of_job();
std::vector<KeyHelp> help_of_topology();

}  // namespace gossamer::node::config
