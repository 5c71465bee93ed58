#pragma once
// Membership knows who takes part: the ready handshake before the first round, signs of life, and what is
// known of every peer. Control only; time comes in as an argument.
#include <optional>
#include <string>
#include <vector>

#include "by_peer.h"
#include "frame.h"
#include "planted.h"
#include "shared_list.h"

namespace gossamer::node {

struct MembershipSpec {
  PeerId self = 0;
  SharedList<std::string> names;  ///< of all peers
  std::vector<PeerId> links;      ///< peers that frames are exchanged with; ascending
  HelloBody hello;                ///< what this peer stands for; heard_epoch and status are filled in
  std::uint64_t epoch = 0;
  double join_timeout_s = 60;
  double silence_timeout_s = 4;
  bool ready = true;  ///< else the others are kept waiting until become_ready
  [[no_unique_address]] Planted planted{};
};

/// Time from a broken connection to the verdict, unless the peer is heard again.
constexpr double kBrokenGrace_s = 1.0;
/// Frames that are read this soon after a connection broke do not show that the peer lives.
constexpr double kBrokenEcho_s = 0.25;
constexpr double kHelloEvery_s = 0.2;
constexpr double kAliveEvery_s = 0.5;

class Membership {
 public:
  Membership(MembershipSpec spec, double now);

  /// A hello from a link. Returns what differs ("" where all agrees).
  std::string on_hello(PeerId from, const FrameHeader& header, const HelloBody& hello, double now);
  /// Whether frames of this epoch are that neighbour's; also counts as a sign of life.
  bool heard(PeerId from, std::uint64_t epoch, double now);
  /// Merges what a neighbour knows; true where something was news.
  bool merge(PeerId from, const PeerStates& theirs);
  void on_broken(PeerId link, double now);
  /// A peer was started anew while the others train.
  bool restarted(PeerId from, std::uint64_t epoch) const;
  /// The neighbour has been heard and is not known to have gone.
  bool reachable(PeerId link) const { return of(link).epoch != 0 && status_[link] < PeerStatus::left; }

  /// Marks links that have been silent too long as lost; true where that is news. A peer that is done may be
  /// silent.
  bool find_lost(double now);
  /// A link that had finished its rounds and has been silent too long: it has ended, or it died while it
  /// served.
  bool gone_after_done(PeerId link, double now) const;
  /// Every link has said that it knows all peers to be done, or has gone.
  bool completion_acknowledged(double now) const;
  double next_deadline() const;
  HelloBody hello_for(PeerId to) const;

  /// Of a link; 0: not heard yet.
  std::uint64_t epoch_of(PeerId link) const { return of(link).epoch; }
  /// Both sides have each other's hello.
  bool linked(PeerId peer) const { return of(peer).linked; }
  bool set(PeerId peer, PeerStatus status);
  /// True where it is news.
  bool become_ready();
  PeerStatus status(PeerId peer) const { return status_[peer]; }
  const PeerStates& all() const { return status_; }
  bool all_at_least(PeerStatus least) const { return status_.all_at_least(least); }
  bool any(PeerStatus status) const { return status_.any(status); }
  double join_deadline() const { return started_ + spec_.join_timeout_s; }
  std::vector<std::string> names_with(PeerStatus status) const;
  const std::vector<PeerId>& links() const { return spec_.links; }

 private:
  struct Neighbour {
    PeerId peer = 0;
    std::uint64_t epoch = 0;  ///< 0: not heard yet
    bool linked = false;      ///< both sides have each other's hello
    double last_heard = 0;
    std::optional<double> broken_at;
    bool knows_the_end = false;  ///< its last word: every peer is done
  };
  Neighbour& of(PeerId peer) { return neighbours_[peer]; }
  const Neighbour& of(PeerId peer) const { return neighbours_[peer]; }
  double verdict_at(const Neighbour& n) const;
  bool set_present();

  MembershipSpec spec_;
  double started_;
  ByPeer<Neighbour> neighbours_;
  PeerStates status_;
};

}  // namespace gossamer::node
