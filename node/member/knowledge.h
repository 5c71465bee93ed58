#pragma once
// What members know of each other only grows, in one order, so that all who have heard the same news,
// whatever their order and number, know the same. A greater start comes before all of a smaller one. Of one
// start `left` is the last word; else the greater refutation wins, and of equal ones ended over dead over
// suspect over alive (Das, Gupta, Motivala, "SWIM", DSN 2002, section 4.2; but a refutation brings the dead
// back, too, since whoever was cut off lives). Words and doubts grow apart from that.
#include "planted.h"
#include "swim_body.h"

namespace gossamer::node {

struct News {
  bool start = false, standing = false, word = false, doubts = false;
  explicit operator bool() const { return start || standing || word || doubts; }
};

/// Whether of two records of one start a's status is the later.
bool overrides(const MemberRecord& a, const MemberRecord& b);
/// Takes over what is newer in the other record of the same member; says what that was.
News take_newer(MemberRecord& ours, const MemberRecord& theirs, Planted planted);

/// How long a suspect has for its refutation: `most` where one member suspects it, `least` where `needed`
/// others have confirmed it, in between by the logarithm (Dadgar, Phillips, Currey, "Lifeguard", DSN-W 2018,
/// section IV.B). Where nobody else is there to confirm it, `most`.
double suspicion_s(double least_s, double most_s, std::size_t confirmed, std::size_t needed);

}  // namespace gossamer::node
