#pragma once
// In which order frames of a link leave: those of lower numbers first.
#include <cstdint>

namespace gossamer::node::priority {

inline constexpr std::uint32_t kControl = 0;  ///< repeats what it says: an old one gives way to newer ones
inline constexpr std::uint32_t kStates = 1;   ///< members' states, and who asks for them; of no view
// Parcels, which a view's end makes useless. Messages are delivered in the order of their numbers, so that
// none may overtake an earlier one; a frame that was lost goes before all that waits, since everything behind
// it waits for it.
inline constexpr std::uint32_t kResent = 2, kMessages = 3;

}  // namespace gossamer::node::priority
