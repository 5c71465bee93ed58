#pragma once
// Checkers hold every run to its invariants, whatever the network does: checked from what an observer hears,
// without the code under test. The first breach is kept; what comes after it is ignored.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "method.h"
#include "observer.h"
#include "setup.h"
#include "simulation.h"

namespace gossamer::node {

struct Violation {
  std::string checker;  ///< "links", "frames" …
  std::string what;     ///< peer, round, parcel; what was found and what was expected
  double time = 0;      ///< of the run, seconds
};

/// Where checkers put what they find.
class Findings {
 public:
  void report(const char* checker, std::string what) {
    if (!first_) first_ = Violation{checker, std::move(what), time};
  }
  const std::optional<Violation>& first() const { return first_; }
  double time = 0;

 private:
  std::optional<Violation> first_;
};

/// What must hold of a run by its method; from the job.
struct Invariants {
  topology::Schedule schedule;
  std::optional<std::uint64_t> staleness;
  std::size_t peers, parcels;
  bool rows;  ///< of tables are exchanged, as one parcel more
  std::uint64_t rounds;
  double samples;  ///< of all peers, that end the run; 0: their rounds do
  MethodInvariants::Own own;
  /// Mixes a parcel when all that the round expects within the staleness has come (class Gossip).
  bool waits_for_neighbours;
  std::uint32_t vectors;  ///< that a neighbour sends of each parcel in a round; where waits_for_neighbours
  bool whole_models;      ///< mixes when a neighbour's parcels have all come
  bool all_alike;         ///< peers' parameters stay identical to the bit
  bool adds_what_came;    ///< what a round went on without is added later
  bool leaves_out;        ///< a delta is not sent over a full link
  bool reuses_messages;   ///< a message may be mixed more than once, or be overtaken by a newer one
  bool drops_messages;    ///< a message may be used up and added to nothing: overtaken, or declined
  bool best_effort;       ///< messages may be lost; of a parcel and tag, older ones never follow newer ones
  bool forged;          ///< a frame that was lost may come after the next, where a wrong one took its number
  std::size_t backup;   ///< neighbours that a round does not wait for; then rounds may be skipped
  std::uint64_t delay;  ///< synchronous: rounds from a message's own to the one that uses it
  std::vector<std::pair<PeerId, PeerId>> former;  ///< as Plan::former: their messages are used when they come
  /// Every message is used in its round, so that the run ends with the same bits whatever the network does.
  bool synchronous() const { return staleness == std::optional<std::uint64_t>(0) && backup == 0; }
  bool settles(PeerId from, PeerId to) const {
    return std::find(former.begin(), former.end(), std::pair(from, to)) != former.end();
  }
  /// Synchronous: the run is over before the message is used.
  bool never_applied(Round round) const { return round + delay >= rounds; }
};
/// Messages are followed in every method, and so are the weights of what is combined. Not followed: in which
/// round an asynchronous or partial method uses a message; what a codec or an aggregation rule makes of its
/// vectors (of a rule: that it is given each neighbour's once, with weights that sum to 1); velocities under
/// momentum correction, which hold what their gradients held. Methods with checks of their own: push_sum
/// (check_mass), pairwise (check_pairs), moniqua (check_residues), gradient_tracking (check_tracking),
/// diloco, noloco and sparse_loco (check_outer).
Invariants invariants_of(const Prepared& prepared);

/// A checker that may also look at a run's end; SimResult of a run in which nobody was interrupted.
class Checker : public Observer {
 public:
  virtual void at_end(const SimResult&) {}
};

/// Frames and bytes are conserved: nothing arrives that was not sent, copied or strayed, and what was sent
/// has arrived, was lost or is under way.
std::unique_ptr<Checker> check_frames(const Prepared& prepared, Findings& findings);
/// Every message of a link comes once, in order and as it was sent, and is used once, in its round. Under
/// best effort it may be lost, and of a parcel and tag the newest that came is not followed by an older one.
std::unique_ptr<Checker> check_links(const Invariants& invariants, Findings& findings);
/// Peers go through their rounds one by one, mix with nothing older than the staleness allows, and end
/// together: after all rounds, or where nobody waits, not before all have taken in the samples. With a
/// backup, rounds only ascend, and as many neighbours are left out as it allows.
std::unique_ptr<Checker> check_rounds(const Invariants& invariants, const Prepared& prepared,
                                      Findings& findings);
/// The weights of what is combined sum to 1: every op runs again on sums of coefficients in place of vectors
/// (of models: x ends each mix with 1; of fresh gradients: 1 where the optimiser steps). What is used is
/// applied once; after a delta both ends of a link hold the same bits; decode(m) + e = g + e_before. The
/// models that label a batch (method ensemble) are whole and weigh 1 together.
std::unique_ptr<Checker> check_floats(const Invariants& invariants, const Prepared& prepared,
                                      Findings& findings);
/// push_sum: its mass, in units of the last bit. Of value and of weight, Σ over peers of what is held and
/// over edges of what is under way (sent in all less taken in all) is what it was at the start, less the
/// steps. It is so at every moment because no op changes held + Σ sent − Σ taken of its own peer but by the
/// step, and what was taken over an edge is what had been sent over it at some time, ever later ones.
std::unique_ptr<Checker> check_mass(const Invariants& invariants, const Prepared& prepared,
                                    Findings& findings);
/// pairwise: who is asked moves by half the difference, who asked by as much the other way, once each: x
/// moves by nothing else but steps.
std::unique_ptr<Checker> check_pairs(const Invariants& invariants, const Prepared& prepared,
                                     Findings& findings);
/// moniqua: a residue is read as what its sender rounded, left out only where the two were too far apart, and
/// weighed by the mixing matrix.
std::unique_ptr<Checker> check_residues(const Invariants& invariants, const Prepared& prepared,
                                        Findings& findings);
/// diloco, noloco, sparse_loco: every outer round's outer step is what plain loops over its messages make of
/// it, once; where all peers have one mean, φ is the same bits on all of them.
std::unique_ptr<Checker> check_outer(const Invariants& invariants, const Prepared& prepared,
                                     Findings& findings);
/// gradient_tracking: Σ over peers of the trackers is Σ of their gradients, but for rounding. Null where the
/// weights say otherwise.
std::unique_ptr<Checker> check_tracking(const Invariants& invariants, const Prepared& prepared,
                                        Findings& findings);
/// Rows of tables: what a peer's steps change is told or kept, and all that was told is applied once, in
/// order, by everyone.
std::unique_ptr<Checker> check_rows_told(const Invariants& invariants, Findings& findings);

/// Rows of a data set: none is trained twice in a pass of a peer over its rows, nor by two peers whose passes
/// of the same number began among the same peers; so that all are trained once in an epoch in which nobody
/// comes or goes. Null where rows are not dealt out by epochs.
std::unique_ptr<Checker> check_trained(const Prepared& prepared, Findings& findings);

/// All of them. Also counts what happened, so that a swarm can show that rare branches were reached.
class Checkers final : public Observer {
 public:
  /// from_initial: false where peers begin with what they had learned, which most checks of one method do not
  /// follow.
  explicit Checkers(const Prepared& prepared, Observer* next = nullptr, bool from_initial = true);
  const std::optional<Violation>& first() const { return findings_.first(); }
  Findings& findings() { return findings_; }
  double time() const { return findings_.time; }
  /// When a peer began a round last.
  double round_begun() const { return round_begun_; }
  void at_end(const SimResult& result);
  std::uint64_t frames(Fate fate) const { return frames_[static_cast<std::size_t>(fate)]; }
  std::uint64_t messages() const { return messages_; }
  /// Deltas that asynchronous CHOCO left out because a link was full.
  std::uint64_t skipped_encodes() const;
  bool chunked() const { return chunked_; }
  std::uint64_t declined() const { return declined_; }  ///< requests of pairwise

