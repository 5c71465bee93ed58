#include "allreduce_choice.h"

namespace gossamer::node {

Halving::Halving(PeerId peers) {
  while (ranks * 2 <= peers) {
    ranks *= 2;
    ++steps;
  }
  surplus = peers - ranks;
}

}  // namespace gossamer::node
