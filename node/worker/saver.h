#pragma once
// Saver knows after which rounds a peer keeps a checkpoint. Peers that wait for each other save after the
// same rounds: the multiples of a number, or, where they go by time, a round that one of them proposes and
// that spreads with the signs of life; who has already begun a later round when it hears of it proposes a
// later one, and the greatest counts; who is there holds until all hold and nothing is under way, so
// that the states that they copy then are of one moment of the run. What a peer that has gone on sends to one
// that has not copied its state yet waits there. Peers that wait for nobody save each at their own time.
//
// Where members may leave, who is told to end proposes such a round, too: there all are at rest, it leaves,
// and nothing that was under way is lost.
//
// No clocks are compared: each peer measures how long its own last save is ago, and whoever comes first
// proposes.
#include <optional>

#include "saves.h"

namespace gossamer::node {

struct SaveSpec {
  std::uint64_t every_rounds = 0;
  double every_s = 0;    ///< in place of rounds
  bool together = true;  ///< peers wait for each other
  bool leave = false;    ///< a peer that is told to end leaves the others, and they go on without it
  bool keeps() const { return every_rounds > 0 || every_s > 0; }  ///< else nothing is copied
  bool on() const { return keeps() || leave; }
};

class Saver {
 public:
  Saver() = default;
  Saver(const SaveSpec& spec, std::size_t peers, PeerId self);

  bool on() const { return spec_.on(); }
  bool keeps() const { return spec_.keeps(); }
  /// Training begins after so many rounds, which need no checkpoint any more.
  void begin(Round done, double now);
  /// A round has ended. took_s: how long rounds take. True where there is news.
  bool on_round(Round done, double now, double took_s);
  /// A save is wanted soon, whenever it is due. True where that is news; where one that all know of is still
  /// to come, it is not.
  bool ask(Round done, double took_s);
  /// under_way: the round after `done` has begun. True where there is news.
  bool merge(const SaveNews& theirs, Round done, bool under_way, double took_s);
  /// The round by which the checkpoint that is due after so many rounds is known; empty: none is.
  std::optional<Round> due(Round done) const;
  /// This peer holds for it, and all that it sent has been received. True where that is news.
  bool hold(Round name);
  /// It may be taken: all peers hold for it.
  bool agreed(Round name) const;
  /// A message of that round is of a peer that has gone on behind the checkpoint to come.
  bool beyond(Round round) const;
  /// The checkpoint of that name was taken, or passed over.
  void taken(Round name, double now);
  /// It is on disk. True where there is news.
  bool committed(Round name);
  /// As of the first peer, which evaluates.
  bool judge(Round best, Round as_of);
  const SaveNews& news() const { return news_; }
  /// All that was asked for was taken; and is on disk, of all peers where they save together.
  bool all_taken() const { return taken_ >= news_.at; }
  /// This peer leaves, or all that are told to end save together. True where it is news.
  bool leave();
  /// Nobody goes on from here: some leave, and this peer has taken what was to be taken before.
  bool parting() const { return spec_.together && !news_.leaving.empty() && all_taken(); }
  bool all_leave() const { return news_.leaving.size() == news_.committed.size(); }
  /// All that was asked for was taken; by all peers where they save together.
  bool may_leave() const { return all_taken() && (!spec_.together || news_.all_took(news_.at)); }
  bool all_committed() const {
    return news_.at > 0 && (spec_.together ? news_.common() : news_.committed[self_]) >= news_.at;
  }

 private:
  std::optional<Round> next() const;
  Round soon(Round done, double took_s) const;

  SaveSpec spec_;
  PeerId self_ = 0;
  SaveNews news_;
  Round taken_ = 0;
  double next_s_ = 0;  ///< where it goes by time
};

}  // namespace gossamer::node
