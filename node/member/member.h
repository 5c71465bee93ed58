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
// The first view is all that the job names: until all of them are there nobody begins. Whoever comes later,
// whether the job names it or not, begins with the next view. Where members need not be alike it takes the
// state of one of them before, while they go on, so that they wait for the change of view alone.
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "speaker_limits.h"
#include "swim.h"
#include "transfer.h"
#include "view.h"
#include "worker.h"

namespace gossamer::node {

/// The world of a member; peers are numbered as in MemberSpec::roster, and those that it does not have from
/// its end on.
class MemberEnv : public Env {
 public:
  /// A peer that the roster did not have, or that is reached elsewhere now; without an address: over the
  /// connection that it made.
  virtual void met(PeerId peer, const Contact& contact) = 0;
  /// Why a run of those is not possible; empty: it is.
  virtual std::string why_not(const View& /*view*/) { return {}; }
  /// To whoever sent the frame that is being handled; may be lost.
  virtual void answer(FrameBytes /*frame*/) {}
  /// Ends the data plane of that view, whatever it was at; what goes into the next one.
  virtual State leave_view(const View& view) = 0;
  /// Makes the data plane of a view and tells what its worker is; share: of the run that is over.
  virtual WorkerSpec enter_view(const View& view, double share) = 0;
  /// It goes on from a mean of what it has learned and what others had when they left their last views: of
  /// each, itself included, name and weight.
  virtual void merging(const std::vector<std::pair<std::string, double>>& /*weights*/) {}
  /// It ends while it waits for that view: what it has learned, after so many rounds, may be kept.
  virtual void keep_learned(const View& /*waited for*/, Round, double /*share*/, const State&) {}
  virtual void member_changed(const MemberEvent&) {}
  /// To whoever sent the frame that is being handled; asks for the status where it may answer now.
  virtual void answer(std::uint64_t /*number*/, const std::function<StatusBody()>& /*status*/) {}
};

/// What a member does on a side of a parted network that is no majority.
struct ApartSpec {
  std::string policy{};  ///< the job's word for it
  double wait_s = 0;     ///< for the others
  bool ends = false;     ///< after that; else it goes on with those that are there
};

struct MemberSpec {
  std::vector<Contact> roster;  ///< the job's peers, then this one where they do not name it
  std::size_t named = 0;        ///< of the roster: the job's
  PeerId self = 0;
  std::uint64_t start = 0;      ///< as of Seat
  std::uint64_t job = 0;        ///< frames of another one are dropped
  std::size_t min_peers = 1;    ///< fewer end the run; where it is all of the roster nobody may be lost
  bool alike = false;           ///< all members' states are the same to the bit
  bool steps_alone = false;     ///< a step of a round that is not over can be kept (exchange/method.h)
  bool holds_mass = false;      ///< what was sent is owed beyond its view (exchange/method.h)
  bool keeps_gradient = false;  ///< one that was computed in a view is of use in the next (data_plane.h)
  ApartSpec apart{};
  bool limits_speakers = true;  ///< what a peer that has proved who it is may cost this one has a bound
  bool merges = false;          ///< models of sides that went on apart are brought together when they meet
  std::uint64_t under_way = 0;  ///< rounds by which members of one side may differ
  std::uint64_t batch = 1;      ///< samples of a peer's step, for messages
  bool own_models = false;      ///< of sizes of their own, so that nobody can take another's state
  SwimSpec swim{};              ///< its times
  std::optional<Contact>
      join{};                  ///< a member of the run that this one joins; none: it begins with the others
  double join_timeout_s = 60;  ///< to hear of a run that it joins
  TermsBody terms{};           ///< what it tells those who would join
  std::string only_named{};    ///< why only the job's peers may; empty: others, too
  std::span<const std::byte> initial{};  ///< parameters, for whoever asks; its caller keeps them
};

/// What a member fetches of another while the others go on.
struct Ahead {
  std::string source{};  ///< who is asked
  std::size_t tries = 0;
  double chosen = 0, asked = 0;  ///< when it was, and was last asked what it has
  double came = 0;               ///< when something came last
  std::uint64_t start = 0;       ///< of the source, as it offered
  double share = 0;
  std::optional<Transfer> transfer{};
};
/// What it gives away meanwhile.
struct Served {  ///< of this view, or one before
  Learned learned;
  double share = 0, made = 0, asked = 0;
};

class Member final : SwimHost {
 public:
  /// first: the worker of all that the job names; none where it joins a run.
  Member(MemberSpec spec, MemberEnv& env, std::optional<WorkerSpec> first);
  ~Member() override;

