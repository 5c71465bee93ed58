// By hand, and for tests/chaos: writes checkpoints of two peers, round after round, until it is killed, a
// disk is full or so many rounds are done; says "committed N" once both have round N, and keeps two rounds.
//
//   write_loop FOLDER [--bytes BYTES of each state] [--rounds N]
//   write_loop FOLDER --check N [--bytes BYTES]    ends with 0 where round N is what was written, bit for bit
#include <fmt/format.h>

#include <iostream>
#include <set>

#include "checkpoint.h"
#include "checkpoint_rounds.h"
#include "gossamer/node/errors.h"
#include "states.h"

using namespace gossamer::node;
using namespace gossamer::node::test;

namespace {

constexpr std::size_t kKeep = 2;
const std::vector<std::string> kPeers{"ann", "bob"};

struct Options {
  std::string folder;
  std::uint64_t bytes = 200'000, rounds = UINT64_MAX;
  std::optional<Round> check;
};

Options options_of(int argc, char** argv) {
  Options options;
  if (argc < 2 || argc % 2 != 0)
    throw std::runtime_error("usage: write_loop FOLDER [--bytes N] [--rounds N] [--check N]");
  options.folder = argv[1];
  for (int i = 2; i < argc; i += 2) {
    const std::string flag = argv[i];
    const std::uint64_t value = std::stoull(argv[i + 1]);
    if (flag == "--bytes") options.bytes = value;
    if (flag == "--rounds") options.rounds = value;
    if (flag == "--check") options.check = value;
  }
  return options;
}

std::vector<gossamer::optim::Layer> layers_in(const Options& options) { return layers_of(options.bytes / 8); }

State state_in(const Options& options, Round round, std::size_t peer) {
  State state = state_of(layers_in(options), 2 * round + peer, 50);
  std::mt19937_64 random(2 * round + peer);
  state["data/slot2"] = {NamedArray::Kind::floats, random_bytes(random, options.bytes / 8 * 4)};
  return state;
}

void write_round(CheckpointFolder& folder, const Options& options, Round round) {
  for (std::size_t peer = 0; peer < kPeers.size(); ++peer) {
    folder.write(head_of(kPeers[peer], round, 0x1234, kPeers), layers_in(options),
                 state_in(options, round, peer));
    std::vector<Round> rounds;
    for (const CheckpointFolder::Place& place : folder.places())
      if (place.peer == kPeers[peer]) rounds.push_back(place.round);
    for (const Round gone : superfluous(rounds, std::nullopt, kKeep, std::nullopt))
      folder.remove(gone, kPeers[peer]);
  }
  std::cout << "committed " << round << std::endl;
}

void write_on(CheckpointFolder& folder, const Options& options) {
  Round newest = 0;
  for (const std::string& peer : kPeers) folder.sweep(peer);
  for (const CompleteRound& complete : complete_rounds(folder.list())) newest = complete.round;
  for (std::uint64_t n = 1; n <= options.rounds; ++n) write_round(folder, options, newest + n);
}

void check(const CheckpointFolder& folder, const Options& options) {
  for (std::size_t peer = 0; peer < kPeers.size(); ++peer)
    if (folder.read(folder.find(*options.check, kPeers[peer]), layers_in(options)) !=
        state_in(options, *options.check, peer))
      throw std::runtime_error("what was read is not what was written");
}

}  // namespace

int main(int argc, char** argv) try {
  const Options options = options_of(argc, argv);
  PosixStorage storage;
  CheckpointFolder folder(storage, options.folder);
  if (options.check)
    check(folder, options);
  else
    write_on(folder, options);
  return 0;
} catch (const std::exception& error) {
  std::cerr << "write_loop: " << error.what() << '\n';
  return 1;
}
