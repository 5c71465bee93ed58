// gossamer status: how a running peer sees its run.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "access.h"
#include "commands.h"
#include "flags.h"
#include "gossamer/node/errors.h"
#include "status_client.h"

namespace gossamer::node {
namespace {

struct StatusFlags {
  std::string address, key, certificate;
  double timeout = 3;
  bool json = false;
};

constexpr const char* kStandings[] = {"alive", "suspect", "dead", "left", "waiting"};
const char* standing_text(const StatusBody::Member& m) {
  return kStandings[static_cast<std::size_t>(m.standing)];
}

std::string duration_text(double seconds) {
  const auto s = static_cast<std::uint64_t>(std::clamp(seconds, 0.0, 1e9));
  if (s < 60) return fmt::format("{} s", s);
  return s < 3600 ? fmt::format("{}:{:02} min", s / 60, s % 60)
                  : fmt::format("{}:{:02} h", s / 3600, s / 60 % 60);
}

std::string json_of(const StatusBody& s) {
  nlohmann::ordered_json members = nlohmann::ordered_json::array();
  for (const auto& m : s.members) {
    nlohmann::ordered_json j{{"name", m.name},           {"address", m.address}, {"status", standing_text(m)},
                             {"since", m.since_s},       {"start", m.start},     {"in_view", m.in_view},
                             {"neighbour", m.neighbour}, {"staleness", nullptr}};
    if (m.staleness) j["staleness"] = *m.staleness;
    members.push_back(std::move(j));
  }
  nlohmann::ordered_json j{{"run", s.run},
                           {"peer", s.peer},
                           {"method", s.method},
                           {"codec", s.codec},
                           {"graph", s.graph},
                           {"view", fmt::format("{:016x}", s.view)},
                           {"attempt", s.attempt},
                           {"training", s.trains},
                           {"waits", s.waits},
                           {"round", s.round},
                           {"share_done", s.share_done},
                           {"epoch", s.epoch},
                           {"loss", nullptr},
                           {"local_health", s.health},
                           {"peers", s.peers},
                           {"members", std::move(members)}};
  if (s.loss) j["loss"] = *s.loss;
  return j.dump();
}

std::string table_of(const StatusBody& s) {
  const auto here =
      std::count_if(s.members.begin(), s.members.end(), [](const auto& m) { return m.in_view; });
  std::string text = fmt::format(
      "{}: {}, {}, {}; as {} sees it\n{} of {} peers in view {:016x}{}; round {}, {:.1f} % done, epoch "
      "{:.1f}{}",
      s.run, s.method, s.codec.substr(0, s.codec.find(':')), s.graph, s.peer, here, s.peers, s.view,
      s.trains ? "" : ", which has not begun yet", s.round, 100 * s.share_done, s.epoch,
      s.loss ? fmt::format(", loss {:.4f}", *s.loss) : "");
  text += fmt::format("; local health {}\n", s.health);
  if (!s.waits.empty()) text += s.waits + "\n";
  text += fmt::format("{:<16} {:<8} {:>10} {:<5} {:>9}  {:<18} {}\n", "peer", "status", "for", "view",
                      "staleness", "start", "address");
  for (const auto& m : s.members)
    text += fmt::format("{:<16} {:<8} {:>10} {:<5} {:>9}  {:<18} {}\n", m.name, standing_text(m),
                        duration_text(m.since_s), m.in_view ? "yes" : "no",
                        m.staleness   ? std::to_string(*m.staleness)
                        : m.neighbour ? "none yet"
                                      : "",
                        m.start, m.address);
  if (s.members.size() < s.peers) text += fmt::format("and {} more\n", s.peers - s.members.size());
  return text;
}

}  // namespace

void add_status_command(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("status", "Ask a running peer who takes part, and how far its run is");
  const auto flags = std::make_shared<StatusFlags>();
  command
      ->add_option("ADDRESS", flags->address,
                   "where the peer listens: tcp://host:port, or tcp://host:port#PUBLICKEY")
      ->required();
  command->add_flag("--json", flags->json, "print one JSON object instead of a table");
  command->add_option("--key", flags->key,
                      "key file of a peer that is let in there, where the run is closed to others");
  command->add_option("--certificate", flags->certificate, "certificate of that key");
  command->add_option("--timeout", flags->timeout, "seconds to wait for the answer")
      ->check(within(0.1, 3600.0))
      ->capture_default_str();
  command->callback([flags, &status] {
    const MemberAddress member = member_address(flags->address, "ADDRESS");
    if (member.key && flags->key.empty())
      throw ConfigError(
          "found a public key behind the address and no --key; expected the key file of a peer that is let "
          "in");
    const StatusBody answer = ask_status(member.address, client_keys(member, flags->key, flags->certificate),
                                         flags->timeout, interrupted);
    std::fputs((flags->json ? json_of(answer) + "\n" : table_of(answer)).c_str(), stdout);
    status = kExitOk;
  });
}

}  // namespace gossamer::node
