#include "faults.h"

#include <fmt/format.h>

#include <algorithm>

#include "text.h"

namespace gossamer::node {
namespace {

PeerId find(const Job& job, const std::string& name, const char* key) {
  const auto names = job.peer_names();
  const auto at = std::find(names.begin(), names.end(), name);
  if (at == names.end())
    throw ConfigError(
        fmt::format("{}: {} names '{}', which is no peer{}", job.path, key, name, did_you_mean(name, names)));
  return static_cast<PeerId>(at - names.begin());
}

template <class Window>
double end_of(const std::vector<Window>& windows, PeerId a, PeerId b, double time) {
  for (bool moved = true; moved;) {  // one window may end within another
    moved = false;
    for (const Window& w : windows)
      if (w.a == a && w.b == b && w.begin <= time && time < w.end) {
        time = w.end;
        moved = true;
      }
  }
  return time;
}

}  // namespace

FaultWindows::FaultWindows(const Job& job) {
  const auto links = [&](const std::vector<FaultWindow>& windows, const char* key, std::vector<Window>& out) {
    for (const FaultWindow& s : windows) {
      const auto arrow = s.where.find('>');
      if (arrow == std::string::npos)
        throw ConfigError(fmt::format("{}: {} names '{}'; expected one direction of a link, such as {}>{}",
                                      job.path, key, s.where, job.peers.front().name, job.peers.back().name));
      out.push_back({find(job, s.where.substr(0, arrow), key), find(job, s.where.substr(arrow + 1), key),
                     s.begin, s.begin + s.seconds});
    }
  };
  links(job.sim.cut, "sim.cut", cuts_);
  links(job.sim.clog, "sim.clog", clogs_);
  const auto peers = [&](const std::vector<FaultWindow>& windows, const char* key, std::vector<Window>& out) {
    for (const FaultWindow& s : windows) {
      const PeerId peer = find(job, s.where, key);
      out.push_back({peer, peer, s.begin, s.begin + s.seconds});
    }
  };
  peers(job.sim.pause, "sim.pause", pauses_);
  peers(job.sim.crash, "sim.crash", crashes_);
}

bool FaultWindows::cut(PeerId from, PeerId to, double now) const {
  return end_of(cuts_, from, to, now) > now;
}
double FaultWindows::clogged_until(PeerId from, PeerId to, double time) const {
  return end_of(clogs_, from, to, time);
}
double FaultWindows::paused_until(PeerId peer, double time) const {
  return end_of(pauses_, peer, peer, time);
}

std::vector<std::pair<PeerId, double>> FaultWindows::crashes() const {
  std::vector<std::pair<PeerId, double>> times;
  for (const Window& w : crashes_) times.emplace_back(w.a, w.begin);
  return times;
}
std::vector<std::pair<PeerId, double>> FaultWindows::restarts() const {
  std::vector<std::pair<PeerId, double>> times;
  for (const Window& w : crashes_) times.emplace_back(w.a, w.end);
  return times;
}

}  // namespace gossamer::node
