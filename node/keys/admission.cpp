#include "admission.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "gossamer/node/errors.h"

namespace gossamer::node {

bool AccessList::lists(const std::string& name) const {
  return std::any_of(allowed.begin(), allowed.end(), [&](const auto& entry) { return entry.second == name; });
}

bool AccessList::vouches() const { return authority && !revoked.contains(*authority); }

std::string_view text_of(Admitted admitted) {
  switch (admitted) {
    case Admitted::by_list:
      return "by the list";
    case Admitted::by_certificate:
      return "by a certificate";
    case Admitted::on_probation:
      return "it has shown no certificate yet";
    case Admitted::no_unlisted:
      return "its key is not listed";
    case Admitted::no_revoked:
      return "its key is revoked";
    case Admitted::no_authority:
      return "it is not listed, and the key of the authority that signs certificates is revoked";
    case Admitted::no_expired:
      return "its certificate has expired";
    case Admitted::no_forged:
      return "its certificate is not signed by this run's authority";
    case Admitted::no_other_key:
      return "its certificate is of another key";
    case Admitted::no_other_name:
      return "its certificate is of a name that is listed with a key of its own";
  }
  return "";
}

Admission admit(const AccessList& access, const PublicKey& key) {
  if (access.revoked.contains(key)) return {Admitted::no_revoked};
  if (const auto at = access.allowed.find(key); at != access.allowed.end())
    return {Admitted::by_list, at->second};
  if (!access.authority) return {Admitted::no_unlisted};
  return {access.vouches() ? Admitted::on_probation : Admitted::no_authority};
}

Admission admit(const AccessList& access, const PublicKey& key, const Certificate& certificate,
                std::int64_t now_s) {
  if (Admission first = admit(access, key); first.how != Admitted::on_probation) return first;
  if (!is_signed_by(certificate, *access.authority)) return {Admitted::no_forged};
  if (certificate.key != key) return {Admitted::no_other_key};
  if (certificate.not_after_s < now_s) return {Admitted::no_expired};
  if (access.lists(certificate.name)) return {Admitted::no_other_name};
  return {Admitted::by_certificate, certificate.name, certificate.not_after_s};
}

std::set<PublicKey> read_revocation_file(const std::string& path) {
  std::ifstream in(path);
  if (!in)
    throw ConfigError(
        fmt::format("{}: {}; expected a file of revoked keys, one a line", path, std::strerror(errno)));
  std::set<PublicKey> keys;
  std::string line;
  for (std::size_t number = 1; std::getline(in, line); ++number) {
    line.resize(std::min(line.find('#'), line.size()));
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos) continue;
    const std::string text = line.substr(begin, line.find_last_not_of(" \t\r") + 1 - begin);
    try {
      keys.insert(read_public_key(text));
    } catch (const std::invalid_argument& error) {
      throw ConfigError(fmt::format("{}:{}: {}", path, number, error.what()));
    }
  }
  if (in.bad()) throw ConfigError(fmt::format("{}: {}", path, std::strerror(errno)));
  return keys;
}

bool revoke(const std::string& path, const PublicKey& key, const std::string& word) {
  bool begun = false;  // a last line that has no end
  if (std::filesystem::exists(path)) {
    if (read_revocation_file(path).contains(key)) return false;
    std::ifstream in(path, std::ios::ate | std::ios::binary);
    if (in.tellg() > 0) {
      in.seekg(-1, std::ios::end);
      begun = in.get() != '\n';
    }
  }
  std::ofstream out(path, std::ios::app);
  if (begun) out << '\n';
  out << fmt::format("{}  # {}\n", text_of(key), word) << std::flush;
  if (!out) throw ConfigError(fmt::format("{}: {}", path, std::strerror(errno)));
  return true;
}

}  // namespace gossamer::node
