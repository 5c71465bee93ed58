#pragma once
// Which entries a sparse codec sends, on the device.
#include <cstddef>
#include <cstdint>

#include "arena.h"
#include "gossamer/compress/device.h"

namespace gossamer::compress::cuda {

struct Input;

/// Selected entries in device memory, ascending.
struct Chosen {
  std::uint32_t* indices;
  float* values;
  unsigned long long* count;
};

/// What a search keeps between its kernels; all of it starts as zeros.
struct SearchState {
  std::uint32_t prefix;       ///< leading bits of the threshold, then the threshold: bits of a magnitude
  std::uint32_t listed_fit;   ///< the candidates are in the list
  unsigned long long rank;    ///< of the threshold among the entries with this prefix, from 1
  unsigned long long listed;  ///< candidates
  unsigned long long ticket[2];
  unsigned long long bins[2048 + 1024 + 1024];
};

/// Memory of one search among n entries of which at most `most` are selected.
struct SearchRoom {
  SearchState* state;
  unsigned long long* above[2];  ///< of each tile, for look-back
  unsigned long long* equal[2];
  std::uint32_t* list_indices;  ///< candidates
  float* list_values;
  std::size_t capacity;  ///< of the list
  std::size_t cleared;   ///< bytes from state on that must be zeros
  Chosen chosen;
};
SearchRoom take_search_room(Arena& arena, std::size_t n, std::size_t most);

/// Finds the k ≥ 1 largest magnitudes, ties to the lowest index; refuses entries that are not finite, and
/// leaves v in input.next.
void select_largest(const Input& input, std::size_t n, std::size_t k, const SearchRoom& room,
                    DeviceResult* result, void* stream);
/// The same for all magnitudes ≥ cut > 0.
void select_reaching(const Input& input, std::size_t n, float cut, const SearchRoom& room,
                     DeviceResult* result, void* stream);

}  // namespace gossamer::compress::cuda
