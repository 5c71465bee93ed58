#pragma once
// These functions take a run's initial parameters from another peer, where every peer has drawn its own.
#include <functional>
#include <optional>
#include <string>

#include "asking.h"
#include "setup.h"

namespace gossamer::node {

/// Whether a peer of that job has to ask.
bool may_differ(const Prepared& base);
/// Of a run that it joins, by its member there; else of the job's other peers, by whichever has begun. The
/// job's first peer that others can reach begins with its own, unless the others have begun already. Waits
/// for run.join_timeout at most; nothing where none answered. stop: is asked a few times a second.
std::optional<OthersInitial> initial_of_others(const Prepared& base, const std::string& name,
                                               const std::string& join, const std::function<bool()>& stop);
/// The same run that begins with those.
Prepared with_initial(const Prepared& base, AlignedFloats initial);

}  // namespace gossamer::node