  void start();
  /// speaker: who sent it, where its connection proves that; frames in another's name are dropped. Null:
  /// nothing proves anything. apart, beside: as of FrameBytes. False where the bytes are no frame, or a
  /// damaged one.
  bool on_frame(std::span<const std::byte> bytes, const std::string* speaker = nullptr,
                const Payload& apart = {}, const Payload& beside = {});
  void on_data(const DataEvent& event);
  void on_timer();
  void on_broken(PeerId peer);
  /// Nothing listens where the peer did.
  void on_refused(PeerId peer);
  /// Ends cleanly; where members may change it leaves the others first, as of Worker::interrupt.
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
  /// How this peer sees the run; what the job says is left to others to fill in.
  StatusBody status() const;
  /// Of a peer by its number.
  const std::string& name_of(PeerId peer) const { return spec_.roster[peer].name; }

 private:
  class ViewEnv;
  bool planted(Bug bug) const { return spec_.swim.planted.is(bug); }
  /// How long a peer that hears of a run under way waits whether it is the one that it is about to begin.
  static constexpr double kPatience_s = 2;

  // SwimHost
  void send(const Contact& to, SwimBody body) override;
  void changed(const MemberRecord& now, std::optional<MemberStatus> before) override;
  void superseded(std::uint64_t start) override;
  void forgotten(const std::string& name) override;

  bool may_change() const { return spec_.join || spec_.min_peers < spec_.named; }
  const std::string& name() const { return spec_.roster[spec_.self].name; }
  std::optional<PeerId> number(const std::string& name) const;
  PeerId meet(const Contact& contact);
  /// Acts on what changed; at the end of every event.
  void settle();
  void worker_ended();
  /// Nobody waits for all of the roster any more.
  bool has_begun() const { return begun_ || heard_begun_ || (worker_ && worker_->joined()); }
  double pause_between_looks() const;
  bool is_done(const std::string& peer) const;
  View target() const;
  std::vector<std::string> order() const;
  std::uint64_t attempt_for(const View& view) const;
  void say_first();
  bool all_known() const;
  /// With the first worker, for all that the job names; nothing was announced yet.
  bool waits_for_all() const { return worker_ && !worker_->joined() && past_.empty() && standing_.view == 0; }
  bool left_behind() const;
  void follow_members();
  void leave(const View& view);
  void close_view();
  bool wind_up();
  bool ends_round(const View& next);
  bool ends_gradient();
  bool all_are_done() const;
  void say_done();
  std::optional<double> share_elsewhere(const Seat& seat) const;
  double patience() const;
  bool step_over() const;
  void end_worker();
  void count_own();
  View with_starts() const;
  std::vector<std::uint32_t> owed() const;
  std::vector<Incarnation> whom_it_owes() const;
  Passage passage() const;
  static std::vector<std::pair<PeerId, PeerId>> former(const std::vector<Standing>& all);
  void announce(View view);

