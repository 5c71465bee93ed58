// gossamer keys: makes the keys by which peers know each other, shows them, signs and revokes them.
#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "admission.h"
#include "certificate.h"
#include "commands.h"
#include "flags.h"
#include "gossamer/node/errors.h"
#include "key_file.h"
#include "text.h"

namespace gossamer::node {
namespace {

namespace fs = std::filesystem;
constexpr double kDay_s = 86400, kMostDays = 36525;

struct KeysFlags {
  std::string name, out, file, key, why;
  std::vector<std::string> files;
  double days = 365;
  bool authority = false, json = false;
};

std::string check_name(const std::string& name) {
  if (!names_a_peer(name))
    throw ConfigError(fmt::format("found {}; expected a name of {}", in_quotes(shortened(name)), kPeerName));
  return name;
}

/// Digits, or a file of a key or a certificate.
PublicKey key_of(const std::string& text) {
  if (const auto key = public_key_of(text)) return *key;
  if (!fs::exists(text))
    throw ConfigError(
        fmt::format("found {}; expected a public key (64 hexadecimal digits) or a file of a key",
                    in_quotes(shortened(text))));
  return read_key_file(text).public_key;
}

void make_key(const KeysFlags& flags) {
  const std::string name = check_name(flags.name);
  const KeyKind kind = flags.authority ? KeyKind::authority : KeyKind::peer;
  const KeyPair pair = make_key_pair(kind, name);
  const std::string path = flags.out.empty() ? name + ".key" : flags.out;
  write_key_file(path, pair);
  fmt::print("{}\n", text_of(pair.public_key));
  tell(fmt::format(
      "the secret key is in {} (mode 0600) and stays on this machine; the line above is the public key",
      path));
}

bool looks_like_certificate(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  while (std::getline(in, line))
    if (!line.empty() && line.front() != '#') return certificate_of(line).has_value();
  return false;
}

nlohmann::ordered_json shown(const std::string& path) {
  if (looks_like_certificate(path)) {
    const Certificate c = read_certificate_file(path);
    return {{"file", path},
            {"kind", "certificate"},
            {"name", c.name},
            {"public", text_of(c.key)},
            {"until", time_text(c.not_after_s)},
            {"expired", c.not_after_s < unix_now_s()}};
  }
  const KeyPair pair = read_key_file(path);
  return {{"file", path},
          {"kind", std::string(name_of(pair.kind))},
          {"name", pair.name},
          {"public", text_of(pair.public_key)}};
}

void show_keys(const KeysFlags& flags) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const std::string& path : flags.files) all.push_back(shown(path));
  if (flags.json) {
    fmt::print("{}\n", all.dump(2));
    return;
  }
  for (const auto& one : all)
    fmt::print("{}  {} {}{}\n", one["public"].get<std::string>(), one["kind"].get<std::string>(),
               one["name"].get<std::string>(),
               one.contains("until")
                   ? fmt::format(", {} {}", one["expired"].get<bool>() ? "expired on" : "until",
                                 one["until"].get<std::string>())
                   : "");
}

void sign_key(const KeysFlags& flags) {
  const KeyPair authority = read_key_file(flags.file);
  if (authority.kind != KeyKind::authority)
    throw ConfigError(fmt::format(
        "{}: a peer's key; expected an authority's: gossamer keys new NAME --authority", flags.file));
  const std::string name = check_name(flags.name);
  const auto until = unix_now_s() + static_cast<std::int64_t>(flags.days * kDay_s);
  const PublicKey key = key_of(flags.key);
  if (key == authority.public_key)
    throw ConfigError(fmt::format("{}: the authority's own key; expected a peer's", flags.key));
  const Certificate c = sign_certificate(authority, name, key, until);
  if (flags.out.empty()) {
    fmt::print("{}\n", text_of(c));
    tell(fmt::format("admits {} until {}; give it to that peer (its file: NAME.cert beside the key)", name,
                     time_text(until)));
    return;
  }
  write_certificate_file(flags.out, c);
  tell(fmt::format("{}: admits {} until {}", flags.out, name, time_text(until)));
}

void revoke_key(const KeysFlags& flags) {
  const PublicKey key = key_of(flags.key);
  const std::string when = time_text(unix_now_s());
  const std::string word =
      flags.why.empty() ? "revoked " + when : fmt::format("revoked {}: {}", when, flags.why);
  if (!is_plain(word) || word.find('\n') != std::string::npos)
    throw ConfigError("--why: expected one line of plain text");
  tell(revoke(flags.file, key, word) ? fmt::format("{}: {} is revoked", flags.file, text_of(key))
                                     : fmt::format("{}: {} was revoked before", flags.file, text_of(key)));
}

}  // namespace

void add_keys_command(CLI::App& app) {
  auto* command =
      app.add_subcommand("keys", "Make, show, sign and revoke the keys by which peers know each other");
  command->require_subcommand(1);
  auto flags = std::make_shared<KeysFlags>();

  auto* make = command->add_subcommand("new", "Make a key; its public half is printed");
  make->add_option("NAME", flags->name, "the peer's name, or what an authority calls itself")->required();
  make->add_flag("--authority", flags->authority, "a key that signs peers' certificates");
  make->add_option("--out", flags->out, "file of the secret key (default: NAME.key)");
  make->callback([flags] { make_key(*flags); });

  auto* show = command->add_subcommand("show", "What keys and certificates say; never the secret");
  show->add_option("FILE", flags->files, "key files, certificates")->required();
  show->add_flag("--json", flags->json, "print one JSON array");
  show->callback([flags] { show_keys(*flags); });

  auto* sign = command->add_subcommand("sign", "Admit a peer's key for some time");
  sign->add_option("AUTHORITY", flags->file, "key file of the authority")->required();
  sign->add_option("KEY", flags->key, "the peer's public key, or its key file")->required();
  sign->add_option("--name", flags->name, "under which the peer may speak")->required();
  sign->add_option("--days", flags->days, "for which it is admitted")
      ->check(within(1e-5, kMostDays))
      ->capture_default_str();
  sign->add_option("--out", flags->out, "file of the certificate (default: it is printed)");
  sign->callback([flags] { sign_key(*flags); });

  auto* cancel = command->add_subcommand("revoke", "Add a key to a file of keys that admit nobody");
  cancel->add_option("FILE", flags->file, "the file of revoked keys; made where there is none")->required();
  cancel->add_option("KEY", flags->key, "the public key, or a key file")->required();
  cancel->add_option("--why", flags->why, "a word for those who read the file");
  cancel->callback([flags] { revoke_key(*flags); });
}

}  // namespace gossamer::node
