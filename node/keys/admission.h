#pragma once
// Admission decides who may speak, and under what name; the same rules stand behind connections and messages.
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "certificate.h"
#include "public_key.h"

namespace gossamer::node {

/// What a run's files say. A name may have several keys: while a peer changes its key, both.
struct AccessList {
  std::map<PublicKey, std::string> allowed{};  ///< names by key
  std::optional<PublicKey> authority{};        ///< whose certificates admit peers
  std::set<PublicKey> revoked{};               ///< goes before all else

  bool lists(const std::string& name) const;
  /// There is an authority, and its own key is not revoked.
  bool vouches() const;
};

enum class Admitted {
  by_list,
  by_certificate,
  on_probation,  ///< not listed, but an authority may vouch for it: nothing but a certificate is read
  no_unlisted,   ///< neither listed, nor is there an authority
  no_revoked,
  no_authority,  ///< not listed, and the authority's own key is revoked
  no_expired,    ///< the certificate is over
  no_forged,     ///< not signed by the authority
  no_other_key,  ///< the certificate is of another key than the connection's
  no_other_name  ///< of a name that the list gives to a key of its own
};
/// For logs: "its key is revoked".
std::string_view text_of(Admitted admitted);

struct Admission {
  Admitted how = Admitted::no_unlisted;
  std::string name{};                     ///< under which it may speak; empty where it may not
  std::optional<std::int64_t> until_s{};  ///< Unix time, where a certificate admits it

  bool admitted() const { return how == Admitted::by_list || how == Admitted::by_certificate; }
};

/// Of a connection that proved that it has this key.
Admission admit(const AccessList& access, const PublicKey& key);
/// Of one that has shown a certificate; now_s: Unix time.
Admission admit(const AccessList& access, const PublicKey& key, const Certificate& certificate,
                std::int64_t now_s);

/// A file of revoked keys, one a line, with what stands behind '#' left out. Throws ConfigError with
/// path:line where a line is none.
std::set<PublicKey> read_revocation_file(const std::string& path);
/// Adds a key, and a word about it, where it is not there already (false); makes the file where there is
/// none.
bool revoke(const std::string& path, const PublicKey& key, const std::string& word);

}  // namespace gossamer::node