  // links that do not come up (member_links.cpp)
  /// Who is to wait, and why, in words.
  struct LeftOut {
    std::set<std::string> names{};
    std::string why{};
  };
  double deaf_after() const;
  std::set<std::string> silent(double now);
  bool waits_for(const std::string& peer) const;
  void watch_links();
  std::vector<std::uint32_t> keys_of_deaf() const;
  LeftOut left_out() const;
  bool ended_without_it() const;
  bool look_who_is_out();
  /// No record was ever had of it.
  bool is_unheard(const Seat& seat) const;
  bool awaits_unheard() const;
  void give_up_unheard();
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
  void handle(const OfferBody& body);
  void handle(const AskBody& body);
  void hand_out_initial(std::uint64_t at);
  void tell(TermsBody terms);
  void handle(const QueryBody& body) {
    env_.answer(body.number, [this] { return status(); });
  }
  void take(std::optional<Frame>& frame, std::size_t bytes, const std::string* speaker,
            SpeakerLimits* limits);
  void leave_out_new(SwimBody& body, SpeakerLimits* limits);
  bool may_come(const MemberRecord& record, const std::string& from, SpeakerLimits* limits);
  bool awaited(const FrameBody& body, const std::string* speaker) const;
  bool speaks_for(const std::string& speaker, const Frame& frame) const;
  bool within(SpeakerLimits& limits, const FrameBody& body) const;
  void drop_false(const std::string& speaker, const Frame& frame);
  std::uint64_t dropped_frames() const;
  void handle(const SwimBody& body) { swim_->on_body(body, env_.now()); }
  template <class Other>
  void handle(const Other&) {}

  // sides of a parted network (member_apart.cpp)
  void count_rounds(double share);
  std::uint64_t held_of(const Seat& seat) const;
  Trained trained_of(const View& view) const;
  std::map<std::uint32_t, std::uint64_t> trained_elsewhere(const View& view) const;
  std::vector<Seat> elsewhere(const View& view) const;
  std::vector<Past> pasts(const std::vector<Standing>& all) const;
  void hold_all_that(const std::vector<Standing>& all);
  bool has_ended(const Seat& seat) const;
  /// Of a view, as seen from the one that is to be next.
  struct Sides {
    std::size_t here = 0;
    std::vector<std::string> lost;  ///< cut off: they may live on
    bool majority = true;
  };
  Sides sides_of(const View& next, const View& before) const;
  Sides sides_of(const View& next) const;
  void look_around();
  bool waits_apart(const std::vector<Standing>& all);
  std::string waits_text() const;
  std::string apart_text(const Sides& sides) const;
  void end_apart();
  void end_between_views();
  void keep_learned();
  void tell_apart() const;
  bool bring_together(const std::vector<Standing>& all);
  void show_model();
  void look_at_part();
  void take_part(std::span<const std::byte> bytes);
  void merge(const Meeting& meeting, std::size_t own);
  void tell_dropped(const std::vector<Standing>& all, PeerId from) const;

  // what is fetched, or given away, while the others train (member_ahead.cpp)
  /// Not where both can only dial out.
  bool can_ask(const std::string& whom) const;
  std::vector<std::string> who_have_it() const;
  bool source_lives() const;
  bool begin_ahead();
  void fetch_ahead();
  void take_ahead(const PieceBody& piece);
  void expect_begun();
  std::optional<State> state_of(std::span<const std::byte> bytes, const std::string& whose) const;
  double ahead_deadline() const;
  void offer_to(const std::string& name);
  void take_learned(const Learned& learned);
  std::span<const std::byte> on_offer(std::uint64_t hash);

  void post(PeerId to, FrameBody body, std::uint32_t priority);
  void end(Outcome outcome, std::string message);
  void tell_view() const;
  void tell_change(const MemberRecord& now);
  void tell_untold();
  std::vector<StatusBody::Member> members_now() const;
  void schedule_wake();

