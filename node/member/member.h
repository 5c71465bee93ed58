#pragma once
// Member is a peer's control over the whole of a run, while others come and go. It knows who is there
// (swim.h); for each view it has a worker, which it ends when the view changes: what the peer has learned by
// then goes into the next view, with a worker, an exchange and a data plane made anew. No exchange method
// knows of churn.
//
// A view begins when all its members have announced the same one, and what they bring: how far the run is,
// and the hash of what they have learned. All go on from the farthest of them; who has nothing, and, where
// all must be alike, who has something else, takes the state of one that has it first.
//
// The first view is all that the job names: until all of them are there nobody begins.
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "swim.h"
#include "transfer.h"
#include "view.h"
#include "worker.h"

namespace gossamer::node {

/// The world of a member; peers are numbered as in MemberSpec::roster.
class MemberEnv : public Env {
 public:
  /// Ends the data plane, whatever it was at; what was learned.
  virtual State leave_view() = 0;
  /// Makes the data plane of a view and tells what its worker is; share: of the run that is over.
  virtual WorkerSpec enter_view(const View& view, double share) = 0;
};

struct MemberSpec {
  std::vector<Contact> roster;  ///< the job's peers
  PeerId self = 0;
  std::uint64_t start = 0;    ///< as of Seat
  std::uint64_t job = 0;      ///< frames of another one are dropped
  std::size_t min_peers = 1;  ///< fewer end the run; where it is all of the roster nobody may be lost
  bool alike = false;         ///< all members' states are the same to the bit
  bool own_models = false;    ///< of sizes of their own, so that nobody can take another's state
  SwimSpec swim{};            ///< its times
};

class Member final : SwimHost {
 public:
  /// first: the worker of the whole roster.
  Member(MemberSpec spec, MemberEnv& env, WorkerSpec first);
  ~Member() override;

  void start();
  void on_frame(std::span<const std::byte> bytes);
  void on_data(const DataEvent& event);
  void on_timer();
  void on_broken(PeerId peer);
  /// Nothing listens where the peer did.
  void on_refused(PeerId peer);
  void interrupt();

  /// Of the view that has begun; null while the next one is agreed on.
  Worker* worker() { return worker_.get(); }
  const Worker* worker() const { return worker_.get(); }
  bool joined() const { return begun_ || (worker_ && worker_->joined()); }
  bool finished() const { return over_; }
  bool reachable(PeerId peer) const;
  /// How much of the run is over.
  double share_done() const;
  Round rounds() const { return worker_ ? worker_->rounds() : rounds_; }
  /// Of all views together.
  WorkerResult result() const;
  const View& view() const { return current_; }

 private:
  class ViewEnv;
  bool planted(Bug bug) const { return spec_.swim.planted.is(bug); }
  /// How long a peer that hears of a run under way waits whether it is the one that it is about to begin.
  static constexpr double kPatience_s = 2;

  // SwimHost
  void send(const Contact& to, SwimBody body) override;
  void changed(const MemberRecord& now, std::optional<MemberStatus> before) override;
  void superseded(std::uint64_t start) override;

  bool may_change() const { return spec_.min_peers < spec_.roster.size(); }
  const std::string& name() const { return spec_.roster[spec_.self].name; }
  std::optional<PeerId> number(const std::string& name) const;
  /// Acts on what changed; at the end of every event.
  void settle();
  void worker_ended();
  bool has_begun() const;
  View target() const;
  std::uint64_t attempt_for(const View& view) const;
  void say_first();
  bool all_known() const;
  bool left_behind() const;
  void follow_members();
  void leave(const View& view);
  void close_view();
  void announce(View view);
  void say(Standing standing);
  std::optional<std::vector<Standing>> standings() const;
  void advance();
  void fetch(const std::vector<Standing>& all, double share);
  void ask();
  double farthest(const std::vector<Standing>& all) const;
  void open(double share);
  void keep(State learned);
  void handle(const WantBody& body);
  void handle(const PieceBody& body);
  void post(PeerId to, FrameBody body, std::uint32_t priority);
  void end(Outcome outcome, std::string message);
  void tell_view() const;
  void schedule_wake();

  MemberSpec spec_;
  MemberEnv& env_;
  std::unique_ptr<ViewEnv> view_env_;
  std::optional<Swim> swim_;  ///< where members may change
  View current_;              ///< of the worker, or the one that is agreed on
  std::unique_ptr<Worker> worker_;
  /// Views that were run, or announced, and left, with the attempt; the newest. Who comes back to one tries
  /// anew: others may have begun it.
  std::deque<std::pair<std::uint64_t, std::uint64_t>> past_;
  std::set<std::string> gone_;  ///< of the view: what its worker found out before Swim did
  WorkerResult before_;         ///< of the views that are over
  Standing standing_;
  std::vector<std::byte> learned_;  ///< state_to_bytes, between views and until all are in the next one
  std::optional<Transfer> transfer_;
  double share_ = 0;  ///< of the run that is over, where no worker says it
  Round rounds_ = 0;
  bool begun_ = false, whole_ = false, over_ = false;
  bool members_changed_ = true;        ///< since it was last looked whether the view is still the right one
  std::uint64_t failed_attempts_ = 0;  ///< running, at the present view
  double begun_since_ = 0;             ///< when this peer heard of it
  double worker_wake_;
};

}  // namespace gossamer::node
