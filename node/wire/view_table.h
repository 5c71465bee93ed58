#pragma once
// The job's text in a hello names the members where it is a view's (setup/view_run.h).
#include <string>
#include <string_view>

namespace gossamer::node {

inline constexpr std::string_view kViewTable = "\n[view]\n";
inline bool names_view(const std::string& job_text) { return job_text.find(kViewTable) != std::string::npos; }

}  // namespace gossamer::node
