#include "check_access.h"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#include "gossamer/node/errors.h"
#include "public_key.h"
#include "text.h"

namespace gossamer::node::config {

void check_access(const Draft& draft) {
  const AccessSection& access = draft.job.access;
  std::map<PublicKey, std::string> names;
  for (const std::string& text : access.allow) {
    const std::size_t equals = text.find('=');
    const std::string where = draft.where("access.allow") + ": access.allow: ";
    if (equals == 0 || equals == std::string::npos)
      throw ConfigError(where + "found " + in_quotes(shortened(text)) + "; expected \"NAME=PUBLICKEY\"");
    const std::string name = text.substr(0, equals);
    try {
      const auto [at, first] =
          names.emplace(read_public_key(std::string_view(text).substr(equals + 1)), name);
      if (!first)
        throw ConfigError(where + "the key of '" + name + "' is that of '" + at->second +
                          "' already; expected a key of its own for each peer");
    } catch (const std::invalid_argument& error) {
      throw ConfigError(where + "'" + name + "': " + error.what());
    }
  }
  if (!access.authority.empty()) try {
      read_public_key(access.authority);
    } catch (const std::invalid_argument& error) {
      throw ConfigError(draft.where("access.authority") + ": access.authority: " + error.what());
    }
  for (const auto& [key, value] :
       {std::pair{"access.revoked", access.revoked}, std::pair{"access.key", access.key},
        std::pair{"access.certificate", access.certificate}})
    if (!value.empty() && !access.locked())
      throw ConfigError(
          draft.where(key) + ": " + key +
          " without access.allow or access.authority; expected one of these, which says who may speak");
  if (access.locked() && draft.job.run.insecure)
    throw ConfigError(draft.where("run.insecure") + ": run.insecure = true beside access." +
                      (access.allow.empty() ? "authority" : "allow") + "; expected one of the two");
  if (!access.locked()) return;
  for (const PeerEntry& peer : draft.job.peers) {
    if (peer.address.empty() && !access.authority.empty())
      continue;  // nobody dials it, and it may show a certificate
    if (std::none_of(names.begin(), names.end(),
                     [&](const auto& entry) { return entry.second == peer.name; }))
      throw ConfigError(draft.where("access.allow") + ": access.allow lists no key of peer '" + peer.name +
                        "'; expected \"" + peer.name + "=PUBLICKEY\", as 'gossamer keys new " + peer.name +
                        "' prints it");
  }
}

}  // namespace gossamer::node::config
