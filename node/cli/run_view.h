#pragma once
// RunView shows a run live: one line a peer, the last line for the whole.
#include <optional>
#include <string>
#include <vector>

#include "env.h"

namespace gossamer::node {

class RunView {
 public:
  explicit RunView(std::vector<std::string> names)
      : names_(std::move(names)), latest_(names_.size()), there_(names_.size()) {}
  void update(std::size_t peer, const Report& report);
  /// It is there no more.
  void ended(std::size_t peer);
  /// elapsed: seconds since training began, as far as seen.
  std::string text(double elapsed) const;

 private:
  std::vector<std::string> names_;
  std::vector<std::optional<Report>> latest_;
  std::size_t there_;    ///< peers, by the newest report
  optim::Figures test_;  ///< of the last evaluation
};

}  // namespace gossamer::node
