#pragma once
// Small peers' states to save, each of its own bits.
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "checkpoint.h"
#include "replica.h"

namespace gossamer::node::test {

/// Two layers with padding between and behind: a [2,3] and b [3] at 0, c [extra] at 16.
inline std::vector<optim::Layer> layers_of(std::size_t extra = 5) {
  return {{"one", 0, 9, {{"a", {2, 3}, 0}, {"b", {3}, 6}}}, {"two", 16, extra, {{"c", {extra}, 16}}}};
}

inline std::vector<std::byte> random_bytes(std::mt19937_64& random, std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

/// Arrays of all kinds, of sizes that are drawn; x has padding 0.
inline State state_of(const std::vector<optim::Layer>& layers, std::uint64_t seed, std::size_t most = 300) {
  std::mt19937_64 random(seed);
  State state;
  const std::size_t floats = (layers.back().offset + layers.back().size + 15) / 16 * 16;
  NamedArray& x = state[kParametersArray];
  x = {NamedArray::Kind::floats, std::vector<std::byte>(4 * floats)};
  for (const optim::Layer& layer : layers) {
    const auto bytes = random_bytes(random, 4 * layer.size);
    std::copy(bytes.begin(), bytes.end(), x.bytes.begin() + static_cast<std::ptrdiff_t>(4 * layer.offset));
  }
  const auto size = [&] { return random() % (most + 1); };
  state["data/slot1"] = {NamedArray::Kind::floats, random_bytes(random, 4 * size())};
  state["data/objective"] = {NamedArray::Kind::bytes, random_bytes(random, size())};
  state["control/round"] = {NamedArray::Kind::numbers, random_bytes(random, 8)};
  state["control/empty"] = {NamedArray::Kind::doubles, {}};
  state["control/losses"] = {NamedArray::Kind::doubles, random_bytes(random, 8 * size())};
  return state;
}

inline CheckpointHead head_of(const std::string& peer, Round round, std::uint64_t run = 0x1234,
                              std::vector<std::string> peers = {"ann", "bob"}) {
  CheckpointHead head;
  head.peer = peer;
  head.peers = std::move(peers);
  head.round = round;
  head.run = run;
  head.share_done = 0.1 * static_cast<double>(round % 10);
  head.epoch = static_cast<double>(round) / 3;
  head.job = "peers = 2\n[model]\nkind = \"mlp\"  # \xc3\xbc \"quoted\" \\ \t\n";
  head.figures = {{"accuracy", 0.5 + 0.01 * static_cast<double>(round % 7)}, {"loss", 0.25}};
  return head;
}

}  // namespace gossamer::node::test
