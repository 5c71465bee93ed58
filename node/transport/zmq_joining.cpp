#include <fmt/format.h>

#include "machine.h"
#include "zmq_env.h"

namespace gossamer::node {

/// Logs what keeps peers away, while they are waited for: hosts that cannot be found, no files left to open.
void ZmqEnv::watch_joining(const Member& member) {
  if (member.joined() && !member.finished()) {
    resolver_.reset();
    return;
  }
  if (files_ == 0) {
    files_ = file_limit_reached();
    if (files_ > 0)
      log(fmt::format("no more connections than there are: {} files are open (ulimit -n)", files_));
  }
  auto failures = resolver_->failures();
  for (const auto& [address, why] : failures)
    if (const auto told = lost_names_.find(address); told == lost_names_.end() || told->second != why)
      log(fmt::format("{}: {}; trying again", address, why));
  lost_names_ = std::move(failures);
}

std::string ZmqEnv::what_kept_them_away() const {
  std::string text;
  for (const auto& [address, why] : resolver_->failures()) text += fmt::format("; {}: {}", address, why);
  if (files_ > 0)
    text += fmt::format("; connections may have been turned away: {} files were open (ulimit -n)", files_);
  return text;
}

}  // namespace gossamer::node