  MemberSpec spec_;
  std::unordered_map<std::string, PeerId> numbers_;  ///< by name
  std::vector<PeerId> free_;                         ///< numbers of those that are forgotten
  MemberEnv& env_;
  std::unique_ptr<ViewEnv> view_env_;
  std::optional<Swim> swim_;  ///< where members may change
  View current_;              ///< of the worker, or the one that is agreed on
  View run_;                  ///< of the worker
  std::unique_ptr<Worker> worker_;
  bool winding_up_ = false;       ///< the worker's view is over, and it takes its last step
  bool ending_round_ = false;     ///< the worker's view is over when its round is
  bool ending_gradient_ = false;  ///< … when its gradient stands
  double step_by_ = 0;            ///< until when these are waited for
  /// What was told of another member last.
  struct Told {
    std::uint64_t start = 0;
    MemberStatus status = MemberStatus::alive;
    double since = 0;
  };
  std::map<std::string, Told> told_;
  Allowance change_lines_{50, 1}, change_events_{20000, 20};  ///< for what is told of the others
  std::uint64_t untold_ = 0;                                  ///< changes since the last line
  std::optional<Report> reported_;                            ///< the newest
  /// Views that were run, or announced, and left, with the attempt; the newest. Who comes back to one tries
  /// anew: others may have begun it.
  std::deque<std::pair<std::uint64_t, std::uint64_t>> past_;
  /// Of the view: what its worker found out before Swim did, and those of whom nothing is heard.
  std::set<std::string> gone_;
  struct DeafTo {
    std::uint64_t start = 0;
    double ill = 0;  ///< when it was last
  };
  std::map<std::string, DeafTo> deaf_to_;  ///< others live, and their frames do not come
  struct Listening {
    std::uint64_t start = 0;
    double since = 0;
  };
  std::map<std::string, Listening> listens_to_;
  double listens_since_ = 0, looked_at_links_ = 0;  ///< this process has not stood still; the last look
  std::set<std::string> say_deaf_;                  ///< members whose word has deaf_to
  LeftOut left_out_;
  bool outside_ = false;  ///< this peer is left out, has no worker, and waits
  double announced_ = 0;  ///< when these seats were first
  WorkerResult before_;   ///< of the views that are over
  Standing standing_;
  State kept_;                      ///< what was learned, between views
  std::vector<std::byte> learned_;  ///< its bytes where all must be alike, until all are in the next view
  std::vector<Incarnation> owed_;   ///< whom the worker owed when it began
  std::optional<Transfer> transfer_;
  std::optional<View> ran_;            ///< the last view in which it trained with all of it
  std::vector<View> entered_;          ///< that one, and those that were entered since
  std::uint64_t last_entered_ = 0;     ///< as of Standing::last
  std::set<std::string> trained_out_;  ///< of that: those that had trained to the end
  /// Rounds of each start's samples that the own model holds.
  std::map<std::pair<std::string, std::uint64_t>, std::uint64_t> holds_;
  double rounds_per_share_ = 0;                      ///< of the view's members, each
  std::optional<double> apart_since_;                ///< without a majority
  std::uint64_t told_apart_ = 0;                     ///< the view of which it has told that it waits
  std::map<std::size_t, std::vector<float>> parts_;  ///< of the sides that the own model comes together with
  std::size_t part_ = 0;                             ///< that is being fetched
  std::size_t part_tries_ = 0;                       ///< members that were asked for it in vain
  double part_came_ = 0;                             ///< when something of it came last
  std::optional<Ahead> ahead_;
  std::optional<Served> served_;
  std::set<std::string> askers_;      ///< who wait for the data plane's answer
  double share_ = 0;                  ///< of the run that is over, where no worker says it
  double fetched_share_ = 0;          ///< of what transfer_ brings
  double base_ = 0, part_share_ = 0;  ///< as of Standing's base and part
  std::uint64_t own_samples_ = 0,
                announced_samples_ = 0;  ///< of the last view; of them, in part_share_ as announced
  Round rounds_ = 0;
  bool begun_ = false, whole_ = false, over_ = false;
  bool opened_ = false;  ///< the worker is of a view that was agreed on
  bool told_to_end_ = false;
  bool heard_begun_ = false;           ///< from any member
  bool members_changed_ = true;        ///< since it was last looked whether the view is still the right one
  double look_again_ = 0;              ///< not before
  std::uint64_t failed_attempts_ = 0;  ///< running, at the present view
  double started_ = 0;
  double begun_since_ = 0;                       ///< when this peer heard of it
  std::set<std::string> told_false_;             ///< who spoke in another's name
  std::set<std::string> told_many_;              ///< who told of too many members
  std::set<std::string> of_other_runs_;          ///< of the job's peers, who spoke to peers of another run
  std::map<std::string, SpeakerLimits> limits_;  ///< by who speaks, where that is proved
  double worker_wake_;
};

}  // namespace gossamer::node
