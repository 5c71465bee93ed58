#pragma once
// ChurnCheckers hold runs whose members come and go to what must hold of them. Each view is a run of its own
// to the checkers of checkers.h: nothing is used in it that was not sent in it. Over all views:
//
//   views    a process enters an attempt at a view once; who enters it is of it, by its present start; all
//            who enter it take the run to be equally far, no less far than they were themselves, and are at
//            least run.min_peers
//   state    who begins a view goes on from what one of its members had when it left its last one (its own,
//            where it had any and the method lets peers differ); where all are alike, all from the same bits,
//            and of no round that only some parcels had ended
//   merge    who brings models of several sides together goes on from their weighted mean within 1e-5, each
//            side weighed by what it has trained since they parted
//   sides    of a method whose peers begin alike, and wherever on_partition is not "continue", no two sides
//            of one view go on before run.partition_timeout
//   ledger   of push_sum: mass_ledger.h
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "checkers.h"
#include "churn_sides.h"
#include "mass_ledger.h"
#include "view_observer.h"

namespace gossamer::node {

class ChurnCheckers final : public Observer, public ViewObserver {
 public:
  /// next: hears all with the job's numbers.
  explicit ChurnCheckers(const Prepared& prepared, Observer* next = nullptr);
  ~ChurnCheckers() override;
  const std::optional<Violation>& first() const { return findings_.first(); }
  Findings& findings() { return findings_; }
  double time() const { return findings_.time; }
  /// When a peer last began a round.
  double progressed() const { return progressed_; }

  struct Counts {
    std::uint64_t frames[11] = {};  ///< by Fate
    std::uint64_t crashes = 0, starts = 0, views = 0, begun = 0, fetched = 0, messages = 0;
  };
  const Counts& counts() const { return counts_; }
  std::uint64_t merged() const { return sides_.merged(); }
  /// Whether a peer's process has ended by itself; asked where another takes it for one that cannot come
  /// back.
  std::function<bool(PeerId)> has_ended;
  const MassLedger* ledger() const { return ledger_.get(); }  ///< null: the method has no mass

  void on_time(double time) override;
  void on_frame(Fate, PeerId, PeerId, std::span<const std::byte>) override;
  void on_crash(PeerId) override;

  void on_start(PeerId, std::uint64_t start) override;
  Observer* on_enter(PeerId, const Entry&) override;
  void on_begin(PeerId, std::span<const float>) override;
  void on_begin_with(PeerId, const DataView&) override;
  void on_copy(PeerId, std::span<const float>) override;
  void on_merge(PeerId, const std::vector<std::pair<PeerId, double>>&) override;
  void on_leave(PeerId, double share, std::span<const float>) override;

 private:
  class Era;                                             ///< one attempt at a view
  class Seat;                                            ///< a peer's place in it
  using Name = std::pair<std::uint64_t, std::uint64_t>;  ///< of an era: id and attempt

  /// What is known of a peer's present process.
  struct Process {
    std::uint64_t start = 0;
    bool gone = false;  ///< it crashed, or its worker has ended and no other has come
    std::set<Name> entered{};
    bool begun = false;                      ///< a round, in any view
    std::optional<double> share{};           ///< at which it left its last view
    std::optional<std::uint64_t> learned{};  ///< hash of the parameters that it left with
    std::shared_ptr<Era> era{};
  };

  void report(const char* checker, PeerId peer, const std::string& what);
  void check_entry(PeerId peer, const Entry& entry, bool first);
  std::string name(PeerId peer) const { return prepared_.job.peers[peer].name; }
  bool gone(const Incarnation& one) const;
  std::vector<Incarnation> incarnations(const Era& era) const;

  const Prepared& prepared_;
  Findings findings_;
  Observer* next_;
  std::unique_ptr<Checker> frames_;
  ChurnSides sides_;
  std::uint64_t initial_;  ///< hash of x⁰
  std::vector<Process> processes_;
  std::map<Name, std::weak_ptr<Era>> eras_;
  std::vector<std::unique_ptr<Seat>> seats_;  ///< by peer: of its present view
  /// By peer and start: hashes of what it left its last views with.
  std::map<std::pair<PeerId, std::uint64_t>, std::deque<std::uint64_t>> left_;
  std::deque<std::uint64_t> copies_;
  std::unique_ptr<MassLedger> ledger_;
  Counts counts_;
  double progressed_ = 0;
};

}  // namespace gossamer::node
