#pragma once
// What a peer tells while it trains and when it has ended, as plain structs.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gossamer/optim/objective.h"

namespace gossamer::node {

/// Sent every run.report_every seconds, and with each evaluation.
struct Report {
  std::uint64_t round = 0;  ///< rounds finished
  double epoch = 0;
  double share_done = 0;  ///< of the run
  double loss = 0;        ///< mean training loss since the last report; NaN where no step fell into it
  double rows_per_second = 0;
  double bytes_out_per_second = 0, bytes_in_per_second = 0;
  double staleness = 0;  ///< largest age in rounds of a neighbour's message used since the last report
  std::uint64_t skipped_steps = 0;  ///< so far: their loss, or something of their gradient, was not finite
  std::uint64_t held_back = 0;  ///< messages so far that were left out because a neighbour's queue was full
  std::uint64_t queued_bytes = 0;      ///< held for all neighbours now: not acknowledged, or not sent yet
  std::uint64_t peers = 0;             ///< that take part, this one included
  std::optional<optim::Figures> test;  ///< of the model that the peer has now
};

/// What a peer learns of another one, where members may change.
struct MemberEvent {
  enum class What { came, suspected, refuted, gone, left, back };
  What what = What::came;
  std::string peer{};
  std::string why{};        ///< of one that is suspected, gone, left or back
  std::uint64_t start = 0;  ///< of the peer: a later one has a greater number
  double share_done = 0;    ///< of the run
};

enum class Outcome {
  running,
  finished,
  lost_peer,  ///< another peer went away, or did not appear
  stalled,
  bad_input,  ///< peers were not started for the same run
  failed,     ///< training diverged, or the program's own code threw
  interrupted
};

/// Of one peer, when it has ended.
struct PeerResult {
  Outcome outcome = Outcome::running;
  std::string message;  ///< what happened; empty where finished
  std::uint64_t rounds = 0;
  std::uint64_t rows = 0;                     ///< samples seen
  double train_loss = 0;                      ///< mean over the last epoch's steps; NaN where there was none
  double seconds = 0;                         ///< from the first round's start to the last round's end
  std::uint64_t bytes_out = 0, bytes_in = 0;  ///< all frames
  double staleness_mean = 0;                  ///< rounds
  std::uint64_t staleness_max = 0;
  std::uint64_t skipped_steps = 0;  ///< their loss, or something of their gradient, was not finite
  std::vector<std::string> muted;   ///< neighbours that are not read any more: their payloads did not decode
};

}  // namespace gossamer::node
