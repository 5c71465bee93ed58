// Rows of the data set: in every epoch each is trained once, by one peer.
//
// A pass of a peer over its rows is an epoch: as many rows as the steps of an epoch take, floor(rows / Σ
// batches) of the peers that were there when it began. It is finished as it began, whatever the view is by
// then. A peer that comes to a run under way (again) begins in the midst of a pass, where the rounds are.
// Peers that the job does not name count, and are not followed themselves.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "checkers.h"

namespace gossamer::node {
namespace {

class RowsTrained final : public Checker {
 public:
  RowsTrained(const Prepared& prepared, Findings& findings)
      : findings_(findings), names_(prepared.names.begin(), prepared.names.end()) {
    rows_ = prepared.data.train->rows();
    others_batch_ = prepared.job.batch;
    for (const PeerEntry& p : prepared.job.peers) batches_[p.name] = p.batch;
    of_.resize(names_.size());
    for (PeerId p = 0; p < names_.size(); ++p) begin(p, 0, 0);
  }

  void on_crash(PeerId p) override {
    if (p < of_.size()) of_[p] = {};
  }
  void on_view(PeerId p, const std::vector<std::string>& members, Round rounds_before) override {
    if (p >= of_.size()) return;
    Peer& peer = of_[p];
    peer.members = members;
    if (peer.begun) return;
    const std::uint64_t steps = steps_per_epoch(members);
    begin(p, rounds_before / steps, rounds_before % steps);
  }
  void on_rows(PeerId p, std::span<const std::uint32_t> rows) override {
    if (p >= of_.size()) return;
    for (const std::uint32_t row : rows) take(p, row);
  }

 private:
  struct Peer {
    std::vector<std::string> members{};                  ///< of the view that it is in; none: all
    bool begun = false;                                  ///< it has trained a row
    std::uint64_t pass = 0, left = 0;                    ///< left: rows of the pass
    std::map<std::uint32_t, PeerId>* trained = nullptr;  ///< by those whose pass began in the same view
    std::set<std::uint32_t> own{};                       ///< of the pass
  };

  std::uint64_t steps_per_epoch(const std::vector<std::string>& members) const {
    std::uint64_t step = 0;
    for (const std::string& name : members.empty() ? names_ : members) {
      const auto batch = batches_.find(name);
      step += batch == batches_.end() ? others_batch_ : batch->second;
    }
    return std::max<std::uint64_t>(1, rows_ / step);
  }
  void begin(PeerId p, std::uint64_t pass, std::uint64_t step) {
    Peer& peer = of_[p];
    peer.pass = pass;
    peer.left = (steps_per_epoch(peer.members) - step) * batches_.at(names_[p]);
    peer.trained = &trained_[{peer.members.empty() ? names_ : peer.members, pass}];
    peer.own.clear();
  }
  void take(PeerId p, std::uint32_t row) {
    Peer& peer = of_[p];
    if (peer.left == 0) begin(p, peer.pass + 1, 0);
    --peer.left;
    peer.begun = true;
    if (!peer.own.insert(row).second)
      return findings_.report("trained", fmt::format("peer {}, pass {}: row {} is trained twice; expected "
                                                     "each row once",
                                                     names_[p], peer.pass, row));
    const auto [at, first] = peer.trained->emplace(row, p);
    if (first || at->second == p) return;
    findings_.report(
        "trained", fmt::format("pass {} that began among {}: row {} is trained by peer {} and by {}; "
                               "expected one of them",
                               peer.pass, fmt::join(peer.members.empty() ? names_ : peer.members, ", "), row,
                               names_[at->second], names_[p]));
  }

  Findings& findings_;
  std::vector<std::string> names_;
  std::size_t rows_, others_batch_;
  std::map<std::string, std::size_t> batches_;
  std::vector<Peer> of_;
  /// By view and pass: the rows, and by whom.
  std::map<std::pair<std::vector<std::string>, std::uint64_t>, std::map<std::uint32_t, PeerId>> trained_;
};

}  // namespace

std::unique_ptr<Checker> check_trained(const Prepared& prepared, Findings& findings) {
  const Job& job = prepared.job;
  const bool dealt = job.split == "local_shuffle" || job.split == "global_shuffle";
  std::size_t step = 0;
  for (const PeerEntry& p : job.peers) step += p.batch;
  if (!prepared.data.train || !dealt || job.private_data || prepared.data.train->rows() < step)
    return nullptr;
  return std::make_unique<RowsTrained>(prepared, findings);
}

}  // namespace gossamer::node
