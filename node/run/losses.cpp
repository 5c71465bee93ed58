#include "losses.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace gossamer::node {

std::string text_of(const Loss& loss) {
  return fmt::format(
      "{} was lost at {:.1f} s, {:.1f} % of the run ({}); {}", loss.peer, loss.seconds, 100 * loss.share_done,
      loss.why, loss.returned ? fmt::format("back at {:.1f} s", *loss.returned) : "it did not come back");
}

void Losses::take(const MemberEvent& event, double seconds) {
  using What = MemberEvent::What;
  std::uint64_t& start = starts_[event.peer];
  if (event.start < start) return;  // another has told what came after
  start = event.start;
  const auto open = std::find_if(losses_.begin(), losses_.end(),
                                 [&](const Loss& l) { return l.peer == event.peer && !l.returned; });
  if (event.what == What::back || event.what == What::came) {
    if (open != losses_.end()) open->returned = seconds;
  } else if ((event.what == What::gone || event.what == What::left) && open == losses_.end()) {
    losses_.push_back({event.peer, seconds, event.share_done, event.why});
  }
}

std::string text_of(const std::vector<Loss>& losses) {
  const auto back = std::count_if(losses.begin(), losses.end(), [](const Loss& l) { return l.returned; });
  return losses.empty() ? "" : fmt::format("{}, {} came back", losses.size(), back);
}

nlohmann::ordered_json json_of(const std::vector<Loss>& losses) {
  auto all = nlohmann::ordered_json::array();
  for (const Loss& l : losses)
    all.push_back({{"peer", l.peer},
                   {"seconds", l.seconds},
                   {"share_done", l.share_done},
                   {"why", l.why},
                   {"returned", l.returned ? nlohmann::ordered_json(*l.returned) : nullptr}});
  return all;
}

std::vector<Loss> losses_from(const nlohmann::ordered_json& all) {
  std::vector<Loss> losses;
  for (const auto& j : all) {
    losses.push_back({j.at("peer"), j.at("seconds"), j.at("share_done"), j.at("why")});
    if (!j.at("returned").is_null()) losses.back().returned = j.at("returned").get<double>();
  }
  return losses;
}

}  // namespace gossamer::node
