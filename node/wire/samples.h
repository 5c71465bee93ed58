#pragma once
// Samples tell how far a run is in which nobody waits for anybody: those that all peers together have taken
// in, as far as one of them knows. Asynchronous methods count the iterations of all peers (Lian et al. 2018,
// AD-PSGD, algorithm 1; Assran et al. 2019, SGP): were each to follow its own rounds, the fast ones would be
// done, at the end of their rates' schedule, while the slow went on alone and pulled all to itself.
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "archive.h"
#include "ids.h"
#include "planted.h"

namespace gossamer::node {

struct PeerSamples {
  PeerId peer = 0;
  std::uint64_t samples = 0;
  friend bool operator==(const PeerSamples&, const PeerSamples&) = default;
};

/// Peers ascend. Two numbers each, 7 bits a byte from the lowest on, the highest bit set in all but the last:
/// how many peers are passed over since the one before, and the samples.
std::vector<std::byte> to_bytes(std::span<const PeerSamples> counts);
constexpr std::size_t kMostBytesOfCount = 12;  ///< of to_bytes, each
/// Empty where the bytes are none of to_bytes, or a number is beyond what a run can come to.
std::optional<std::vector<PeerSamples>> samples_from_bytes(std::span<const std::byte> bytes);

/// Counts of all peers since they started. They never fall, so that what two peers know merges by maximum, in
/// whatever order it comes; a peer that is gone still counts.
class Samples {
 public:
  /// total: of all peers, at which the run ends.
  Samples(std::size_t peers, PeerId self, double total, Planted planted = {});

  /// The own count; true where it is to be told now. It is told by steps of a 256th of what is left to each
  /// peer, so that a peer's count crosses a link some hundred times in a run however short its steps are.
  bool count(std::uint64_t samples);
  /// Takes over what is higher than here; true where anything was. That is news then, to be told on at once.
  bool merge(std::span<const PeerSamples> theirs);
  /// What was to be told since this was last asked.
  std::vector<PeerSamples> take_news();
  std::vector<PeerSamples> all() const;

  /// Of the run, by what is known; above 1 where peers have gone on before they heard of each other.
  double share() const { return static_cast<double>(sum_) / total_; }
  void archive(Archive archive);
  bool complete() const { return static_cast<double>(sum_) >= total_; }

 private:
  void raise(PeerId peer, std::uint64_t samples);

  PeerId self_;
  double total_;
  std::vector<std::uint64_t> counts_;
  std::vector<bool> is_news_;
  std::vector<PeerId> news_;
  std::uint64_t sum_ = 0, told_ = 0;  ///< told_: of the own count
  [[no_unique_address]] Planted planted_;
};

}  // namespace gossamer::node
