#pragma once
// The figures of a finished run, as a table, as JSON.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "setup.h"
#include "worker.h"

namespace gossamer::node {

struct Summary {
  std::string job, method, codec, topology, staleness;
  std::size_t peers = 0;
  bool has_accuracy = true;
  double test_accuracy = 0, test_loss = 0;               ///< of the average over peers
  double peer_accuracy_mean = 0, peer_accuracy_min = 0;  ///< of the peers' own models
  double train_loss = 0;                                 ///< mean over peers and the last epoch's steps
  double seconds = 0;                   ///< first round's start to last round's end, the slowest peer's
  std::uint64_t steps = 0;              ///< rounds that every peer finished
  double samples_per_second = 0;        ///< all peers together
  double bytes_sent_per_peer = 0;       ///< all frames, mean over peers
  double data_bytes_sent_per_peer = 0;  ///< those of parcels alone
  double bits_per_parameter =
      0;  ///< and message: bits of parcel frames, headers included, per parameter they carry
  double consensus_distance = 0;  ///< (1/P) Σ ‖x_i − x̄‖²
  double staleness_mean = 0, staleness_max = 0;
  std::optional<double> virtual_seconds,
      virtual_samples_per_second;     ///< simulated runs; seconds is then the wall's
  std::optional<std::string> digest;  ///< 16 hexadecimal digits
};

/// parameters[i]: peer i's model; own_models: also evaluate each of them.
Summary summarise(const Prepared& prepared, std::span<const WorkerResult> results,
                  std::span<const std::span<const float>> parameters, bool own_models);
/// The average over peers, buffer_size floats, summed in peer order in double precision.
AlignedFloats average(std::span<const std::span<const float>> parameters);

std::string to_json(const Summary& summary);
/// Reads to_json's text; empty where it is something else.
std::optional<Summary> parse_summary(const std::string& text);
/// One column a run, one row a figure.
std::string to_table(std::span<const Summary> runs);

/// "0", "4" or "unbounded"
std::string staleness_text(const std::optional<std::uint64_t>& staleness);

}  // namespace gossamer::node
