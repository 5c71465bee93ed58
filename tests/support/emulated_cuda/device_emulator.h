#pragma once
// A CUDA device played on the CPU, so that kernels are tested where there is none. Each thread of a kernel is
// a fiber; barriers and warp intrinsics are the only places where another one runs. Which one is drawn from a
// seed, and several blocks run at once, so that a missing barrier or a reliance on the order of threads or
// blocks shows as a wrong result for some seed. Device memory is heap memory, whose bounds a sanitizer knows.
// What real devices would let pass or leave undefined (a warp intrinsic that not all lanes reach, threads
// that are no whole warps, a barrier that some never reach) ends the program with a message.
#include <cstddef>
#include <cstdint>
#include <functional>

namespace gossamer::emulated {

struct Index {
  unsigned x = 0, y = 0, z = 0;
};

/// The thread that runs now.
struct Place {
  Index thread, block, threads, blocks;
};
const Place& place();

/// Draws the order of threads, blocks and streams of what is launched from now on.
void set_seed(std::uint64_t seed);

/// Runs body once for each thread of the grid.
void run_grid(std::size_t blocks, unsigned threads, const std::function<void()>& body);

/// Memory that the threads of one block share, told apart by id; filled with garbage at first.
void* shared(const void* id, std::size_t bytes);

/// Another thread may run.
void pause();
/// __syncthreads.
void wait_for_block();
/// All 32 lanes hand in a value and see those of all: the base of every warp intrinsic. kind is the
/// intrinsic's name, the same in all lanes.
const std::uint64_t* exchange_in_warp(const char* kind, unsigned mask, std::uint64_t value);

/// Work of a stream (streams.h), or of the graph that it is being captured for.
void enqueue(void* stream, std::function<void()> work);

}  // namespace gossamer::emulated