  void on_time(double time) override;
  void on_frame(Fate, PeerId, PeerId, std::span<const std::byte>) override;
  void on_crash(PeerId) override;
  void on_round(PeerId, Round) override;
  void on_send(PeerId, PeerId, const Message&) override;
  void on_message(PeerId, PeerId, const Message&) override;
  void on_used(PeerId, PeerId, const Message&) override;
  void on_mixed(PeerId, Round, ParcelId) override;
  void on_end(PeerId, const std::string&) override;
  void on_gradient(PeerId, const Gradient&) override;
  void on_rows(PeerId, std::span<const std::uint32_t>) override;
  void on_view(PeerId, const std::vector<std::string>&, Round) override;
  void on_op(PeerId, const Op&, const DataView&) override;
  void before_encode(PeerId, const op::Encode&, std::span<const float>,
                     const compress::FeedbackState*) override;
  void after_encode(PeerId, const op::Encode&, const compress::FeedbackState*, const Payload&) override;

 private:
  struct Seat {
    Observer* observer;
    bool rows;  ///< is told of messages of rows, too
  };
  template <class Call>
  void each(Call&& call) {
    for (const Seat& seat : all_)
      if (!first()) call(*seat.observer);
  }
  template <class Call>
  void each(ParcelId parcel, Call&& call) {
    for (const Seat& seat : all_)
      if (!first() && (seat.rows || parcel < invariants_.parcels)) call(*seat.observer);
  }
  Findings findings_;
  std::vector<std::unique_ptr<Checker>> checkers_;
  std::vector<Seat> all_;
  std::uint64_t frames_[11] = {};
  std::uint64_t messages_ = 0, expected_deltas_ = 0, declined_ = 0;
  double round_begun_ = 0;
  bool chunked_ = false;
  Invariants invariants_;
};

}  // namespace gossamer::node
