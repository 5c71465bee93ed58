#pragma once
// Pace knows how long a peer and its neighbours take from one exchange to the next, and by that from when on
// somebody is late, and how many local steps fit into the time that the others take:
//
//   deadline = m + k · max(MAD, m / 20)      m = median of the peers' medians m_j of t,
//                                            MAD = median of |t − m_j| over all peers' times
//
// t: of the peer itself, how long it computed; of a neighbour, what passed here from the round's begin till
// the last that it sent of that round had come; 0 where that was here before. Those of this peer's last 16
// exchanges count, so that the deadline follows peers that become faster or slower, whatever less than half
// of them do (the median breaks down at one half; Hampel 1974, "The influence curve and its role in robust
// estimation"). Of normal times MAD is 0.67 standard deviations, k = 6 four of them. m / 20 keeps times that
// are all but equal from being told apart. Deviations are from each peer's own median: a neighbour that is
// ahead or behind by as much always, since others have been waited for, would otherwise widen the deadline,
// by which others are waited for, without end. Until 8 times are known, and in the first 4 exchanges, nobody
// is late. Of two peers nobody can say which one is the slow one: m is between them.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "ids.h"

namespace gossamer::node {

class Pace {
 public:
  /// k: as above; interval: rounds from one exchange to the next.
  Pace(double k, std::uint64_t interval);

  /// Rounds ascend; some may be left out.
  void begin(Round round, double now);
  /// This peer has computed for so long in the round, or not at all (0).
  void computed(Round round, double seconds);
  /// Something of a round in which the neighbour sends has come; its rounds ascend.
  void heard(PeerId from, Round round, double now);

  /// Seconds from an exchange's first round; none: too little is known.
  std::optional<double> deadline() const;
  /// Of `interval`, at least 1: as many as take this peer no longer than the deadline.
  std::uint64_t steps() const;

 private:
  struct Time {
    PeerId of;
    std::uint64_t begun;  ///< rounds of this peer by then
    double seconds;
  };
  struct Coming {  // from a neighbour
    Round round = 0;
    double at = 0;
  };
  void add(PeerId of, double seconds) { times_.push_back({of, begun_rounds_, seconds}); }
  Round first_of(Round round) const { return round + 1 - std::min<Round>(round + 1, interval_); }

  double k_;
  Round interval_;
  Round round_ = 0;
  std::uint64_t begun_rounds_ = 0;
  std::map<Round, double> begun_;
  std::map<PeerId, Coming> coming_;
  std::deque<Time> times_;
  std::deque<double> steps_;  ///< what one took this peer, on average, in its last exchanges
  double own_ = 0;            ///< since the last exchange, in so many steps
  std::uint64_t own_steps_ = 0;
};

double median(std::deque<double> values);

}  // namespace gossamer::node
