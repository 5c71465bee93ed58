#pragma once
// What must hold in every run, whatever the network does: checked from what an observer hears, without the
// code under test. The first breach is kept; what comes after it is ignored.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

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

/// What a run's method promises; from the job.
struct Promises {
  topology::Schedule schedule;
  std::optional<std::uint64_t> staleness;
  std::size_t peers, parcels;
  std::string method;
  /// Mixes a parcel when all that the round expects within the staleness has come (class Gossip).
  bool waits_for_neighbours;
  std::uint32_t vectors;  ///< that a neighbour sends of each parcel in a round; where waits_for_neighbours
  bool all_alike;         ///< peers' parameters stay identical to the bit
  bool reuses_messages;   ///< a message may be mixed more than once, or be overtaken by a newer one
  /// Every message that is sent is used, in order, once, and added with a weight. Of other methods, and those
  /// not known here, messages and weights are not followed.
  bool reliable;
  bool synchronous() const { return staleness == std::optional<std::uint64_t>(0); }
};
Promises promises_of(const Prepared& prepared);

/// A checker that may also look at a run's end; SimResult of a run in which nobody was interrupted.
class Checker : public Observer {
 public:
  virtual void at_end(const SimResult&) {}
};

/// Frames and bytes are conserved: nothing arrives that was not sent, copied or strayed, and what was sent
/// has arrived, was lost or is under way.
std::unique_ptr<Checker> check_frames(const Prepared& prepared, Findings& findings);
/// Every message of a link comes once, in order and as it was sent, and is used once, in its round.
std::unique_ptr<Checker> check_links(const Promises& promises, Findings& findings);
/// Peers go through their rounds one by one, mix with nothing older than the staleness allows, and end
/// together.
std::unique_ptr<Checker> check_rounds(const Promises& promises, const Prepared& prepared, Findings& findings);
/// The weights of what is combined sum to 1: every op runs again on sums of coefficients in place of vectors
/// (of models: x ends each mix with 1; of fresh gradients: 1 where the optimiser steps). What is used is
/// applied once; after a delta both ends of a link hold the same bits; decode(m) + e = g + e_before.
std::unique_ptr<Checker> check_floats(const Promises& promises, const Prepared& prepared, Findings& findings);

/// All of them. Also counts what happened, so that a swarm can show that rare branches were reached.
class Checkers final : public Observer {
 public:
  explicit Checkers(const Prepared& prepared, Observer* next = nullptr);
  const std::optional<Violation>& first() const { return findings_.first(); }
  Findings& findings() { return findings_; }
  double time() const { return findings_.time; }
  void at_end(const SimResult& result);
  std::uint64_t frames(Fate fate) const { return frames_[static_cast<std::size_t>(fate)]; }
  std::uint64_t messages() const { return messages_; }
  /// Deltas that asynchronous CHOCO left out because a link was full.
  std::uint64_t skipped_encodes() const;
  bool chunked() const { return chunked_; }

  void on_time(double time) override;
  void on_frame(Fate, PeerId, PeerId, std::span<const std::byte>) override;
  void on_crash(PeerId) override;
  void on_round(PeerId, Round) override;
  void on_send(PeerId, PeerId, const Message&) override;
  void on_message(PeerId, PeerId, const Message&) override;
  void on_used(PeerId, PeerId, const Message&) override;
  void on_mixed(PeerId, Round, ParcelId) override;
  void on_end(PeerId, const std::string&) override;
  void on_gradient(PeerId, Round) override;
  void on_op(PeerId, const Op&, const Replica&) override;
  void before_encode(PeerId, const op::Encode&, std::span<const float>,
                     const compress::FeedbackState*) override;
  void after_encode(PeerId, const op::Encode&, const compress::FeedbackState*, const Payload&) override;

 private:
  template <class Call>
  void each(Call&& call) {
    for (Observer* o : all_)
      if (!first()) call(*o);
  }
  Findings findings_;
  std::vector<std::unique_ptr<Checker>> checkers_;
  std::vector<Observer*> all_;
  std::uint64_t frames_[9] = {};
  std::uint64_t messages_ = 0, expected_deltas_ = 0;
  bool chunked_ = false;
  Promises promises_;
};

}  // namespace gossamer::node
