#pragma once
// Swim knows which members there are and which of them live, and spreads what each says of itself: SWIM (Das,
// Gupta, Motivala, DSN 2002) with Lifeguard's corrections (Dadgar, Phillips, Currey, DSN-W 2018).
//
// Every member pings one of its targets each period, the one not heard of for longest. Who does not answer in
// time is asked by others, too (ping_request); where they fail as well it is suspected, and dead unless it
// refutes that in time, which it learns with the next ping, or is heard itself. The more members suspect it
// by themselves, the less time it has. Whoever fails to reach others and lacks even the nacks of those it
// asked doubts itself, and goes slower. A member that was declared dead wrongly comes back when it hears of
// it; so the dead are pinged now and then. News goes out at once, rides on pings for a while, and members
// exchange all that they know with each other now and then.
//
// A state machine without I/O: bodies, timers and events come in, calls on a SwimHost go out. Time is in
// seconds of any clock that does not go back.
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "knowledge.h"
#include "planted.h"
#include "ring.h"
#include "rumours.h"
#include "swim_body.h"

namespace gossamer::node {

struct Contact {
  std::string name;  ///< empty: not known yet, an address that was given to join by
  std::string address{};
  bool operator==(const Contact&) const = default;
};

class SwimHost {
 public:
  virtual ~SwimHost() = default;
  /// Must not call back. The address is empty where the member can only dial out, or is not known yet: what
  /// it sent came over some connection.
  virtual void send(const Contact& to, SwimBody body) = 0;
  /// A member is new (no `before`; it may be dead already), or its status, start or word is another than
  /// before, or it is known to have ended. Comes at the end of the call that brought it, so that it may call
  /// back.
  virtual void changed(const MemberRecord& now, std::optional<MemberStatus> before) = 0;
  /// Nothing is known of a member any more. Must not call back.
  virtual void forgotten(const std::string& /*name*/) {}
  /// Another process of a later start goes by this member's name. From here on this one does nothing.
  virtual void superseded(std::uint64_t start) = 0;
};

struct SwimSpec {
  std::string name, address;
  std::uint64_t start = 0;
  double probe_every_s = 0.2, probe_timeout_s = 0.2;
  /// Of up to 10 members; both grow with the logarithm of their number beyond.
  double least_suspicion_s = 0.5, most_suspicion_s = 3;
  std::size_t indirect = 3;      ///< members that are asked to ping who does not answer
  std::size_t most_targets = 8;  ///< beside the links; with one more member or fewer, everybody
  std::uint64_t seed = 0;
  [[no_unique_address]] Planted planted{};
};

class Swim {
 public:
  /// Throws std::invalid_argument where name or address are none.
  Swim(SwimSpec spec, SwimHost& host, double now);

  /// A peer of which nothing is known yet: pinged now and then until it is heard.
  void contact(const Contact& contact, double now);
  /// Of a contact that is not wanted any more; its address where it has no name.
  void forget(const std::string& name);
  void on_body(const SwimBody& body, double now);
  /// Some other frame of that incarnation came: as good as an ack.
  void heard(const std::string& name, std::uint64_t start, double now);
  /// Its connection broke: suspected at once, as if a probe had failed.
  void on_broken(const std::string& name, double now);
  /// Nothing listens at its address any more: dead at once, and known to have ended, if it was heard here, or
  /// its connection broke. Of one that is dead already it says nothing: a network that has fallen apart may
  /// refuse, too.
  void on_refused(const std::string& name, double now);
  /// So that one more can be known: forgets the one that ended first; false where all live.
  bool make_room();
  /// At most kMostWordBytes, or std::invalid_argument.
  void say(std::vector<std::byte> word, double now);
  /// Tells all targets; from here on this one answers pings and does nothing else.
  void leave(double now);
  /// Neighbours that are always among the targets. everyone: whoever comes later is one, too.
  void links(std::vector<std::string> names, bool everyone = false);

  /// Due at next_deadline(), which any call may change; where it comes 0.1 s late or more this process is
  /// taken to have stood still.
  void on_timer(double now);
  double next_deadline() const;

