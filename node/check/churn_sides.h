#pragma once
// ChurnSides follow the sides into which a swarm's network falls apart: which views go on at the same time,
// what each has trained since they parted, and what becomes of their models when they meet.
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "checkers.h"
#include "meeting.h"
#include "view_observer.h"

namespace gossamer::node {

class ChurnSides {
 public:
  ChurnSides(const Prepared& prepared, Findings& findings);

  void on_start(PeerId peer, std::uint64_t start);
  void on_crash(PeerId peer) { processes_[peer].gone = true; }
  /// places: of the view's seats, in the job.
  void on_enter(PeerId peer, const ViewObserver::Entry& entry, const std::vector<PeerId>& places);
  /// It begins a round of the view.
  void on_round(PeerId peer);
  void on_leave(PeerId peer, double share, std::span<const float> parameters);
  void on_merge(PeerId peer, const std::vector<std::pair<PeerId, double>>& weights);
  /// Whether it goes on from several models; reports where these are not their mean.
  bool check_merged(PeerId peer, std::span<const float> parameters);
  std::uint64_t merged() const { return merged_; }

 private:
  using Start = std::pair<PeerId, std::uint64_t>;
  using Held = std::map<Start, std::uint64_t>;
  /// One attempt at a view.
  struct Side {
    std::vector<PeerId> places;
    std::vector<std::uint64_t> starts;
    double share = 0, rounds_per_share = 0;
    Held held, left;                           ///< by its members when they came, and when they left
    bool guessed = false;                      ///< what they held: some had fetched it
    double began = -1, waited = 0;             ///< its first round; since the members' last one before
    std::set<std::shared_ptr<Side>> before{};  ///< in which members trained last
    bool has(const Start& start) const;
  };
  struct Left {
    std::shared_ptr<Side> side;
    std::vector<float> parameters;
  };
  struct Process {
    std::uint64_t start = 0;
    bool gone = false;
    std::shared_ptr<Side> side{}, trained{};
    bool left_side = false;  ///< it is between two views, or has ended there
    double last_round = 0;
    std::deque<Left> left{};  ///< its last views
    std::vector<std::pair<PeerId, double>> merges{};
  };

  static void take_most(Held& all, const Held& more);
  void begin(Side& side);
  void check_others(const Side& side);
  bool is_mean(PeerId peer, std::span<const float> parameters) const;
  /// The least and the most that the other's model may weigh.
  std::pair<double, double> weights_of(PeerId peer, const Held& own, const Held& other) const;

  const Prepared& prepared_;
  Findings& findings_;
  bool one_side_;  ///< at most may go on at a time
  std::uint64_t under_way_;
  std::vector<Process> processes_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::weak_ptr<Side>> sides_;
  std::uint64_t merged_ = 0;
};

}  // namespace gossamer::node
