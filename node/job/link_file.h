#pragma once
// A link file holds measured links: TOML with [[link]] and [[peer]] tables, or matrices in CSV.
#include <string>
#include <vector>

#include "config_keys.h"

namespace gossamer::node::config {

struct LinkTableFile {
  std::vector<LinkDraft> links;
  std::vector<PeerDraft> peers;  ///< name and uplink
};

/// By the ending of the path: .csv, else TOML that holds [[link]] tables, [[peer]] tables with name and
/// uplink, and nothing else.
///
/// A CSV file holds square matrices, each with a line of names above and a name in front of every
/// row; the first word says what it is:
///     bandwidth,alpha,beta,gamma
///     alpha,,100mbit,20mbit
///     beta,100mbit,,1e7
///     gamma,20mbit,1e7,
///     latency,alpha,beta,gamma
///     …
///     uplink,alpha,beta,gamma
///     all,100mbit,20mbit,20mbit
/// The last has one row: what each peer sends to all others at once.
/// Numbers are bit/s and seconds, texts such as 100mbit and 5ms. An empty cell says nothing. A [[link]] is
/// both directions, so that a matrix must be symmetric. Throws ConfigError with file and line.
LinkTableFile read_links(const std::string& path);

}  // namespace gossamer::node::config
