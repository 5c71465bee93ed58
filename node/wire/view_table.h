#pragma once
// Tables that the job's text in a hello has beside the job's own: of what a loop of one's own learns from, of
// the run that this one goes on from, and the members where it is a view's (setup/view_run.h).
#include <algorithm>
#include <string>
#include <string_view>

namespace gossamer::node {

inline constexpr std::string_view kLoopTable = "\n[loop]\n", kResumedTable = "\n[resumed]\n",
                                  kViewTable = "\n[view]\n";
/// Without them.
inline std::string only_job(const std::string& text) {
  return text.substr(0, std::min({text.find(kLoopTable), text.find(kResumedTable), text.find(kViewTable)}));
}
/// What the first of them holds, in a line; empty: it is not there.
inline std::string loop_table(const std::string& text) {
  const auto at = text.find(kLoopTable);
  if (at == std::string::npos) return {};
  std::string keys = text.substr(at + kLoopTable.size());
  keys.resize(std::min(keys.size(), keys.find("\n[")));
  while (keys.ends_with('\n')) keys.pop_back();
  std::replace(keys.begin(), keys.end(), '\n', ';');
  return keys;
}
inline bool names_view(const std::string& job_text) { return job_text.find(kViewTable) != std::string::npos; }

}  // namespace gossamer::node
