#pragma once
// Reasons that several methods share for what they are not sound with; see Needs.

namespace gossamer::node {

inline constexpr const char* kOneSum =
    "a sum over all peers is complete only when every peer has sent, so there is nothing to be late with; "
    "use "
    "staleness = 0, or method 'dpsgd' or 'choco'";
inline constexpr const char* kAllLinked =
    "every peer sends to every other; use graph.kind 'full', or method 'choco' for compressed gossip";
inline constexpr const char* kMeanDrifts =
    "or the mean of the peers drifts to those with heavy columns; use graph.weights = 'metropolis'";
inline constexpr const char* kLockstep =
    "its messages belong to one round; use staleness = 0, or method 'dpsgd' or 'choco'";
inline constexpr const char* kWholeState =
    "exchanges whole vectors, and those do not converge under a lossy codec; use codec 'dense', or method "
    "'choco' "
    "for compressed gossip";

inline constexpr const char* kOuterDelay =
    "its messages belong to one exchange; use staleness = 0 and exchange.outer_delay, which lets training go "
    "on while they travel";

}  // namespace gossamer::node
