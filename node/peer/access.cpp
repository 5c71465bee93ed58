#include "access.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>

#include "endpoint.h"
#include "gossamer/node/errors.h"

namespace gossamer::node {
AccessList access_of(const Job& job) {
  AccessList access;
  for (const auto& [name, keys] : listed_keys(job))
    for (const PublicKey& key : keys) access.allowed.emplace(key, name);
  if (!job.access.authority.empty()) access.authority = read_public_key(job.access.authority);
  if (!job.access.revoked.empty()) access.revoked = read_revocation_file(job.access.revoked);
  return access;
}

std::map<std::string, std::vector<PublicKey>> listed_keys(const Job& job) {
  std::map<std::string, std::vector<PublicKey>> keys;
  for (const std::string& text : job.access.allow) {
    const std::size_t equals = text.find('=');
    keys[text.substr(0, equals)].push_back(read_public_key(text.substr(equals + 1)));
  }
  return keys;
}

std::map<std::string, std::vector<PublicKey>> dialled_keys(const Job& job) {
  const AccessList access = access_of(job);
  auto keys = listed_keys(job);
  for (auto& [name, some] : keys)
    std::erase_if(some, [&](const PublicKey& k) { return access.revoked.contains(k); });
  return keys;
}

std::string key_file(const Job& job, const std::string& name) {
  return job.access.key.empty() ? name + ".key" : job.access.key;
}
std::string certificate_file(const Job& job, const std::string& name) {
  if (!job.access.certificate.empty()) return job.access.certificate;
  const std::string file = name + ".cert";
  return std::filesystem::exists(file) ? file : "";
}

std::optional<Locks> locks_of(const Job& job, const std::string& name) {
  if (!job.access.locked()) return std::nullopt;
  const AccessList access = access_of(job);
  const std::string file = key_file(job, name);
  Locks locks{.own = std::make_shared<const KeyPair>(read_key_file(file)),
              .gate = std::make_shared<Gate>(access)};
  locks.keys = dialled_keys(job);
  if (locks.own->kind != KeyKind::peer)
    throw ConfigError(
        fmt::format("{}: an authority's key; expected a peer's: gossamer keys new {}", file, name));
  const std::string certificate = certificate_file(job, name);
  if (access.authority && !certificate.empty()) locks.certificate = read_certificate_file(certificate);
  const Admission own = locks.certificate
                            ? admit(access, locks.own->public_key, *locks.certificate, unix_now_s())
                            : admit(access, locks.own->public_key);
  const std::string found = fmt::format("{} ({})", file, text_of(locks.own->public_key));
  if (!own.admitted())
    throw ConfigError(fmt::format(
        "{}: others would not let this peer in: {}; expected {}", found, text_of(own.how),
        access.authority ? fmt::format("a certificate in {}.cert: gossamer keys sign", name)
                         : fmt::format("access.allow with \"{}={}\"", name, text_of(locks.own->public_key))));
  if (own.name != name)
    throw ConfigError(fmt::format("{}: is the key of '{}'; expected that of '{}'", found, own.name, name));
  return locks;
}

std::optional<ClientKeys> client_keys(const MemberAddress& member, const std::string& key_file,
                                      const std::string& certificate) {
  if (!member.key) return std::nullopt;
  ClientKeys keys{std::make_shared<const KeyPair>(read_key_file(key_file)), *member.key};
  if (!certificate.empty()) keys.certificate = read_certificate_file(certificate);
  return keys;
}

void refuse_opening(const Job& before, const Job& after) {
  if (before.access.locked() != after.access.locked())
    throw ConfigError("found [access] in one of the two jobs alone; expected it before and after, or never");
}

void refuse_open(const Job& job, const std::string& what, const std::string& address) {
  if (job.access.locked() || job.run.insecure || address.empty() || is_loopback(endpoint_of(address).host))
    return;
  throw ConfigError(fmt::format(
      "{} is at {}, where other machines reach it, and nothing says who may speak; expected [access] with "
      "allow or "
      "authority (gossamer keys new), or run.insecure = true where every machine of that network is trusted",
      what, address));
}

}  // namespace gossamer::node
