#pragma once
// Losses are which peers a run was without, from when to when, and why.
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "gossamer/node/report.h"

namespace gossamer::node {

struct Loss {
  std::string peer;
  double seconds = 0, share_done = 0;  ///< when: of the run
  std::string why;
  std::optional<double> returned{};  ///< when it was back; empty: never
};

/// "hal was lost at 12.3 s, 31.0 % of the run (its connection broke); back at 15.0 s"
std::string text_of(const Loss& loss);
/// "3, 2 came back"; empty where there are none.
std::string text_of(const std::vector<Loss>& losses);

nlohmann::ordered_json json_of(const std::vector<Loss>& losses);
/// Throws nlohmann's exceptions where it is none of json_of.
std::vector<Loss> losses_from(const nlohmann::ordered_json& all);

/// What several peers tell counts once.
class Losses {
 public:
  /// seconds: of the run, now.
  void take(const MemberEvent& event, double seconds);
  const std::vector<Loss>& all() const { return losses_; }

 private:
  std::vector<Loss> losses_;
  std::map<std::string, std::uint64_t> starts_;  ///< the latest that is known, by peer
};

}  // namespace gossamer::node
