#pragma once
// Bugs on purpose, to show that the swarm of simulated runs finds such ones (tests/planted). They exist only
// in builds with -DGOSSAMER_PLANTED=ON; in any other, Planted is empty, says no to every question, and the
// branches that ask vanish.
#include <array>
#include <cstdint>
#include <type_traits>

namespace gossamer::node {

constexpr bool kPlantable = GOSSAMER_PLANTED;

enum class Bug : std::uint8_t {
  none,
  duplicate_delivered,       ///< link: a frame that came before is delivered again
  early_acknowledgement,     ///< link: frames behind a gap are acknowledged, and the gap with them
  gap_passed,                ///< link: the reorder buffer delivers what came over a gap
  resent_renumbered,         ///< link: what is resent gets a new number
  chunks_unchecked,          ///< link: a payload counts as whole one chunk early
  staleness_off_by_one,      ///< gossip: mixes with messages one round older than a bound above 0 allows
  wrong_round_mixed,         ///< gossip: the newest message is mixed instead of this round's
  arrival_order,             ///< allreduce: slices are added as they come, not in peer order
  delta_applied_twice,       ///< choco: the last delta of several is absorbed twice
  delta_encoded_not_sent,    ///< choco: a link that is full is skipped after encoding
  weights_not_renormalised,  ///< dpsgd: the weight of a neighbour not heard yet is nobody's
  epoch_not_checked,         ///< membership: frames of a sender's earlier start are taken
  silence_not_noticed,       ///< membership: a silent neighbour never counts as lost
  residual_not_updated,      ///< replica: the residual stays as it was
  owner_keeps_its_average,   ///< allreduce: a slice's owner applies the average, not the decoded bytes
  consumed_unused,           ///< gossip: of two waiting messages the older is dropped
  older_delivered,           ///< link, best effort: a message that a newer one overtook is delivered
  share_sent_alone,          ///< push_sum: a message holds the last share alone; what a lost one held is lost
  sum_taken_whole,           ///< push_sum: what was taken before is taken again
  answer_not_taken,          ///< pairwise: who asked stays where it was
  residue_read_below,        ///< moniqua: the number of that residue below the own one, not the nearest
  outer_step_twice,          ///< diloco: the outer step is taken twice
  residual_kept_whole,       ///< sparse_loco: what was sent stays in the residual
  late_gradient_dropped,     ///< backup: of several gradients of one sender only the first is added
  model_added_to_old,        ///< ensemble: a neighbour's new model is added to its old one
  later_round_taken,         ///< worker: a message of any round and tag counts as one that is due
  payload_unchecked,         ///< worker: what does not decode is taken
  rows_pushed_early,         ///< rows: what came of the next round is applied in this one
  rows_pushed_twice,         ///< rows: the last message of several is applied twice
  row_change_lost,           ///< rows: the last change of a step is neither sent nor kept
  tracker_not_emptied,       ///< gradient_tracking: y begins with what is in its slot
  samples_counted_again,  ///< unbounded: what a peer has taken in counts again with all that is heard of it
  // found by tests/node/sim/test_view_rows.cpp, as runs of a simulated swarm have fixed members
  rows_of_old_number,  ///< views: a peer trains the rows of who has its old number in the view
  pass_begun_anew,     ///< views: the pass over its rows that a peer was in begins where the run is
  // of members that come and go
  refuted_by_no_more,  ///< swim: a refutation has the number of what it refutes
  old_start_taken,     ///< swim: news of a member's earlier start replaces that of its present one
  dead_forgotten,      ///< swim: the dead are forgotten at once, and late news of them is taken for new
  old_view_taken,      ///< worker: parcels of any view are taken
  names_believed,      ///< member: whose name stands in a frame is taken for its sender
  attempt_kept,        ///< member: a view that failed is begun again under the same number
  opened_early,        ///< member: a view begins before all its members have announced it
  least_share_taken,   ///< member: a view goes on from the member that is least far
  piece_unchecked,     ///< member: a state that was fetched is taken whatever its hash
  state_not_restored,  ///< member: a view begins at x⁰, not with what was learned
  learned_dropped,     ///< member: what others may still fetch is dropped when the own view begins
  few_go_on,           ///< member: fewer than run.min_peers go on
  stepped_in_part,     ///< full reduces: each parcel steps when its own sum is there
  both_sides_train,  ///< member: every side of a network that has fallen apart takes itself for the majority
  merge_unweighted,  ///< member: models of several sides count alike when they meet again
  sums_forgotten_between_views,  ///< push_sum: in a view the sums of all pairs begin at 0
  dead_mass_kept_twice,          ///< push_sum: what the dead are known to have got more than given comes back
  seeming_dead_written_off,      ///< member: who seems dead counts as one that cannot come back
};
/// Those that a network of Swims alone shows, too (tests/node/member/test_swim_network.cpp).
inline constexpr std::array kMemberBugs{Bug::refuted_by_no_more, Bug::old_start_taken, Bug::dead_forgotten};

inline constexpr std::array kRowBugs{Bug::rows_of_old_number, Bug::pass_begun_anew};

struct BugName {
  Bug bug;
  const char* name;
};
inline constexpr std::array kBugs{
    BugName{Bug::duplicate_delivered, "duplicate_delivered"},
    BugName{Bug::early_acknowledgement, "early_acknowledgement"},
    BugName{Bug::gap_passed, "gap_passed"},
    BugName{Bug::resent_renumbered, "resent_renumbered"},
    BugName{Bug::chunks_unchecked, "chunks_unchecked"},
    BugName{Bug::staleness_off_by_one, "staleness_off_by_one"},
    BugName{Bug::wrong_round_mixed, "wrong_round_mixed"},
    BugName{Bug::arrival_order, "arrival_order"},
    BugName{Bug::delta_applied_twice, "delta_applied_twice"},
    BugName{Bug::delta_encoded_not_sent, "delta_encoded_not_sent"},
    BugName{Bug::weights_not_renormalised, "weights_not_renormalised"},
    BugName{Bug::epoch_not_checked, "epoch_not_checked"},
    BugName{Bug::silence_not_noticed, "silence_not_noticed"},
    BugName{Bug::residual_not_updated, "residual_not_updated"},
    BugName{Bug::owner_keeps_its_average, "owner_keeps_its_average"},
    BugName{Bug::consumed_unused, "consumed_unused"},
    BugName{Bug::older_delivered, "older_delivered"},
    BugName{Bug::share_sent_alone, "share_sent_alone"},
    BugName{Bug::sum_taken_whole, "sum_taken_whole"},
    BugName{Bug::answer_not_taken, "answer_not_taken"},
    BugName{Bug::residue_read_below, "residue_read_below"},
    BugName{Bug::outer_step_twice, "outer_step_twice"},
    BugName{Bug::residual_kept_whole, "residual_kept_whole"},
    BugName{Bug::late_gradient_dropped, "late_gradient_dropped"},
    BugName{Bug::model_added_to_old, "model_added_to_old"},
    BugName{Bug::later_round_taken, "later_round_taken"},
    BugName{Bug::payload_unchecked, "payload_unchecked"},
    BugName{Bug::rows_pushed_early, "rows_pushed_early"},
    BugName{Bug::rows_pushed_twice, "rows_pushed_twice"},
    BugName{Bug::row_change_lost, "row_change_lost"},
    BugName{Bug::tracker_not_emptied, "tracker_not_emptied"},
    BugName{Bug::samples_counted_again, "samples_counted_again"},
};
/// Found by runs in which members come and go (gossamer sim --churn).
inline constexpr std::array kChurnBugs{
    BugName{Bug::refuted_by_no_more, "refuted_by_no_more"},
    BugName{Bug::old_start_taken, "old_start_taken"},
    BugName{Bug::dead_forgotten, "dead_forgotten"},
    BugName{Bug::old_view_taken, "old_view_taken"},
    BugName{Bug::names_believed, "names_believed"},
    BugName{Bug::attempt_kept, "attempt_kept"},
    BugName{Bug::opened_early, "opened_early"},
    BugName{Bug::least_share_taken, "least_share_taken"},
    BugName{Bug::piece_unchecked, "piece_unchecked"},
    BugName{Bug::state_not_restored, "state_not_restored"},
    BugName{Bug::learned_dropped, "learned_dropped"},
    BugName{Bug::few_go_on, "few_go_on"},
    BugName{Bug::stepped_in_part, "stepped_in_part"},
    BugName{Bug::both_sides_train, "both_sides_train"},
    BugName{Bug::merge_unweighted, "merge_unweighted"},
    BugName{Bug::sums_forgotten_between_views, "sums_forgotten_between_views"},
    BugName{Bug::dead_mass_kept_twice, "dead_mass_kept_twice"},
    BugName{Bug::seeming_dead_written_off, "seeming_dead_written_off"},
};

struct NothingPlanted {
  constexpr NothingPlanted(Bug = Bug::none) {}
  constexpr bool is(Bug) const { return false; }
};
struct OnePlanted {
  Bug bug = Bug::none;
  constexpr OnePlanted(Bug b = Bug::none) : bug(b) {}
  constexpr bool is(Bug b) const { return bug == b; }
};
/// Handed down from Prepared to every part that a bug can be planted in.
using Planted = std::conditional_t<kPlantable, OnePlanted, NothingPlanted>;

}  // namespace gossamer::node
