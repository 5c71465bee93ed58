#pragma once
// Which entries a sparse codec sends, on the device.
#include <cstddef>
#include <cstdint>

#include "arena.h"
#include "gossamer/compress/device.h"
#include "gossamer/compress/selection.h"

namespace gossamer::compress::cuda {

struct Input;

/// Selected entries in device memory, ascending.
struct Chosen {
  std::uint32_t* indices;
  float* values;
  unsigned long long* count;
};

/// The search for one magnitude by its rank: bits from the highest on.
struct RankState {
  std::uint32_t prefix;     ///< its leading bits, then the magnitude
  unsigned long long rank;  ///< among the entries with this prefix, from 1
  unsigned long long bins[2048 + 1024 + 1024];
};

/// What a search keeps between its kernels. All of it, and its ranks, start as zeros.
struct SearchState {
  std::uint32_t list_from;    ///< leading bits that candidates reach
  std::uint32_t listed_fit;   ///< the candidates are in the list
  unsigned long long listed;  ///< candidates
  unsigned long long ticket[2];
};

/// Memory of one search among n entries of which at most `most` are selected.
struct SearchRoom {
  std::size_t most;
  SearchState* state;
  RankState* ranks;              ///< the first one's magnitude, and its rank, are the cut in the end
  unsigned long long* above[2];  ///< of each tile, for look-back
  unsigned long long* equal[2];
  std::uint32_t* list_indices;  ///< candidates
  float* list_values;
  std::size_t capacity;  ///< of the list
  std::size_t cleared;   ///< bytes from state on that must be zeros
  Chosen chosen;
};
SearchRoom take_search_room(Arena& arena, std::size_t n, std::size_t most, unsigned ranks);
void clear_search(const SearchRoom& room, void* stream);

/// One or several ranks from above, the last of them, which is the largest, is that of the least candidate.
struct Ranks {
  static constexpr unsigned kMost = 4;
  std::size_t of[kMost];
  unsigned count;
};
/// Puts the magnitudes of these ranks ≥ 1 into room.ranks, and the candidates into the list; refuses entries
/// that are not finite. Where the list holds the candidates v stands in input.next from then on.
void find_ranks(const Input& input, std::size_t n, const Ranks& ranks, const SearchRoom& room,
                DeviceResult* result, void* stream);
/// Keeps what is above the first rank's magnitude, and as many of its equals as its rank says, the lowest
/// indices first; leaves v in input.next.
void take_cut(const Input& input, std::size_t n, const SearchRoom& room, DeviceResult* result, void* stream);

/// Keeps all magnitudes ≥ cut > 0; refuses entries that are not finite, and leaves v in input.next.
void select_reaching(const Input& input, std::size_t n, float cut, const SearchRoom& room,
                     DeviceResult* result, void* stream);

}  // namespace gossamer::compress::cuda
