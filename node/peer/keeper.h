#pragma once
// A Keeper has what a worker wants kept written, tells it what is on disk, and removes what need not be kept.
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "checkpoint_writer.h"
#include "own.h"
#include "setup.h"
#include "view.h"
#include "worker.h"

namespace gossamer::node {

struct KeeperSpec {
  std::filesystem::path folder;    ///< of the checkpoints; made when the first is written
  std::string peer;                ///< its name
  std::vector<std::string> peers;  ///< of the run
  std::string job;                 ///< what the peers agree on, as to_toml writes it
  std::size_t keep = 1;            ///< checkpoints, beside the best
  bool together = true;            ///< peers save after the same rounds
  std::vector<optim::Layer> layers;
  std::vector<Round> rounds{};  ///< that this peer has there, of the course that goes on
  std::uint64_t run = 0;        ///< theirs; 0: the number that the peers agree on
  /// What earlier starts of a peer that does not go on from them left there of the same job; ascending.
  std::vector<CheckpointHead> earlier{};
};

/// Errors of the disk are told and end nothing.
class Keeper {
 public:
  Keeper(KeeperSpec spec, std::function<void(const std::string&)> log);
  ~Keeper();  ///< waits for what is being written

  /// Of Env.
  bool may_checkpoint() const { return !writer_.busy(); }
  /// Of Env. Parameters that are not finite are not kept.
  void checkpoint(SharedState state, const SavePoint& point);
  /// What was learned, of a peer that has left its view for one that does not begin; all who wait for that
  /// know its checkpoints by it. Where the round is kept already that is enough.
  void keep_learned(const Prepared& base, const View& view, Round round, double share, const State& learned);
  /// From here on checkpoints are of those peers, who go on with that job. What is being written is of the
  /// former ones, and no worker hears of it.
  /// evaluator: the process that says which is the best; what another one said before stands beside that.
  void enter(std::vector<std::string> peers, std::string job, bool together, Incarnation evaluator);
  /// After whatever happened to the worker.
  void turn(Worker& worker);
  /// Rounds that this peer has on disk, of this run; ascending.
  const std::vector<Round>& rounds() const { return rounds_; }
  std::uint64_t run() const { return run_; }
  const std::filesystem::path& folder() const { return spec_.folder; }
  /// Waits for what is being written, and tells what became of it.
  void finish();

 private:
  void write(SharedState state, const SavePoint& point, bool learned);
  void take(Worker* worker);
  void judge(Worker& worker, Round round);
  void hear(const Worker& worker);
  void prune();

  KeeperSpec spec_;
  std::function<void(const std::string&)> log_;
  PosixStorage storage_;
  CheckpointWriter writer_;
  std::vector<Round> rounds_, earlier_;
  std::map<Round, optim::Figures> figures_;
  std::optional<Round> best_;
  std::optional<Round> told_best_, told_common_;                      ///< where peers save together
  Incarnation evaluator_;                                             ///< who told the first of them
  std::set<Round> former_bests_{};                                    ///< of others before it
  std::pair<std::optional<Round>, std::optional<Round>> pruned_for_;  ///< what all have, and the best
  std::uint64_t run_ = 0;
  bool writing_ = false, of_former_ = false;  ///< a checkpoint; of a view that is over
  bool later_view_ = false;
};

}  // namespace gossamer::node