  /// Self included; dead and left ones for about an hour, where there is room for them.
  const std::map<std::string, MemberRecord>& members() const { return members_; }
  /// Alive or suspect, self included, ascending.
  std::vector<std::string> alive() const;
  /// Whom this member keeps in touch with.
  const std::vector<std::string>& targets();
  /// When a frame came last that the member had sent itself, to this one; never: long before all times.
  double heard_itself(const std::string& name) const;
  /// The same, or when another had an answer of it for this one.
  double heard_of(const std::string& name) const;
  /// What this member has seen of a suspect, or of one that is gone, in words.
  std::string why(const std::string& name, double now) const;
  /// From 0, all is well, to 8: a probe's period and timeout are 1 + this times as long.
  int local_health() const { return health_; }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  /// What only this member knows of another's present start.
  struct Track {
    double heard = -kNever, pinged = -kNever;  // heard: from itself, not of it, or it answered another for us
    double itself = -kNever;                   // of these, from itself
    double suspected = 0;
    double broken = -kNever, refused = -kNever;
    double ended = 0, next_ping = 0, wait = 0;  // dead or left since; dead: pinged again, and then after
    double told_all = -kNever;
    std::uint64_t turn = 0;  // among equals
  };
  struct Probe {
    std::string target;
    double due = 0;
    bool late = false;  // others are asked, if there are any
    std::set<std::string> asked{};
    std::size_t nacks = 0;
  };
  struct Relay {  // a ping for another member
    std::string asker, target;
    std::uint64_t number = 0;  // the asker's
    double nack_at = 0, end = 0;
  };
  struct Sought {
    Contact contact;
    std::uint64_t number = 0;
    double next_ping = 0, wait = 0;
  };
  struct Event {
    MemberRecord now;
    std::optional<MemberStatus> before;
  };
  using Kind = SwimBody::Kind;

  // knowledge (swim.cpp)
  bool silent() const { return superseded_.has_value(); }
  bool has_left() const { return members_.at(spec_.name).status == MemberStatus::left; }
  MemberRecord& self() { return members_.at(spec_.name); }
  bool is_alive(const std::string& name) const;
  void take_in(const MemberRecord& theirs, const std::string& from, double now);
  void take_in_of_self(const MemberRecord& theirs, double now);
  void on_namesake(const SwimBody& body);
  void note(const MemberRecord& record, double now);
  void doubt(const std::string& name, double now);
  void bury(const std::string& name, bool ended, double now);
  void note_heard(const std::string& name, std::uint64_t start, double now, bool itself = true);
  double verdict_at(const std::string& name) const;
  std::size_t living() const { return ring_.size() + diallers_.size(); }
  bool few() const { return living() <= spec_.most_targets + 1; }
  double draw();
  /// Ends every call from outside.
  void settle();

  // probes (swim_probes.cpp)
  double slower() const { return 1 + health_; }
  void change_health(int by);
  bool probing(const std::string& name) const;
  void begin_period(double now);
  void wait_on(double late);
  void probe(const std::string& name, double now);
  void ping(const std::string& name, std::uint64_t number, double now);
  void ask_others(std::uint64_t number, Probe& probe, double now);
  void give_up(const Probe& probe, double now);
  void answer_ping(const SwimBody& body, bool first, double now);
  void relay(const SwimBody& body, double now);
  void on_ack(const SwimBody& body, double now);
  void run_relays(double now);
  void seek(double now);
  void look_after_gone(double now);
  double next_of_gone() const;
  void drop(const std::string& name);

  // news (swim_news.cpp)
  SwimBody body_of(Kind kind, std::uint64_t number, const std::string& about) const;
  Contact contact_of(const std::string& name) const;
  void send(const std::string& to, SwimBody body) { host_.send(contact_of(to), std::move(body)); }
  void add_own_and_theirs(SwimBody& body, const std::string& to) const;
  void add_rumours(SwimBody& body, const std::string& to);
  std::size_t times_told() const;
  void spread(const std::string& name, const std::string& from, double now);
  void flush(bool everyone);
  /// first: what is filled before bodies of news follow; number: of the last, not 0 asks for as much.
  void tell_all(const std::string& to, SwimBody first, std::uint64_t number, double now);
  void exchange_all(double now);

  SwimSpec spec_;
  SwimHost& host_;
  std::mt19937_64 random_;
  std::map<std::string, MemberRecord> members_;
  std::map<std::string, Track> tracks_;
  Ring ring_;                              // all that are alive or suspect, but those
  std::set<std::string> diallers_;         // that cannot be dialled
  std::set<std::string> suspects_, gone_;  // gone: dead or left
  mutable std::optional<double> gone_at_;  // when one of these is due; none: not reckoned yet
  double gone_pings_until_ = -kNever;      // these would be sent by then, one after the other
  std::set<std::string> links_;
  bool links_everyone_ = false;
  std::optional<std::vector<std::string>> targets_;
  std::vector<Sought> sought_;

  int health_ = 0;
  std::uint64_t last_number_;
  std::map<std::uint64_t, Probe> probes_;
  std::map<std::uint64_t, Relay> relays_;
  double probe_at_, exchange_at_;
  std::size_t newcomers_ = 0;  // since the last exchange

  Rumours rumours_;
  std::map<std::string, std::string> news_;  // told of in a few milliseconds; from whom
  double news_at_ = kNever;

  std::vector<Event> events_;
  bool settling_ = false, told_superseded_ = false;
  std::optional<std::uint64_t> superseded_;
};

}  // namespace gossamer::node
