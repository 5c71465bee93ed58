#pragma once
// The shapes of peers whose models have hidden sizes of their own.
#include "setup.h"

namespace gossamer::node {

/// By peer, without codecs; peers of the same hidden sizes share one. Empty where all have the job's.
std::vector<std::shared_ptr<const Shape>> shapes_of(const Prepared& prepared);
/// Those of `prepared` with the codecs that its job says.
std::vector<std::shared_ptr<const Shape>> with_codecs(const Prepared& prepared);
/// By peer; those of one shape share a list.
SharedList<SharedList<Parcel>> parcels_by_peer(const Prepared& prepared);

}  // namespace gossamer::node
