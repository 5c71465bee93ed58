// What a checkpoint costs: the copy of a peer's state, for which its training pauses; writing it, beside a
// plain file of as many bytes that is synced; and bytes on the disk for each of the state.
//   bench_checkpoint [FOLDER [millions of parameters [times]]]
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint.h"
#include "replica.h"

using namespace gossamer;
using namespace gossamer::node;

namespace {

double seconds_of(const auto& call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// x, momentum and residual: floats that no disk could store in less.
State large_state(std::size_t parameters) {
  State state;
  std::uint64_t random = 88172645463325252ull;
  for (const char* name : {kParametersArray, "data/optimizer/momentum", "data/encoder/residual"}) {
    NamedArray& array = state[name];
    array.kind = NamedArray::Kind::floats;
    array.bytes.resize(parameters * sizeof(float));
    for (std::byte& b : array.bytes) {
      random ^= random << 13, random ^= random >> 7, random ^= random << 17;
      b = static_cast<std::byte>(random);
    }
  }
  return state;
}

std::uint64_t bytes_of(const State& state) {
  std::uint64_t bytes = 0;
  for (const auto& entry : state) bytes += entry.second.bytes.size();
  return bytes;
}

void write_plainly(Storage& storage, const std::filesystem::path& path, const State& state) {
  const auto file = storage.create(path);
  for (const auto& entry : state) file->write(entry.second.bytes);
  file->sync();
}

/// Of memory that this process has had at once.
double most_megabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024 / 1e6;
}

}  // namespace

int main(int argc, char** argv) try {
  const std::filesystem::path folder = argc > 1 ? argv[1] : "bench_checkpoint.tmp";
  const std::size_t parameters = (argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 25) * 1'000'000 / 16 * 16;
  const int times = argc > 3 ? std::atoi(argv[3]) : 5;
  const std::vector<optim::Layer> layers{{"all", 0, parameters, {{"all", {parameters}, 0}}}};
  const State state = large_state(parameters);
  const std::uint64_t bytes = bytes_of(state);
  PosixStorage storage;
  CheckpointFolder checkpoints(storage, folder);
  storage.make_folders(folder);
  CheckpointHead head;
  head.peer = "peer0";
  head.peers = {"peer0"};
  head.job = std::string(4000, 'j');

  const double before = most_megabytes();
  checkpoints.write(head, layers, state);
  const double memory = most_megabytes() - before;
  std::vector<double> copies, writes, plain, reads;
  std::uint64_t on_disk = 0;
  for (int n = 0; n < times; ++n) {
    head.round = static_cast<Round>(n);
    copies.push_back(seconds_of([&] { const State copy = state; }));
    plain.push_back(seconds_of([&] { write_plainly(storage, folder / "plain", state); }));
    storage.remove(folder / "plain");
    writes.push_back(seconds_of([&] { on_disk = checkpoints.write(head, layers, state); }));
    reads.push_back(seconds_of([&] {
      if (checkpoints.read(checkpoints.find(head.round, "peer0"), layers) != state) std::abort();
    }));
    checkpoints.remove(head.round, "peer0");
  }
  storage.remove(folder);
  const double megabytes = static_cast<double>(bytes) / 1e6;
  std::printf("state        %.1f MB in %zu arrays, medians of %d\n", megabytes, state.size(), times);
  std::printf("copy         %.0f ms  (the pause)\n", 1e3 * median(copies));
  std::printf("write        %.0f MB/s\n", megabytes / median(writes));
  std::printf("memory       %.1f MB more at its peak while it is written\n", memory);
  std::printf("plain write  %.0f MB/s  (one file, synced)\n", megabytes / median(plain));
  std::printf("ratio        %.2f  (a checkpoint's time over a plain file's)\n",
              median(writes) / median(plain));
  std::printf("read         %.0f MB/s  (verified, out of the page cache)\n", megabytes / median(reads));
  std::printf("on disk      %.4f bytes for each of the state\n",
              static_cast<double>(on_disk) / static_cast<double>(bytes));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "bench_checkpoint: %s\n", error.what());
  return 1;
}
